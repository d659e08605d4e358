//! Programs in XLA's own format, `HloModuleProto`.
//!
//! `proto` contains the messages. `shape` converts types and literals. `instruction`, `collective` and `dimensions`
//! convert opcodes and their fields, and `sharding` converts sharding annotations. `body` stores the values and ops of
//! a computation that is being converted. `legalize` rewrites the instructions that StableHLO lacks. `computation`
//! converts computations to functions and regions, and `module` converts the module. `write` and `fields` convert
//! StableHLO to HLO.

mod body;
mod collective;
mod computation;
mod dimensions;
mod fields;
mod instruction;
mod legalize;
mod module;
mod proto;
mod shape;
mod sharding;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use module::{parse, parse_with_config};
pub(crate) use write::write;
