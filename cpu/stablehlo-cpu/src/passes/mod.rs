//! Passes that rewrite whole programs before they are lowered. `compile` defines their order.

mod combine_all_reduces;
mod decompose_quantized;
mod expand_scans;
mod inline_async_ops;
mod layout_assignment;
mod pad_bounded_arrays;
mod quantized_type;

pub(crate) use combine_all_reduces::combine_all_reduces;
pub(crate) use decompose_quantized::decompose_quantized;
pub(crate) use expand_scans::expand_scans;
pub(crate) use inline_async_ops::inline_async_ops;
pub use layout_assignment::preferred_output_order;
pub(crate) use layout_assignment::{assign_layouts, export_attributes};
pub(crate) use pad_bounded_arrays::pad_bounded_arrays;
