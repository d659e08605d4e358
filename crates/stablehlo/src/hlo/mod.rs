//! Programs in XLA's own form, `HloModuleProto`.
//!
//! `proto` holds the messages. `shape` converts types and literals, `instruction` and `collective` convert opcodes and
//! their fields, and `sharding` converts annotations for partitioners. `legalize` rewrites the forms that StableHLO
//! lacks. `computation` converts computations to functions and regions, and `module` converts the module. `write` and
//! `fields` convert programs back.

mod collective;
mod computation;
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
