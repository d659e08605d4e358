#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod apply;
mod assign_layouts;
mod build;
pub mod c_kernel;
mod canonicalize;
mod canonicalize_dots;
mod combine_all_reduces;
mod cost;
mod counted_loop;
mod decompose_quantized;
mod effects;
mod eliminate_common_subexpressions;
mod eliminate_dead_code;
mod evaluate;
mod expand_batch_norm;
mod expand_chlo;
mod expand_complex;
mod expand_composites;
mod expand_gather_scatter;
mod expand_reduce_window;
mod expand_scans;
mod extract;
mod fold_constants;
pub mod index_map;
mod inline_async_ops;
mod loops;
mod mesh_groups;
mod names;
mod outline;
mod outline_unsupported;
mod patterns;
mod pipeline;
pub mod plan;
mod quantized_type;
mod recognize_threefry;
mod refine_shapes;
mod remove_shardings;
mod replica_groups;
mod sharding_attributes;
mod sharding_text;
mod sizes;
mod store_as_bytes;
mod uses;
mod widen_narrow_types;

pub use assign_layouts::{Layouts, assign_layouts};
pub use canonicalize::canonicalize;
pub use canonicalize_dots::canonicalize_dots;
pub use combine_all_reduces::combine_all_reduces;
pub use cost::{Cost, cost};
pub use counted_loop::{CountedLoop, counted_loop};
pub use decompose_quantized::decompose_quantized;
pub use eliminate_common_subexpressions::eliminate_common_subexpressions;
pub use eliminate_dead_code::eliminate_dead_code;
pub use expand_batch_norm::expand_batch_norm;
pub use expand_chlo::expand_chlo;
pub use expand_complex::expand_complex;
pub use expand_composites::expand_composites;
pub use expand_gather_scatter::expand_gather_scatter;
pub use expand_reduce_window::expand_reduce_window;
pub use expand_scans::expand_scans;
pub use extract::extract;
pub use fold_constants::fold_constants;
pub use inline_async_ops::inline_async_ops;
pub use outline::{Outline, outline};
pub use outline_unsupported::{Outlined, OutlinedFunction, OutlinedOp, outline_unsupported};
pub use patterns::{Pattern, recognize_patterns};
pub use pipeline::Pipeline;
pub use recognize_threefry::recognize_threefry;
pub use refine_shapes::refine_shapes;
pub use remove_shardings::remove_shardings;
pub use replica_groups::{replica_groups, source_target_pairs};
pub use store_as_bytes::store_as_bytes;
pub use uses::Uses;
pub use widen_narrow_types::widen_narrow_types;

/// Items that the crates `stablehlo-cpu` and `host-fallback` use. Not part of the public API.
#[doc(hidden)]
pub mod __private {
    pub use crate::effects::is_collective;
    pub use crate::mesh_groups::mesh_groups;

    /// The attributes that contain shardings and meshes.
    pub mod sharding_attributes {
        pub use crate::sharding_attributes::*;
    }

    /// The text form of shardings.
    pub mod sharding_text {
        pub use crate::sharding_text::*;
    }
}
