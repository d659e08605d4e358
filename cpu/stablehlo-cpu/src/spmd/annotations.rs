//! Reads the sharding annotations of a program's values and ops.

use stablehlo::ir::{Attribute, Attributes, Op, OpKind, ValueId};

use super::role::{Role, role};
use crate::error::CompileError;
use crate::sharding::attributes::{find, text};
use crate::sharding::grid::Sharding;
use crate::sharding::parser::{self, ParsedSharding};

type Result<T> = std::result::Result<T, CompileError>;

/// Returns the annotation among the attributes of an argument or a result.
pub(super) fn of_value(attributes: &Attributes) -> Result<Option<ParsedSharding>> {
    if let Some(text) = find(attributes, "sdy.sharding").and_then(text) {
        return Ok(Some(parser::sharding(&text)?));
    }
    of_gspmd(attributes)
}

/// Returns GSPMD's annotation. Returns `None` if there is no annotation or if it is `{unknown}`. Automatic sharding and
/// sharding groups write `{unknown}` for values whose sharding the partitioner chooses.
fn of_gspmd(attributes: &Attributes) -> Result<Option<ParsedSharding>> {
    match find(attributes, "mhlo.sharding").and_then(text) {
        Some(text) if text.starts_with("{unknown") => Ok(None),
        Some(text) => Ok(Some(parser::tiles(&text)?)),
        None => Ok(None),
    }
}

/// Returns the ID of the sharding group to which the op adds a value, and the value. Returns `None` for any other op.
/// All members of a group have the same sharding.
pub(super) fn group_of(op: &Op) -> Option<(i64, ValueId)> {
    match &op.kind {
        OpKind::Other { name, attributes } if name == "sdy.sharding_group" => {
            let id = find(attributes, "group_id").and_then(Attribute::as_integer)?;
            Some((id, *op.operands.first()?))
        }
        OpKind::CustomCall { .. } if role(op) == Role::Constraint => {
            let text = find(&op.attributes, "mhlo.sharding").and_then(text)?;
            let (_, id) = text.split_once(" shard_as ")?;
            Some((id.trim_end_matches('}').trim().parse().ok()?, *op.results.first()?))
        }
        _ => None,
    }
}

/// Returns whether GSPMD's annotation marks the op as manual.
pub(super) fn is_manual(op: &Op) -> Result<bool> {
    Ok(of_gspmd(&op.attributes)? == Some(ParsedSharding::Manual))
}

/// Returns the annotations of an op, one per result. For a manual computation, returns those of the operands and
/// results.
pub(super) fn of_op(op: &Op) -> Result<Vec<ParsedSharding>> {
    match (role(op), &op.kind) {
        (Role::Constraint, OpKind::Other { attributes, .. }) => {
            let text = find(attributes, "sharding").and_then(text);
            Ok(text.map(|text| parser::sharding(&text)).transpose()?.into_iter().collect())
        }
        (Role::Constraint | Role::FullToShard | Role::ShardToFull, _) => {
            Ok(of_value(&op.attributes)?.into_iter().collect())
        }
        (Role::ManualComputation, OpKind::Other { attributes, .. }) => {
            let mut all = Vec::new();
            for name in ["in_shardings", "out_shardings"] {
                let list = find(attributes, name).and_then(text);
                all.extend(parser::shardings(&list.ok_or_else(|| missing(name))?)?);
            }
            Ok(all)
        }
        _ => match find(&op.attributes, "sdy.sharding").and_then(text) {
            Some(text) => Ok(parser::shardings(&text)?),
            None => Ok(Vec::new()),
        },
    }
}

pub(super) fn missing(name: &str) -> CompileError {
    CompileError::invalid(format!("attribute `{name}` is missing"))
}

/// Marks the dimensions that a custom call's configuration leaves unspecified as open. Open dimensions may be sharded
/// along more axes.
pub(super) fn open_dims(op: &Op, sharding: &mut Sharding) {
    if let OpKind::CustomCall { backend_config, .. } = &op.kind
        && let Some(config) = text(backend_config)
    {
        for d in parser::unspecified_dims(&config) {
            if let Some(open) = sharding.open.get_mut(d) {
                *open = true;
            }
        }
    }
}
