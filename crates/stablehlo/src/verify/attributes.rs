//! Checks attributes and types that the IR keeps as text. The printer writes this text unchanged, so parsing the
//! printed text must return the same attribute.

use std::collections::HashSet;

use super::site::ensure;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::ops::{is_attribute, is_own};

/// Checks the attributes of a module, and of its top-level ops other than functions with a body.
pub(super) fn module(module: &Module) -> Result<()> {
    dictionary(&module.attributes)?;
    let has_name = module.attributes.iter().any(|(name, _)| name == "sym_name");
    ensure!(
        Attribute,
        !has_name,
        "attribute `sym_name` of a module must be a string, and the module must have no other name"
    );
    for (name, attributes) in &module.symbols {
        dictionary(attributes).and_then(|()| symbol(name, attributes)).map_err(|e| e.with_op(name))?;
    }
    Ok(())
}

/// Checks the attributes of a function, of its arguments and of its results.
pub(super) fn func(func: &Func) -> Result<()> {
    dictionary(&func.attributes)?;
    func.arg_attributes.iter().chain(&func.result_attributes).try_for_each(dictionary)
}

/// Checks the attributes of an op.
#[inline]
pub(super) fn op(op: &Op) -> Result<()> {
    if !op.attributes.is_empty() {
        without_field(op)?;
    }
    match &op.kind {
        OpKind::Other { attributes, .. } => {
            let twice = op.attributes.iter().find(|(name, _)| attributes.iter().any(|(own, _)| own == name));
            ensure!(Attribute, twice.is_none(), "attribute `{}` is given twice", twice.map_or("", |(name, _)| name));
            dictionary(attributes)
        }
        OpKind::Composite { composite_attributes, .. } => dictionary(composite_attributes),
        OpKind::CustomCall { backend_config, .. } => attribute(backend_config),
        kind => match kind.replica_groups() {
            Some(ReplicaGroups::Mesh(text)) => structured(text).map_err(|e| e.in_attribute("replica_groups")),
            _ => Ok(()),
        },
    }
}

/// Checks the attributes of an op that have no field in its [`OpKind`].
fn without_field(op: &Op) -> Result<()> {
    dictionary(&op.attributes)?;
    for (name, value) in &op.attributes {
        if is_own(&op.kind, name) {
            own(name, value)?;
        } else {
            ensure!(
                Attribute,
                !is_of_op(&op.kind, name),
                "attribute `{name}` is the op's own and cannot be discardable too"
            );
        }
    }
    Ok(())
}

/// Checks the form of an inherent attribute that has no field in its op's [`OpKind`].
fn own(name: &str, value: &Attribute) -> Result<()> {
    let begins = |prefix: &str| matches!(value, Attribute::Other(text) if text.starts_with(prefix));
    let (sound, form) = match name {
        "result_accuracy" => (begins("#stablehlo.result_accuracy<"), "of the form `#stablehlo.result_accuracy<...>`"),
        "algorithm" => (begins("#stablehlo.dot_algorithm<"), "of the form `#stablehlo.dot_algorithm<...>`"),
        "version" => (matches!(value, Attribute::Integer(..)), "an integer"),
        _ => (matches!(value, Attribute::Array(_)), "a list"),
    };
    ensure!(Attribute, sound, "attribute `{name}` must be {form}");
    Ok(())
}

/// Returns whether an op has an inherent attribute with this name, in portable artifacts or in text. Returns `false`
/// for an [`OpKind::Other`], whose inherent attributes are not known.
fn is_of_op(kind: &OpKind, name: &str) -> bool {
    if matches!(kind, OpKind::Other { .. }) {
        return false;
    }
    is_attribute(kind.base_name(), name)
        || match name {
            "channel_handle" => kind.channel().is_some(),
            "dimension_numbers" => matches!(
                kind,
                OpKind::Convolution { .. }
                    | OpKind::DynamicConv { .. }
                    | OpKind::Gather { .. }
                    | OpKind::DynamicGather { .. }
            ),
            "dot_dimension_numbers" => matches!(kind, OpKind::DotGeneral { .. }),
            "scatter_dimension_numbers" => matches!(kind, OpKind::Scatter { .. }),
            _ => false,
        }
}

/// Checks that a mesh or a function without a body has the attributes that its printed form requires.
fn symbol(name: &str, attributes: &Attributes) -> Result<()> {
    let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    let has_name = matches!(find("sym_name"), Some(Attribute::String(name)) if std::str::from_utf8(name).is_ok());
    match name {
        "sdy.mesh" => {
            let is_mesh = match find("mesh") {
                Some(Attribute::Other(text)) => text.starts_with("#sdy.mesh<"),
                mesh => mesh.is_none(),
            };
            ensure!(Attribute, is_mesh, "attribute `mesh` must be of the form `#sdy.mesh<[...]>`");
            ensure!(Attribute, has_name, "attribute `sym_name` must be a string");
        }
        "func.func" => {
            ensure!(Attribute, has_name, "attribute `sym_name` must be a string");
            let visible = match find("sym_visibility") {
                None => true,
                Some(visibility) => matches!(visibility.as_str(), Some("public" | "private" | "nested")),
            };
            ensure!(Attribute, visible, "attribute `sym_visibility` must be `public`, `private` or `nested`");
            let ty = match find("function_type") {
                Some(Attribute::Type(Type::Other(text))) => crate::text::function_type(text),
                _ => None,
            };
            let Some((inputs, results)) = ty else {
                return Err(Error::new(ErrorKind::Attribute, "attribute `function_type` must be a function type"));
            };
            for (name, count) in [("arg_attrs", inputs.len()), ("res_attrs", results.len())] {
                let long = matches!(find(name), Some(Attribute::Array(items)) if items.len() > count);
                ensure!(Attribute, !long, "attribute `{name}` must be a list of at most {count} dictionaries");
            }
        }
        _ => {}
    }
    Ok(())
}

fn dictionary(entries: &Attributes) -> Result<()> {
    let twice = if entries.len() < 16 {
        entries.iter().enumerate().find(|(i, (name, _))| entries[..*i].iter().any(|(n, _)| n == name)).map(|(_, e)| e)
    } else {
        let mut seen = HashSet::with_capacity(entries.len());
        entries.iter().find(|(name, _)| !seen.insert(name))
    };
    if let Some((name, _)) = twice {
        return Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` is given twice")));
    }
    entries.iter().try_for_each(|(name, value)| attribute(value).map_err(|e| e.in_attribute(name)))
}

fn attribute(value: &Attribute) -> Result<()> {
    match value {
        Attribute::Array(items) => items.iter().try_for_each(attribute),
        Attribute::Dictionary(entries) => dictionary(entries),
        Attribute::Type(ty) => own_type(ty),
        Attribute::Other(text) => structured(text),
        _ => Ok(()),
    }
}

/// Checks an attribute that the IR keeps as text.
fn structured(text: &str) -> Result<()> {
    match crate::text::whole_attribute(text) {
        Some(Attribute::Other(same)) if same == text => Ok(()),
        _ => Err(Error::new(ErrorKind::Attribute, format_args!("`{text}` is not an attribute as MLIR writes it"))),
    }
}

fn own_type(ty: &Type) -> Result<()> {
    let Type::Other(text) = ty else { return Ok(()) };
    match crate::text::whole_type(text) {
        Some(same) if same.clone().into_type() == *ty => Ok(()),
        _ => Err(Error::new(ErrorKind::Attribute, format_args!("`{text}` is not a type as MLIR writes it"))),
    }
}
