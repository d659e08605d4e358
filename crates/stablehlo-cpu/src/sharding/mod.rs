//! The types for shardings that the engine and the partitioner share.
//!
//! `parser` reads annotations: Shardy's attributes and GSPMD's strings. `grid` expresses annotations in one grid of
//! devices, which `grid_layout` finds. `op_sharding` is the form that PJRT returns to clients. `mesh_groups` resolves
//! the groups of collectives.

pub(crate) mod attributes;
pub(crate) mod grid;
mod grid_layout;
mod mesh_groups;
mod op_sharding;
pub(crate) mod parser;

pub(crate) use mesh_groups::mesh_groups;
pub use op_sharding::OpSharding;
