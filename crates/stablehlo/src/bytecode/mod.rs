//! Reader for portable artifacts: MLIR bytecode of all versions of the VHLO dialect.
//!
//! [`container`] indexes the sections, [`entries`] decodes attributes and types at their first use, and [`ir_section`]
//! reads the ops. The data of constants is not copied, but stays a slice of the program.

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
