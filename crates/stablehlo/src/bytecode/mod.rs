//! Reader for portable artifacts, which are MLIR bytecode of a version of the VHLO dialect.
//!
//! [`container`] indexes the sections, [`entries`] decodes attributes and types at their first use, and [`ir_section`]
//! reads the ops. The data of a constant is a slice of the program, unless its elements are narrower than a byte and
//! must be unpacked.

mod append;
mod container;
mod cursor;
mod entries;
mod funcs;
mod ir_section;
mod locations;
mod names;
mod op_cache;
mod pattern;
mod shardy;
mod types;

pub(crate) use ir_section::parse;
pub(crate) use types::type_texts;
