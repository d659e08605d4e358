//! Splits a program for several devices by its sharding annotations (SPMD).

mod op_sharding;

pub use op_sharding::OpSharding;
