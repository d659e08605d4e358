//! Verification of the IR, for all readers and for the builder.
//!
//! `walk` checks the structure. Values are defined before use and in scope. Regions end in a return, and each op has a
//! valid number of regions. Callees exist and do not recurse. Types match where an op passes values to its regions or
//! to a callee. `shapes` and `contractions` compute the shape of each op's results, and check dimension numbers and
//! element types. To add a rule, add a match arm in one of these two modules. `elements` defines the sets of element
//! types. [`VerifyLevel`] selects the rules.

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
