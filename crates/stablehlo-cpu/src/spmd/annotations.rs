//! Reads the sharding annotations of a program's values and ops.

use std::collections::HashMap;

use stablehlo::ir::{Attribute, Attributes, Module, Op, OpKind};

use super::grid::Sharding;
use super::plan::{Role, role};
use super::written::{self, Written, WrittenMesh};
use crate::engine::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

pub(super) fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
}

pub(super) fn text(attribute: &Attribute) -> Option<String> {
    match attribute {
        Attribute::Other(text) | Attribute::Symbol(text) => Some(text.clone()),
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// The annotation among the attributes of an argument or a result.
pub(super) fn of_value(attributes: &Attributes) -> Result<Option<Written>> {
    if let Some(text) = find(attributes, "sdy.sharding").and_then(text) {
        return written::sharding(&text).map(Some);
    }
    match find(attributes, "mhlo.sharding").and_then(text) {
        Some(text) => written::tiles(&text).map(Some),
        None => Ok(None),
    }
}

/// Whether GSPMD's annotation marks the op as manual.
pub(super) fn is_manual(op: &Op) -> Result<bool> {
    let written = find(&op.attributes, "mhlo.sharding").and_then(text).map(|text| written::tiles(&text)).transpose()?;
    Ok(written == Some(Written::Manual))
}

/// The annotations of an op, one per result, or of the operands and results of a manual computation.
pub(super) fn of_op(op: &Op) -> Result<Vec<Written>> {
    match (role(op), &op.kind) {
        (Role::Constraint, OpKind::Other { attributes, .. }) => {
            find(attributes, "sharding").and_then(text).map(|text| written::sharding(&text)).into_iter().collect()
        }
        (Role::Constraint | Role::FullToShard | Role::ShardToFull, _) => {
            Ok(of_value(&op.attributes)?.into_iter().collect())
        }
        (Role::ManualComputation, OpKind::Other { attributes, .. }) => {
            let mut all = Vec::new();
            for name in ["in_shardings", "out_shardings"] {
                let list = find(attributes, name).and_then(text);
                all.extend(written::shardings(&list.ok_or_else(|| missing(name))?)?);
            }
            Ok(all)
        }
        _ => match find(&op.attributes, "sdy.sharding").and_then(text) {
            Some(text) => written::shardings(&text),
            None => Ok(Vec::new()),
        },
    }
}

pub(super) fn missing(name: &str) -> CompileError {
    CompileError::invalid(format!("attribute `{name}` is missing"))
}

/// Opens the dimensions that a custom call's configuration leaves open.
pub(super) fn open_dims(op: &Op, sharding: &mut Sharding) {
    if let OpKind::CustomCall { backend_config, .. } = &op.kind
        && let Some(config) = text(backend_config)
    {
        for d in written::unspecified_dims(&config) {
            if let Some(open) = sharding.open.get_mut(d) {
                *open = true;
            }
        }
    }
}

/// The meshes of the program, by `@name`.
pub(super) fn meshes(module: &Module) -> Result<HashMap<String, WrittenMesh>> {
    let mut meshes = HashMap::new();
    for (op, attributes) in &module.symbols {
        if op == "sdy.mesh"
            && let Some(name) = find(attributes, "sym_name").and_then(text)
            && let Some(mesh) = find(attributes, "mesh").and_then(text)
        {
            meshes.insert(format!("@{name}"), written::mesh(&mesh)?);
        }
    }
    Ok(meshes)
}
