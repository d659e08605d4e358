//! Programs in XLA's own form, `HloModuleProto`.
//!
//! `proto` holds the messages, `shape` converts types and literals, `instruction` and `collective` convert opcodes and
//! their fields, `legalize` rewrites of forms that StableHLO lacks, `sharding` annotations for partitioners;
//! `computation` walks computations and builds functions and regions, and `module` the module.

mod collective;
mod computation;
mod instruction;
mod legalize;
mod module;
mod proto;
mod shape;
mod sharding;
#[cfg(test)]
mod tests;

pub(crate) use module::{parse, parse_with_config};
