//! Verification of the IR, for all readers.
//!
//! `walk` checks structure: values are defined before use and in scope, regions end in a return and there are as many as
//! the op needs, callees exist and do not recurse, types agree where control passes from op to op. `shapes` and
//! `contractions` compute the shape of each op's results, check dimension numbers and element types. A rule is added
//! by adding an arm there; `elements` has the sets of element types. [`VerifyLevel`] lists the rules that not every caller needs.

mod asynchronous;
mod attributes;
mod calls;
mod chlo;
mod constants;
mod contractions;
mod control;
mod custom_call;
mod dynamic;
mod elements;
mod infer;
mod level;
mod quantized;
mod shapes;
mod site;
mod string_attributes;
mod untyped_ops;
mod walk;

pub use infer::{infer, infer_op};
pub use level::VerifyLevel;
pub use walk::verify;
