//! Properties of ops that are not part of [`OpKind`](crate::ir::OpKind), generated from the tables in `op_table.rs`:
//! opcodes, names, the valid numbers of operands, results and regions, and the attributes of portable artifacts.

mod artifact;
mod counts;
pub(crate) mod fields;
mod hash;
mod opcode;

pub(crate) use artifact::{
    NEWEST_OP, Names, const_str, is_attribute, is_own, names, second, shardy_attributes, since, vhlo_attributes,
    with_lengths,
};
pub(crate) use counts::{Count, counts};
pub(crate) use opcode::Opcode;
pub use opcode::op_names;
