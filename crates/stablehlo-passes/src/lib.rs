#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod apply;
mod combine_all_reduces;
mod decompose_quantized;
mod effects;
mod eliminate_dead_code;
mod expand_scans;
mod extract;
mod inline_async_ops;
mod outline;
mod outline_unsupported;
mod quantized_type;
mod remove_shardings;

pub use combine_all_reduces::combine_all_reduces;
pub use decompose_quantized::decompose_quantized;
pub use eliminate_dead_code::eliminate_dead_code;
pub use expand_scans::expand_scans;
pub use extract::extract;
pub use inline_async_ops::inline_async_ops;
pub use outline::{Outline, outline};
pub use outline_unsupported::{Outlined, OutlinedFunction, OutlinedOp, outline_unsupported};
pub use remove_shardings::remove_shardings;
