//! The types for shardings that the engine and the partitioner share.
//!
//! `parser` reads annotations: Shardy's attributes and GSPMD's strings. `grid` expresses annotations in one grid of
//! devices. `grid_layout` finds this grid. `op_sharding` defines the form of a sharding that PJRT returns to clients.

pub(crate) mod grid;
mod grid_layout;
mod op_sharding;

pub use op_sharding::OpSharding;
pub(crate) use stablehlo_passes::__private::{sharding_attributes as attributes, sharding_text as parser};
