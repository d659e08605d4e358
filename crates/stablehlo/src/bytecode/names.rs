//! Resolves the op names of a bytecode file, once per name.

use super::container::{Container, OpName};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::{Names, Opcode, shardy_attributes, vhlo_attributes};

/// Newest version of any VHLO op. The attributes of an op with a newer version are unknown.
const NEWEST_OP: u32 = 2;

/// How the reader converts an op.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Module,
    Func,
    /// `builtin.unrealized_conversion_cast`. Its results become aliases of its operands.
    Cast,
    Op,
}

/// The name of an op in the file, and the data that the reader derives from the name.
pub(super) struct Name {
    /// Name without the version, such as `stablehlo.add` or `sdy.mesh`.
    pub(super) full: String,
    pub(super) role: Role,
    pub(super) code: Opcode,
    /// Names of the op's inherent attributes in the order of its properties, if the order is known.
    pub(super) attributes: Option<Names>,
    pub(super) vhlo: bool,
}

pub(super) fn resolve(container: &Container<'_>) -> Result<Vec<Name>> {
    container.op_names.iter().map(|&name| resolve_one(container, name)).collect()
}

fn resolve_one(container: &Container<'_>, name: OpName<'_>) -> Result<Name> {
    if name.dialect == "vhlo" && !name.name.is_empty() {
        return vhlo(container, name.name);
    }
    let full = &name.full()[..];
    let other =
        |role, code| Name { full: full.to_owned(), role, code, attributes: shardy_attributes(full), vhlo: false };
    Ok(match full {
        "builtin.module" => other(Role::Module, Opcode::Other),
        "builtin.unrealized_conversion_cast" => other(Role::Cast, Opcode::Other),
        "sdy.return" => other(Role::Op, Opcode::Return),
        _ if full.starts_with("stablehlo.") || full.starts_with("func.") => {
            return Err(Error::new(
                ErrorKind::Version,
                format_args!(
                    "{full} in a file by {}: this is StableHLO's own bytecode, which has no stability guarantee; \
                 write a portable artifact (stablehlo.serialize_portable_artifact) or text instead",
                    container.producer
                ),
            ));
        }
        // The printer and the text reader treat a name without a dialect as an op of StableHLO, so reject such a name.
        _ if !full.contains('.') => return Err(unknown(container, full)),
        _ => match full.strip_prefix("vhlo.") {
            Some(versioned) => vhlo(container, versioned)?,
            None => other(Role::Op, Opcode::Other),
        },
    })
}

/// Resolves the name of a VHLO op, such as `add_v1`.
fn vhlo(container: &Container<'_>, versioned: &str) -> Result<Name> {
    // Split at `v` and then remove `_`, because searching for a character is faster than searching for the string `_v`.
    let split = versioned.rsplit_once('v').and_then(|(base, v)| Some((base.strip_suffix('_')?, v)));
    let split = split.and_then(|(base, v)| Some((base, v.parse::<u32>().ok()?)));
    let full = || ["vhlo.", versioned].concat();
    let Some((base, version)) = split else { return Err(unknown(container, &full())) };
    if version > NEWEST_OP {
        return Err(Error::new(
            ErrorKind::Version,
            format_args!("{} in an artifact of {} is newer than this reader", full(), container.producer),
        ));
    }
    let attributes = vhlo_attributes(base, version);
    if (base, version) == ("func", 1) {
        return Ok(Name { full: "func.func".into(), role: Role::Func, code: Opcode::Other, attributes, vhlo: true });
    }
    let code = Opcode::from_name(base);
    // The table of attribute names does not list ops without attributes, so accept version 1 of every other known op.
    let plain = version == 1 && code != Opcode::Other;
    if attributes.is_none() && !plain {
        return Err(unknown(container, &full()));
    }
    Ok(Name { full: ["stablehlo.", base].concat(), role: Role::Op, code, attributes, vhlo: true })
}

#[cold]
fn unknown(container: &Container<'_>, full: &str) -> Error {
    Error::new(ErrorKind::UnknownOp, format_args!("unknown op {full} in an artifact of {}", container.producer))
}
