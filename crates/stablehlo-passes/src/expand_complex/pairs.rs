//! The real and the imaginary parts of values, types and constants.

use std::collections::HashMap;

use stablehlo::ir::{ElementType, Literal, TensorType, Type, ValueId, ValueIds, ValueTypes};
use stablehlo::{Error, ErrorKind, Patch, Result};

use crate::build::of;

/// Returns whether a value is a tensor of complex numbers.
pub(super) fn is_complex(types: &ValueTypes, value: ValueId) -> bool {
    types.tensor(value).is_some_and(|ty| ty.element.is_complex())
}

/// A real and an imaginary part.
pub(super) type Pair = (ValueId, ValueId);

/// The parts of the complex values of a function.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) of: HashMap<ValueId, Pair>,
}

pub(super) fn part_type(types: &ValueTypes, value: ValueId) -> Option<TensorType> {
    let ty = types.tensor(value)?;
    Some(of(ty, ty.element.complex_part()?))
}

impl Pairs {
    /// Returns the parts of a value. Nothing defines the parts of an argument yet. The op with the region of the
    /// argument is visited later, and defines them.
    pub(super) fn get(&mut self, patch: &mut Patch<'_>, value: ValueId) -> Result<Pair> {
        if let Some(&pair) = self.of.get(&value) {
            return Ok(pair);
        }
        let ty = part_type(patch.types(), value)
            .ok_or_else(|| Error::new(ErrorKind::Type, format_args!("value {} is not complex", value.0)))?;
        let pair = (patch.value(Type::Tensor(ty.clone())), patch.value(Type::Tensor(ty)));
        self.of.insert(value, pair);
        Ok(pair)
    }

    /// Replaces each complex value by its two parts.
    pub(super) fn flat(&mut self, patch: &mut Patch<'_>, values: &[ValueId]) -> Result<ValueIds> {
        let mut flat = ValueIds::new();
        for &value in values {
            if is_complex(patch.types(), value) {
                let (re, im) = self.get(patch, value)?;
                flat.extend([re, im]);
            } else {
                flat.push(value);
            }
        }
        Ok(flat)
    }
}

/// Returns the constants of the real and the imaginary parts.
pub(super) fn parts(literal: &Literal) -> Option<[Literal; 2]> {
    let element = literal.ty.element.complex_part()?;
    let size = element.byte_size();
    let data = |offset: usize| -> Vec<u8> {
        literal.data.chunks_exact(2 * size).flat_map(|pair| &pair[offset..offset + size]).copied().collect()
    };
    let ty = TensorType { element, ..literal.ty.clone() };
    Some([Literal::new(ty.clone(), data(0)).ok()?, Literal::new(ty, data(size)).ok()?])
}

/// Returns the element type of the parts, or the type itself.
pub(super) fn part(element: ElementType) -> ElementType {
    element.complex_part().unwrap_or(element)
}
