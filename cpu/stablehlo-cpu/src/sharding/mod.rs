//! The types for shardings that the engine and the partitioner share.
//!
//! `parser` reads annotations: Shardy's attributes and GSPMD's strings. `grid` expresses annotations in one grid of
//! devices. `grid_layout` finds this grid. `op_sharding` defines the form of a sharding that PJRT returns to clients.
//! `mesh_groups` computes the replica groups of collectives that specify their groups as mesh axes.

pub(crate) mod attributes;
pub(crate) mod grid;
mod grid_layout;
mod mesh_groups;
mod op_sharding;
pub(crate) mod parser;

pub(crate) use mesh_groups::mesh_groups;
pub use op_sharding::OpSharding;
