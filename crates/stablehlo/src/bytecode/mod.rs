//! Portable artifacts: MLIR bytecode holding the VHLO dialect, every version.
//!
//! [`container`] indexes the sections, [`entries`] decodes attributes and types when first named, [`ir_section`] reads the
//! ops. Constants stay slices of the program.

mod container;
mod cursor;
mod entries;
mod funcs;
mod ir_section;
mod locations;
mod names;
mod op_cache;
mod shardy;
mod types;

pub(crate) use ir_section::parse;
