//! Reads programs as text, in StableHLO's pretty form (MLIR's custom assembly format) and in MLIR's generic form.
//!
//! This is a recursive-descent parser. [`parser`] stores its state and reads tokens, [`ops`] parses the syntax that all
//! ops share, and [`pretty`] parses the keywords of each op's pretty form.

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
#[cfg(feature = "builder")]
pub(crate) use entry::{op_attributes, whole_dictionary};
