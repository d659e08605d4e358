//! Resolves the op names of a bytecode file, once per name.

use std::borrow::Cow;

use super::container::{Container, OpName};
use crate::attributes::joined;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::Version;
use crate::ops::{NEWEST_OP, Names, Opcode, shardy_attributes, vhlo_attributes};

/// How the reader converts an op.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Module,
    Func,
    /// `builtin.unrealized_conversion_cast`. Its results become aliases of its operands.
    Cast,
    Op,
    /// An op that this reader does not know. A file may have such a name if no op uses it.
    Unknown,
    /// A version of an op that is newer than all versions that this reader knows.
    Newer,
}

/// The name of an op in the file, and the data that the reader derives from the name.
pub(super) struct Name<'a> {
    /// Name without the version, such as `add` or `sdy.mesh`. The name of a StableHLO op has no dialect.
    rest: Cow<'a, str>,
    pub(super) role: Role,
    pub(super) code: Opcode,
    /// Names of the op's inherent attributes in the order of its properties, if the order is known.
    pub(super) attributes: Option<Names>,
    pub(super) vhlo: bool,
}

impl Name<'_> {
    /// Returns the name with the dialect and without the version, such as `stablehlo.add` or `sdy.mesh`.
    pub(super) fn full(&self) -> String {
        let dialect = if self.is_stablehlo() { "stablehlo." } else { "" };
        joined(&[dialect, &self.rest])
    }

    /// Returns the name without the dialect and the version.
    pub(super) fn base(&self) -> &str {
        if self.is_stablehlo() { &self.rest } else { self.rest.split_once('.').map_or("", |(_, base)| base) }
    }

    /// Returns the error for an op that this reader does not know. It names the StableHLO versions of the artifact and
    /// of this reader, because a newer reader may know the op.
    #[cold]
    pub(super) fn unknown(&self, container: &Container<'_>) -> Error {
        let newest = Version::NEWEST;
        let is_newer = self.role == Role::Newer || container.stablehlo_version.is_some_and(|version| version > newest);
        Error::new(
            if is_newer { ErrorKind::Version } else { ErrorKind::UnknownOp },
            format_args!("unknown op in an artifact of {}; this reader knows StableHLO {newest}", container.producer),
        )
    }

    fn is_stablehlo(&self) -> bool {
        self.vhlo && self.role == Role::Op
    }
}

pub(super) fn resolve<'a>(container: &Container<'a>) -> Result<Vec<Name<'a>>> {
    let mut names = Vec::with_capacity(container.op_names.len());
    for &name in &container.op_names {
        names.push(resolve_one(container, name)?);
    }
    Ok(names)
}

fn resolve_one<'a>(container: &Container<'a>, name: OpName<'a>) -> Result<Name<'a>> {
    if name.dialect == "vhlo" && !name.name.is_empty() {
        return Ok(vhlo(name.name));
    }
    let full = &name.full()[..];
    let other = |role, code| Name {
        rest: full.to_owned().into(),
        role,
        code,
        attributes: shardy_attributes(full),
        vhlo: false,
    };
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
        _ if !full.contains('.') => unknown(full.to_owned(), false),
        _ => match full.strip_prefix("vhlo.") {
            Some(versioned) => {
                let name = vhlo(versioned);
                Name { rest: name.rest.into_owned().into(), ..name }
            }
            None => other(Role::Op, Opcode::Other),
        },
    })
}

/// Resolves the name of a VHLO op, such as `add_v1`.
fn vhlo(versioned: &str) -> Name<'_> {
    // Split at `v` and then remove `_`, because searching for a character is faster than searching for the string `_v`.
    let split = versioned.rsplit_once('v').and_then(|(base, v)| Some((base.strip_suffix('_')?, v)));
    let split = split.and_then(|(base, v)| Some((base, v.parse::<u32>().ok()?)));
    let full = || joined(&["vhlo.", versioned]);
    let Some((base, version)) = split else { return unknown(full(), false) };
    let attributes = vhlo_attributes(base, version);
    if (base, version) == ("func", 1) {
        let rest = "func.func".into();
        return Name { rest, role: Role::Func, code: Opcode::Other, attributes, vhlo: true };
    }
    let code = Opcode::from_name(base);
    // The table of attribute names does not list ops without attributes, so accept version 1 of every other known op.
    let plain = version == 1 && code != Opcode::Other;
    if attributes.is_none() && !plain {
        return unknown(full(), version > NEWEST_OP);
    }
    Name { rest: base.into(), role: Role::Op, code, attributes, vhlo: true }
}

/// Returns the name of an op that this reader does not know. `is_newer` is whether the name has a version of an op that
/// is newer than all that this reader knows.
fn unknown<'a>(full: String, is_newer: bool) -> Name<'a> {
    let role = if is_newer { Role::Newer } else { Role::Unknown };
    Name { rest: full.into(), role, code: Opcode::Other, attributes: None, vhlo: false }
}
