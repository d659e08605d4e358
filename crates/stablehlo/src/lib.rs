//! Reads StableHLO programs into a typed IR.
//!
//! A framework hands a device its program as a *portable artifact* (MLIR bytecode of a versioned dialect) or as text.
//! [`parse`] takes either and returns a [`Module`](ir::Module) a device can walk without knowing MLIR.
#![forbid(unsafe_code)]

mod attributes;
mod bytecode;
mod error;
mod float;
pub mod ir;
mod literal;
mod location;
mod ops;
mod text;
mod typed;
mod types;
mod verify;

use bytes::Bytes;

pub use error::{Error, Result};
pub use verify::verify;

/// Deepest nesting of regions, attributes and types a program may have. Reading needs stack in proportion.
const MAX_NESTING: usize = 64;

/// Reads a program: a portable artifact of StableHLO 0.9.0 or later, or text.
pub fn parse(program: impl Into<Bytes>) -> Result<ir::Module> {
    let program = program.into();
    let module =
        if program.starts_with(&bytecode::MAGIC) { bytecode::parse(&program)? } else { text::parse(&program)? };
    verify(&module)?;
    Ok(module)
}
