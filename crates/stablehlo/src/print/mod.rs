//! Prints programs as StableHLO text, in the form of MLIR's own printer.
//!
//! [`ops`] prints the form of each op, [`generic`] lists the attributes of the generic form, [`attributes`] prints
//! attributes and constants, and [`names`] names values.

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
