//! Programs as StableHLO text, in the form MLIR's own printer gives it.
//!
//! [`ops`] holds the form of each op, [`generic`] its attributes for the form all ops share, [`attributes`] attributes
//! and constants, [`names`] what values are called.

mod attributes;
mod fields;
mod float;
mod generic;
mod locations;
mod module;
mod names;
mod ops;
mod printer;
mod regions;

pub(crate) use float::float_text;
pub(crate) use module::visibility;
pub use printer::PrintOptions;
pub(crate) use printer::{attribute_text, quoted};
