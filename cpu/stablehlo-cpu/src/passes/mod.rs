//! Passes that rewrite whole programs before they are lowered, beside those of `stablehlo-passes`. `compile` defines
//! their order.

mod layout_assignment;
mod pad_bounded_arrays;

pub use layout_assignment::preferred_output_order;
pub(crate) use layout_assignment::{assign_layouts, export_attributes};
pub(crate) use pad_bounded_arrays::pad_bounded_arrays;
