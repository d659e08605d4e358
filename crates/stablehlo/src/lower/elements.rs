//! Replaces element types, and checks whether the device supports them.

use super::rules::DeviceRules;
use crate::error::{Error, ErrorKind, Result};
use crate::float::{decode, encode};
use crate::ir::{ElementType, Literal, TensorType, Type};

/// Returns a type with its element types replaced as `rules` specify.
pub(super) fn replaced(ty: &Type, rules: &DeviceRules) -> Type {
    match ty {
        Type::Tensor(tensor) => {
            Type::Tensor(TensorType { element: rules.replacement(tensor.element), shape: tensor.shape.clone() })
        }
        Type::Tuple(types) => Type::Tuple(types.iter().map(|ty| replaced(ty, rules)).collect()),
        other => other.clone(),
    }
}

/// Returns an error if the device does not support the element type of a tensor.
pub(super) fn check(ty: &Type, rules: &DeviceRules) -> Result<()> {
    let Some(supported) = &rules.supported else { return Ok(()) };
    match ty {
        Type::Tensor(tensor) if !supported.contains(&tensor.element) => Err(Error::new(
            ErrorKind::Unsupported,
            format_args!(
                "the device does not support elements of type {} (in {tensor}); convert them to one of {}",
                tensor.element,
                supported.iter().map(|element| element.name()).collect::<Vec<_>>().join(", ")
            ),
        )),
        Type::Tuple(types) => types.iter().try_for_each(|ty| check(ty, rules)),
        _ => Ok(()),
    }
}

/// Converts a constant to another element type. Integers keep their low bits, and floating-point numbers are rounded.
pub(super) fn converted(literal: &Literal, to: ElementType) -> Result<Literal> {
    let from = literal.ty.element;
    if from == to {
        return Ok(literal.clone());
    }
    let wrong = || {
        Error::new(
            ErrorKind::Unsupported,
            format_args!("a constant of type {} cannot be replaced by one of {to}", literal.ty),
        )
    };
    let integer = |element: ElementType| element.is_integer() || element == ElementType::Bool;
    if from.is_complex() || to.is_complex() || integer(from) != integer(to) {
        return Err(wrong());
    }
    let mut data = Vec::with_capacity(literal.data.len());
    for chunk in literal.data.chunks_exact(from.byte_size()) {
        let negative = from.is_signed_integer() && chunk.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xFF } else { 0 }; 8];
        wide[..chunk.len()].copy_from_slice(chunk);
        let mut bits = u64::from_le_bytes(wide);
        if !integer(from) {
            bits = decode(bits, from).and_then(|value| encode(value, to)).ok_or_else(wrong)?;
        }
        data.extend_from_slice(&bits.to_le_bytes()[..to.byte_size()]);
    }
    let ty = TensorType { element: to, shape: literal.ty.shape.clone() };
    Ok(Literal { ty, data: data.into(), splat: literal.splat })
}
