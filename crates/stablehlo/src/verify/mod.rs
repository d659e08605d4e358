//! Verification of the IR, for all readers.
//!
//! `walk` checks the structure. Values are defined before use and in scope. Regions end in a return, and each op has as
//! many regions as it needs. Callees exist and do not recurse. Types agree where control passes from op to op. `shapes`
//! and `contractions` compute the shape of each op's results, and check dimension numbers and element types. To add a
//! rule, add a match arm there. `elements` defines the sets of element types. [`VerifyLevel`] lists the rules that not
//! every caller needs.

mod asynchronous;
mod attributes;
mod calls;
mod chlo;
mod collectives;
mod constants;
mod contractions;
mod control;
mod custom_call;
mod dynamic;
mod elements;
mod ensure;
mod full_rules;
mod infer;
mod level;
mod normalization;
mod quantized;
mod shapes;
mod site;
mod slot;
mod string_attributes;
mod transfers;
mod walk;

#[cfg(feature = "builder")]
pub(crate) use infer::infer_in;
pub use infer::{infer, infer_op};
pub use level::VerifyLevel;
#[cfg(feature = "builder")]
pub(crate) use quantized::expressed;
pub use walk::verify;
#[cfg(feature = "builder")]
pub(crate) use walk::{check_op, check_type};
