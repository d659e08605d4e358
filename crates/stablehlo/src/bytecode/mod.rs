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

use bytes::Bytes;

pub(crate) use container::MAGIC;
pub(crate) use locations::EncodedLocations;

use crate::error::Result;
use crate::ir::Module;

/// Reads a portable artifact.
pub(crate) fn parse(program: &Bytes) -> Result<Module> {
    ir_section::Walk::new(entries::Tables::new(program)?)?.run()
}
