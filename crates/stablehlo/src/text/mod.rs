//! Reads programs as text: the pretty and the generic form of StableHLO, as MLIR prints them and as people write them.
//!
//! This is one recursive-descent parser. [`parser`] holds its state and reads tokens, [`ops`] reads the parts that all
//! ops share, and [`pretty`] reads the words of each op's own form.

mod attributes;
mod canonical;
mod dense;
mod entry;
mod module;
mod ops;
mod parser;
mod pretty;
mod regions;
mod scope;
mod structured;
mod types;

#[cfg(feature = "hlo")]
pub(crate) use entry::dictionary;
#[cfg(feature = "text")]
pub(crate) use entry::parse;
pub(crate) use entry::{fields, function_type, whole_attribute, whole_type};
