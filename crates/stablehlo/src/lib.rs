//! Builds StableHLO programs, reads them into a typed IR, checks them, prints them, and writes them as portable
//! artifacts.
//!
//! To build a program, use the module `builder`. It requires the feature `builder`, which is enabled by default.
//!
//! A framework sends a program to a device as a *portable artifact* (MLIR bytecode of a versioned dialect) or as text.
//! [`parse`] accepts both formats and returns a [`Module`](ir::Module), which a device can use without MLIR.
//!
//! ```
//! use stablehlo::VerifyLevel;
//! use stablehlo::ir::OpKind;
//!
//! let module = stablehlo::parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!   %0 = stablehlo.add %x, %x : tensor<2xf32>
//!   return %0 : tensor<2xf32>
//! }", VerifyLevel::FULL)?;
//! let main = module.entry().expect("a function named main");
//! assert_eq!(main.ty(main.args()[0]).to_string(), "tensor<2xf32>");
//! assert!(matches!(main.body.ops[0].kind, OpKind::Binary(_)));
//! # Ok::<(), stablehlo::Error>(())
//! ```
//!
//! [`Module::print`](ir::Module::print) and `Display` print a module as MLIR text. [`write()`] creates a portable
//! artifact for a chosen StableHLO version.
//!
//! ```
//! use stablehlo::VerifyLevel;
//!
//! let module = stablehlo::parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!   %0 = stablehlo.tan %x : tensor<2xf32>
//!   return %0 : tensor<2xf32>
//! }", VerifyLevel::FULL)?;
//! let artifact = stablehlo::write(&module, "1.9.0".parse()?)?;
//! assert_eq!(stablehlo::parse(artifact, VerifyLevel::FULL)?.to_string(), module.to_string());
//! // An op that a version lacks is an error that names the op and the required version.
//! let error = stablehlo::write(&module, "1.0.0".parse()?).expect_err("`tan` came with 1.4.0");
//! assert!(error.to_string().starts_with("stablehlo.tan: the op needs StableHLO 1.4.0"));
//! # Ok::<(), stablehlo::Error>(())
//! ```
//!
//! # Guarantees for a device
//!
//! `parse` runs [`verify`](verify()) at the level that the caller passes. [`VerifyLevel::STRUCTURE`] checks the
//! properties that a device relies on: values are defined before use and in scope, regions end in a return, callees
//! exist and do not recurse, constants have the size of their types, and the shapes of typed ops are consistent.
//! [`VerifyLevel::FULL`] adds the specification's rules for quantized types, CHLO, custom calls, collectives,
//! transfers, string attributes and constant shape operands. No cargo feature changes which programs are rejected.
//! Older artifacts are upgraded with the specification's defaults. `dot` and `broadcast` become `dot_general` and
//! `broadcast_in_dim`, casts between dialects are removed, and absent list attributes get their default elements.
//!
//! Malicious input results in an error. It cannot cause a panic, deep recursion, or excessive use of memory.
#![forbid(unsafe_code)]

#[macro_use]
mod op_table;

mod attributes;
#[cfg(feature = "builder")]
pub mod builder;
mod bytecode;
mod compatible;
mod error;
mod float;
pub mod hazards;
#[cfg(feature = "hlo")]
mod hlo;
mod inline;
pub mod ir;
mod limits;
mod location;
pub mod lower;
mod op_builder;
mod ops;
mod print;
mod rewrite;
mod signature;
// Without the feature `text`, most of this module is dead code. `write` still uses it to parse the types and attributes
// that the IR keeps as text.
#[cfg_attr(not(feature = "text"), allow(dead_code))]
mod text;
mod types;
mod verify;
mod version;
mod write;

use bytes::Bytes;

pub use error::{Error, ErrorKind, Result};
pub use float::{FloatFormat, NonFinite};
pub use inline::{inline, inline_ops};
pub use ops::op_names;
pub use print::PrintOptions;
pub use rewrite::{Patch, rewrite};
pub use verify::{VerifyLevel, infer, infer_op, verify};
pub use write::write;

/// Parses and verifies a portable artifact of StableHLO 0.9.0 or later. With the feature `text`, also accepts MLIR
/// text.
///
/// # Errors
///
/// Returns an error if the program is malformed, if it is text and the feature `text` is disabled, or if
/// [`verify`](verify()) rejects the program at this level.
pub fn parse(program: impl Into<Bytes>, level: VerifyLevel) -> Result<ir::Module> {
    let program = program.into();
    let module = if is_artifact(&program) { bytecode::parse(&program)? } else { parse_text(&program)? };
    verify(&module, level)?;
    Ok(module)
}

/// Returns whether a program starts with the magic bytes of portable artifacts. [`parse`] reads any other program as
/// text.
#[must_use]
pub fn is_artifact(program: &[u8]) -> bool {
    program.starts_with(&version::MAGIC)
}

#[cfg(feature = "text")]
fn parse_text(program: &Bytes) -> Result<ir::Module> {
    text::parse(program)
}

#[cfg(not(feature = "text"))]
fn parse_text(_: &Bytes) -> Result<ir::Module> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "the program is not a portable artifact; to read text, enable the feature `text`",
    ))
}

/// Parses and verifies a serialized `HloModuleProto`, XLA's own format. PJRT calls this format `hlo`.
///
/// Returns the equivalent StableHLO program. Tuples are flattened, so an entry computation that returns a tuple has one
/// result for each array or token in the tuple. The computations that `call`, `fusion` and `custom-call` apply become
/// functions. The computations of other instructions become regions of their ops. `input_output_alias` and
/// `buffer_donor` become attributes of `main`'s arguments.
///
/// # Errors
///
/// Returns an error if the bytes are not a valid `HloModuleProto`, if an opcode or a shape has no counterpart in
/// StableHLO, or if [`verify`](verify()) rejects the program at this level. If the conversion fails, the error names
/// the instruction, its opcode and its computation.
#[cfg(feature = "hlo")]
pub fn parse_hlo(program: impl Into<Bytes>, level: VerifyLevel) -> Result<ir::Module> {
    let module = hlo::parse(program.into())?;
    verify(&module, level)?;
    Ok(module)
}

/// Parses and verifies a serialized `HloModuleProtoWithConfig`. PJRT calls this format `hlo_with_config`. Works like
/// [`parse_hlo`], and also stores the config's replica count and partition count as module attributes.
///
/// # Errors
///
/// Returns an error in the same cases as [`parse_hlo`], and if an entry layout is not the default layout.
#[cfg(feature = "hlo")]
pub fn parse_hlo_with_config(program: impl Into<Bytes>, level: VerifyLevel) -> Result<ir::Module> {
    let module = hlo::parse_with_config(program.into())?;
    verify(&module, level)?;
    Ok(module)
}

/// Writes a program as a serialized `HloModuleProto`, XLA's own format. PJRT calls this format `hlo`. Use it for
/// plugins that do not read StableHLO.
///
/// If the regions of a loop or a conditional use values from outside, these values become elements of the tuple that is
/// passed to the computations. The format does not contain the replica count and the partition count. Pass them as
/// compile options.
///
/// ```
/// use stablehlo::VerifyLevel;
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///   %0 = stablehlo.tanh %x : tensor<2xf32>
///   return %0 : tensor<2xf32>
/// }", VerifyLevel::FULL)?;
/// let hlo = stablehlo::write_hlo(&module)?;
/// let again = stablehlo::parse_hlo(hlo, VerifyLevel::FULL)?;
/// assert_eq!(again.entry().expect("a function named main").results, module.entry().expect("the same").results);
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns [`ErrorKind::Unsupported`] if this function cannot express an op, an attribute or a type in HLO. Examples
/// are ops of other dialects, dynamic and quantized ops, transfers, shardings, and reducers that use values from
/// outside. The error names the op and its location.
#[cfg(feature = "hlo")]
pub fn write_hlo(module: &ir::Module) -> Result<Vec<u8>> {
    hlo::write(module)
}

/// Runs the examples of the package's README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
