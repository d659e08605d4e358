//! Names of ops and their locations for error messages.

use stablehlo::ir::{Func, Module, Op, OpKind};

use crate::error::Place;

/// Returns the specification's name of an op, such as `dot_general`. The name of a custom call includes its target. The
/// name of an op of another dialect includes the dialect.
pub(crate) fn op_name(kind: &OpKind) -> String {
    if let OpKind::CustomCall { call_target_name, .. } = kind {
        return format!("custom_call @{call_target_name}");
    }
    let name = kind.name();
    name.strip_prefix("stablehlo.").map_or(name.clone(), str::to_owned)
}

/// Describes an op for an error message. The description contains the types of the op, its sharding and its location in
/// the user's program.
pub(crate) fn place(module: &Module, func: &Func, op: &Op) -> Place {
    let (name, signature) = (op_name(&op.kind), op.signature(&func.values));
    // Programs without locations have empty ones.
    let location = Some(module.location(op.location).to_string()).filter(|location| !location.is_empty());
    let at = location.as_ref().map_or_else(String::new, |location| format!(" at {location}"));
    let description = format!("{name} : {signature} of function `{}`{at}", func.name);
    Place { operation: Some(op.kind.name()), location, description }
}
