//! Partitions a program over several devices by its sharding annotations (SPMD).
//!
//! A framework writes one program for all devices and annotates how some of its values are sharded. [`partition`]
//! creates the program that each device runs on its shards. The program contains collectives where devices must
//! exchange shards. The grid is one arrangement of all partitions. Each axis of a mesh corresponds to one or several
//! axes of the grid. `annotations` reads the shardings of values and ops. `plan` propagates them along the ops by
//! `rules`, and `split` rewrites the ops with `build`. `placement` moves arguments and results whose meshes are not in
//! the grid.
//!
//! If an op cannot run on shards, its operands are gathered, and its result is computed in full and then sharded again.
//! This is slow, but correct.

mod annotations;
mod build;
mod control;
mod host_calls;
mod linear;
mod outside;
mod partial_sums;
mod partition;
mod placement;
mod plan;
mod reshard;
mod role;
mod round_trip;
mod rules;
mod split;
mod spread;
mod state;

#[cfg(test)]
mod tests;

pub(crate) use partition::has_manual_parts;
pub use partition::{Partitioned, partition};

pub use crate::sharding::OpSharding;
