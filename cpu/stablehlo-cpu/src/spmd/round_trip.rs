//! Reads Shardy's annotations from strings. Clients send annotations as strings to devices that may not support Shardy.
//!
//! The strings are in `mhlo.frontend_attributes`. Custom calls and calls represent the ops of Shardy's dialect:
//!
//! | string form | Shardy's dialect |
//! |---|---|
//! | `xla.sdy.meshes` of the module | `sdy.mesh` |
//! | `xla.sdy.sharding` of arguments and ops | `sdy.sharding` |
//! | custom call `Sharding` with `xla.sdy.sharding` | `sdy.sharding_constraint` |
//! | custom call `xla.sdy.FuncResultSharding` | `sdy.sharding` of a result of the function |
//! | custom call `xla.sdy.ShardingGroup` | `sdy.sharding_group` |
//! | custom call `xla.sdy.PropagationBarrier` | none, because the call is removed |
//! | custom call `xla.sdy.GlobalToLocalShape`, call of `xla.sdy.manual_computation_body`, custom call `xla.sdy.LocalToGlobalShape` | `sdy.manual_computation` |

use std::collections::HashMap;

use stablehlo::ir::{Attribute, Attributes, ElementType, Func, Module, Op, OpKind, Region, ValueId, ValueIds};

use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// Prefix of the names of functions that are bodies of manual computations. A number may follow the prefix.
pub(super) const MANUAL_BODY: &str = "xla.sdy.manual_computation_body";

const FRONTEND: &str = "mhlo.frontend_attributes";
const PREFIX: &str = "xla.sdy.";

/// Converts the program to Shardy's own attributes and ops. Returns `None` if the module has no `xla.sdy.meshes`.
pub(super) fn as_attributes(module: &Module) -> Result<Option<Module>> {
    if find(&module.attributes, "meshes").is_none() {
        return Ok(None);
    }
    let mut module = module.clone();
    let found = take(&mut module.attributes);
    let meshes = match found.iter().find(|(name, _)| name == "meshes").map(|(_, value)| value) {
        Some(Attribute::Dictionary(entries)) => {
            entries.iter().filter_map(|(name, mesh)| Some((name.clone(), text(mesh)?))).collect()
        }
        Some(value) => meshes(&text(value).unwrap_or_default())?,
        None => Vec::new(),
    };
    for (name, mesh) in meshes {
        let name = Attribute::String(name.into_bytes().into());
        let attributes = vec![("mesh".to_owned(), Attribute::Other(mesh)), ("sym_name".to_owned(), name)];
        module.symbols.push(("sdy.mesh".to_owned(), attributes));
    }
    module.funcs.iter_mut().try_for_each(function)?;
    Ok(Some(module))
}

fn function(func: &mut Func) -> Result<()> {
    for attributes in func.arg_attributes.iter_mut().chain(&mut func.result_attributes) {
        for (name, value) in take(attributes) {
            if let ("sharding", Some(text)) = (name.as_str(), text(&value)) {
                annotate(attributes, text);
            }
        }
    }
    let mut rewrite = Rewrite::default();
    let returned = func.body.ops.last().map(|op| op.operands.clone()).unwrap_or_default();
    rewrite.region(&mut func.body)?;
    for (value, attributes) in returned.iter().zip(&mut func.result_attributes) {
        if let Some(sharding) = rewrite.results.remove(value) {
            annotate(attributes, sharding);
        }
    }
    Ok(())
}

fn annotate(attributes: &mut Attributes, sharding: String) {
    attributes.retain(|(name, _)| name != "sdy.sharding");
    attributes.push(("sdy.sharding".to_owned(), Attribute::Other(sharding)));
}

/// Returns the frontend attribute whose name is `name` after the prefix `xla.sdy.`.
fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find_map(|(key, value)| match value {
        Attribute::Dictionary(entries) if key == FRONTEND => {
            entries.iter().find(|(key, _)| key.strip_prefix(PREFIX) == Some(name)).map(|(_, value)| value)
        }
        _ => None,
    })
}

/// Removes the frontend attributes with the prefix `xla.sdy.`, and returns them by their names without the prefix.
fn take(attributes: &mut Attributes) -> Attributes {
    let mut taken = Attributes::new();
    attributes.retain_mut(|(key, value)| {
        let Attribute::Dictionary(entries) = value else { return true };
        if key != FRONTEND {
            return true;
        }
        entries.retain(|(key, value)| {
            let name = key.strip_prefix(PREFIX);
            taken.extend(name.map(|name| (name.to_owned(), value.clone())));
            name.is_none()
        });
        !entries.is_empty()
    });
    taken
}

/// Returns the text of a string or an unparsed attribute. Undoes the additional level of escapes in a string.
fn text(attribute: &Attribute) -> Option<String> {
    match attribute {
        Attribute::Other(text) => Some(text.clone()),
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes).replace("\\22", "\"").replace("\\\"", "\"")),
        _ => None,
    }
}

/// Parses `{mesh = #sdy.mesh<["x"=2]>, other = #sdy.mesh<[], device_ids=[0]>}` into names and meshes.
fn meshes(text: &str) -> Result<Vec<(String, String)>> {
    let wrong = || CompileError::invalid(format!("xla.sdy.meshes: `{text}` is not a list of meshes"));
    let mut rest = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?;
    let mut meshes = Vec::new();
    while !rest.trim().is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(wrong)?;
        let after = after.trim_start();
        let end = after.find('>').filter(|_| after.starts_with("#sdy.mesh<")).ok_or_else(wrong)?;
        meshes.push((name.trim().trim_matches('"').to_owned(), after[..=end].to_owned()));
        rest = after[end + 1..].trim_start().trim_start_matches(',');
    }
    Ok(meshes)
}

/// Returns the only sharding of a `sharding_per_value` attribute. Returns a `sharding` attribute unchanged.
fn single(text: &str) -> Result<String> {
    let inner = text.strip_prefix("#sdy.sharding_per_value<[").and_then(|rest| rest.strip_suffix("]>"));
    match inner {
        Some(inner) => Ok(format!("#sdy.sharding{inner}")),
        None if text.starts_with("#sdy.sharding<") => Ok(text.to_owned()),
        None => Err(CompileError::invalid(format!("xla.sdy.sharding: `{text}` is not the sharding of one value"))),
    }
}

#[derive(Default)]
struct Rewrite {
    /// The replacement of each replaced value.
    same: HashMap<ValueId, ValueId>,
    /// Annotations that apply only to the function's results.
    results: HashMap<ValueId, String>,
    /// For each operand of a manual computation, its global value and the attributes of the op that converts it.
    entered: HashMap<ValueId, (ValueId, Attributes)>,
    /// The calls of the bodies of manual computations, and the attributes of each call, by the first result of the
    /// call.
    called: HashMap<ValueId, (Op, Attributes)>,
}

/// Parses the ID of a sharding group, such as `21 : i64`.
fn group_id(attribute: &Attribute) -> Option<Attribute> {
    let text = text(attribute)?;
    let number = text.split(':').next()?.trim().parse().ok()?;
    Some(Attribute::Integer(number, ElementType::I64))
}

fn missing(what: &str) -> CompileError {
    CompileError::invalid(format!("a manual computation without {what}"))
}

impl Rewrite {
    fn region(&mut self, region: &mut Region) -> Result<()> {
        for mut op in std::mem::take(&mut region.ops) {
            for operand in &mut op.operands {
                *operand = self.same.get(operand).copied().unwrap_or(*operand);
            }
            op.regions.iter_mut().try_for_each(|region| self.region(region))?;
            if let Some(op) = self.op(op)? {
                region.ops.push(op);
            }
        }
        Ok(())
    }

    /// Converts an op to Shardy's dialect. Returns `None` if the op is removed.
    fn op(&mut self, mut op: Op) -> Result<Option<Op>> {
        let mut found = take(&mut op.attributes);
        let sharding = found.iter().find(|(name, _)| name == "sharding").and_then(|(_, value)| text(value));
        let group = found.iter().find(|(name, _)| name == "sharding_group_id").and_then(|(_, value)| group_id(value));
        found.retain_mut(|(name, value)| {
            *value = text(value).map_or_else(|| value.clone(), Attribute::Other);
            matches!(name.as_str(), "in_shardings" | "out_shardings" | "manual_axes")
        });
        let target = match &op.kind {
            OpKind::CustomCall { call_target_name, .. } => {
                call_target_name.strip_prefix("local_").unwrap_or(call_target_name)
            }
            OpKind::Call { callee } if callee.starts_with(MANUAL_BODY) => return self.call(op, found),
            _ => "",
        };
        match (target, sharding) {
            ("Sharding", Some(sharding)) => {
                let attributes = vec![("sharding".to_owned(), Attribute::Other(single(&sharding)?))];
                op.kind = OpKind::Other { name: "sdy.sharding_constraint".to_owned(), attributes };
                op.attributes.retain(|(name, _)| name != "mhlo.sharding");
            }
            ("xla.sdy.FuncResultSharding", Some(sharding)) => {
                let sharding = single(&sharding)?;
                self.results.extend(op.results.iter().map(|&result| (result, sharding.clone())));
                self.same.extend(op.results.iter().copied().zip(op.operands));
                return Ok(None);
            }
            ("xla.sdy.PropagationBarrier", _) => {
                self.same.extend(op.results.iter().copied().zip(op.operands));
                return Ok(None);
            }
            ("xla.sdy.ShardingGroup", _) => {
                let attributes =
                    vec![("group_id".to_owned(), group.ok_or_else(|| missing("xla.sdy.sharding_group_id"))?)];
                op.kind = OpKind::Other { name: "sdy.sharding_group".to_owned(), attributes };
            }
            ("xla.sdy.GlobalToLocalShape", _) => {
                for (&local, &global) in op.results.iter().zip(&op.operands) {
                    self.entered.insert(local, (global, found.clone()));
                }
                return Ok(None);
            }
            ("xla.sdy.LocalToGlobalShape", _) => {
                let call = op.operands.first().and_then(|first| self.called.remove(first));
                let (call, told) = call.ok_or_else(|| missing("a body"))?;
                found.extend(told);
                return self.manual_computation(call, found, op.results).map(Some);
            }
            (_, Some(sharding)) => annotate(&mut op.attributes, sharding),
            _ => {}
        }
        Ok(Some(op))
    }

    fn call(&mut self, op: Op, mut found: Attributes) -> Result<Option<Op>> {
        if let Some((_, told)) = op.operands.first().and_then(|local| self.entered.get(local)) {
            found.extend(told.iter().cloned());
        }
        match op.results.first() {
            Some(&first) => {
                self.called.insert(first, (op, found));
                Ok(None)
            }
            None => self.manual_computation(op, found, ValueIds::new()).map(Some),
        }
    }

    /// Builds the manual computation that replaces this call.
    fn manual_computation(&self, call: Op, found: Attributes, results: ValueIds) -> Result<Op> {
        let globals = call.operands.iter().map(|local| self.entered.get(local).map(|(global, _)| *global));
        let operands = globals.collect::<Option<ValueIds>>().ok_or_else(|| missing("a global value of an operand"))?;
        let get = |name: &str| found.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let axes = get("manual_axes").ok_or_else(|| missing("manual axes"))?;
        let none = || Attribute::Other("#sdy.sharding_per_value<[]>".to_owned());
        let attributes = vec![
            ("in_shardings".to_owned(), get("in_shardings").unwrap_or_else(none)),
            ("manual_axes".to_owned(), axes),
            ("out_shardings".to_owned(), get("out_shardings").unwrap_or_else(none)),
        ];
        let kind = OpKind::Other { name: "sdy.manual_computation".to_owned(), attributes };
        let location = call.location;
        let end = Op { location, ..Op::new(OpKind::Return, call.results.clone(), ValueIds::new()) };
        let region = Region { args: call.operands.to_vec(), ops: vec![call.clone(), end] };
        Ok(Op { location, regions: vec![region], ..Op::new(kind, operands, results) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_meshes() {
        let list = meshes("{m = #sdy.mesh<[\"x\"=2, \"y\"=2]>, \"n 1\" = #sdy.mesh<[], device_ids=[0]>}").unwrap();
        let of = |name: &str, mesh: &str| (name.to_owned(), mesh.to_owned());
        assert_eq!(list, [of("m", "#sdy.mesh<[\"x\"=2, \"y\"=2]>"), of("n 1", "#sdy.mesh<[], device_ids=[0]>")]);
        assert_eq!(meshes("{}").unwrap(), []);
        for wrong in ["", "{m}", "{m = 3}", "{m = #sdy.mesh<[}"] {
            assert_eq!(meshes(wrong).unwrap_err().kind(), crate::CompileErrorKind::Invalid, "{wrong}");
        }
    }
}
