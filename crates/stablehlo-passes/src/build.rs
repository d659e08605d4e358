//! Functions with which passes add ops to a patch.

use stablehlo::ir::{
    Binary, ComparisonDirection, ComparisonType, Dims, ElementType, OpKind, TensorType, Type, Unary, ValueId,
};
use stablehlo::{Error, ErrorKind, Patch, Result};

use crate::evaluate::{Number, encode};

/// Adds ops whose result types follow from their operands.
pub(crate) trait Build {
    fn unary(&mut self, op: Unary, x: ValueId) -> Result<ValueId>;
    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> Result<ValueId>;
    fn compare(&mut self, direction: ComparisonDirection, a: ValueId, b: ValueId) -> Result<ValueId>;
    fn select(&mut self, on: ValueId, yes: ValueId, no: ValueId) -> Result<ValueId>;
    /// Converts the elements, unless they already have the type.
    fn convert(&mut self, x: ValueId, element: ElementType) -> Result<ValueId>;
    /// Adds a constant with the shape and the element type of another value. Its elements are equal.
    fn like(&mut self, x: ValueId, number: f64) -> Result<ValueId>;
    fn splat(&mut self, ty: TensorType, number: Number) -> Result<ValueId>;
    fn broadcast(&mut self, x: ValueId, dimensions: &[usize], shape: &[i64]) -> Result<ValueId>;
    /// Reorders the dimensions, unless they already have this order.
    fn transpose(&mut self, x: ValueId, order: &[usize]) -> Result<ValueId>;
    /// Changes the shape, unless the value already has it.
    fn reshape(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId>;
    /// Adds a tensor whose elements do not matter.
    fn blank(&mut self, ty: &TensorType) -> Result<ValueId>;
    /// Reduces some dimensions with an op whose initial value is the given number.
    fn reduce(&mut self, op: Binary, init: Number, x: ValueId, dimensions: &[usize]) -> Result<ValueId>;
    /// Lets values of the same types stand for the results of the replaced op.
    fn replace(&mut self, results: &[ValueId], values: &[ValueId]) -> Result<()>;
}

/// Returns the type with another element type.
pub(crate) fn of(ty: &TensorType, element: ElementType) -> TensorType {
    TensorType { shape: ty.shape.clone(), element }
}

/// Returns the integer type with the width of a float type.
pub(crate) fn bits_of(element: ElementType) -> Result<ElementType> {
    match element {
        ElementType::Bf16 | ElementType::F16 => Ok(ElementType::I16),
        ElementType::F32 => Ok(ElementType::I32),
        ElementType::F64 => Ok(ElementType::I64),
        _ => Err(Error::new(ErrorKind::Unsupported, format_args!("cannot compute with the bits of {element}"))),
    }
}

/// Adds `x op number`.
pub(crate) fn with(patch: &mut Patch<'_>, op: Binary, x: ValueId, number: f64) -> Result<ValueId> {
    let number = patch.like(x, number)?;
    patch.binary(op, x, number)
}

/// Compares with a number.
pub(crate) fn is(patch: &mut Patch<'_>, direction: ComparisonDirection, x: ValueId, number: f64) -> Result<ValueId> {
    let number = patch.like(x, number)?;
    patch.compare(direction, x, number)
}

/// Adds a NaN with the shape and the element type of another value.
pub(crate) fn nan(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let zero = patch.like(x, 0.0)?;
    patch.binary(Binary::Divide, zero, zero)
}

impl Build for Patch<'_> {
    fn unary(&mut self, op: Unary, x: ValueId) -> Result<ValueId> {
        let ty = self.tensor(x)?;
        let part = ty.element.complex_part();
        let element = match op {
            Unary::IsFinite => ElementType::Bool,
            Unary::Abs | Unary::Real | Unary::Imag => part.unwrap_or(ty.element),
            _ => ty.element,
        };
        let ty = of(ty, element);
        Ok(self.add(OpKind::Unary(op), &[x], ty))
    }

    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        let ty = self.tensor(a)?;
        let element = match (op, ty.element) {
            (Binary::Complex, ElementType::F32) => ElementType::ComplexF32,
            (Binary::Complex, _) => ElementType::ComplexF64,
            (_, element) => element,
        };
        let ty = of(ty, element);
        Ok(self.add(OpKind::Binary(op), &[a, b], ty))
    }

    fn compare(&mut self, direction: ComparisonDirection, a: ValueId, b: ValueId) -> Result<ValueId> {
        let ty = self.tensor(a)?;
        let compare_type = match ty.element {
            element if element.is_float() || element.is_complex() => ComparisonType::Float,
            element if element.is_signed_integer() => ComparisonType::Signed,
            _ => ComparisonType::Unsigned,
        };
        let ty = of(ty, ElementType::Bool);
        Ok(self.add(OpKind::Compare { direction, compare_type }, &[a, b], ty))
    }

    fn select(&mut self, on: ValueId, yes: ValueId, no: ValueId) -> Result<ValueId> {
        let ty = self.tensor(yes)?.clone();
        Ok(self.add(OpKind::Select, &[on, yes, no], ty))
    }

    fn convert(&mut self, x: ValueId, element: ElementType) -> Result<ValueId> {
        let ty = self.tensor(x)?;
        if ty.element == element {
            return Ok(x);
        }
        let ty = of(ty, element);
        Ok(self.add(OpKind::Convert, &[x], ty))
    }

    fn like(&mut self, x: ValueId, number: f64) -> Result<ValueId> {
        let ty = self.tensor(x)?.clone();
        self.splat(ty, Number::Float(number))
    }

    fn splat(&mut self, ty: TensorType, number: Number) -> Result<ValueId> {
        let wrong = || Error::new(ErrorKind::Unsupported, format_args!("cannot represent a number of type {ty}"));
        let count = ty.num_elements().ok_or_else(wrong)?;
        let element = encode(ty.element, number).ok_or_else(wrong)?;
        self.constant(ty, if count == 0 { Vec::new() } else { element })
    }

    fn broadcast(&mut self, x: ValueId, dimensions: &[usize], shape: &[i64]) -> Result<ValueId> {
        let ty = TensorType::new(shape, self.tensor(x)?.element);
        Ok(self.add(OpKind::BroadcastInDim { broadcast_dimensions: Dims::from(dimensions) }, &[x], ty))
    }

    fn transpose(&mut self, x: ValueId, order: &[usize]) -> Result<ValueId> {
        if order.is_sorted() {
            return Ok(x);
        }
        let to = self.tensor(x)?.permuted(order)?;
        Ok(self.add(OpKind::Transpose { permutation: Dims::from(order) }, &[x], to))
    }

    fn reshape(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId> {
        let ty = self.tensor(x)?;
        if ty.shape == shape {
            return Ok(x);
        }
        let to = TensorType::new(shape, ty.element);
        Ok(self.add(OpKind::Reshape, &[x], to))
    }

    fn blank(&mut self, ty: &TensorType) -> Result<ValueId> {
        let size = if ty.num_elements() == Some(0) { 0 } else { ty.element.byte_size() };
        self.constant(ty.clone(), vec![0; size])
    }

    fn reduce(&mut self, op: Binary, init: Number, x: ValueId, dimensions: &[usize]) -> Result<ValueId> {
        let ty = self.tensor(x)?.clone();
        let scalar = TensorType::new([], ty.element);
        let init = self.splat(scalar.clone(), init)?;
        let args = vec![self.value(Type::Tensor(scalar.clone())), self.value(Type::Tensor(scalar.clone()))];
        let (a, b) = (args[0], args[1]);
        let region = self.region(args, |patch| {
            let sum = patch.add(OpKind::Binary(op), &[a, b], scalar);
            patch.define(OpKind::Return, &[sum], &[]);
            Ok(())
        })?;
        let kept = ty.shape.iter().enumerate().filter(|(d, _)| !dimensions.contains(d));
        let ty = TensorType::new(kept.map(|(_, &extent)| extent).collect::<Vec<_>>(), ty.element);
        let result = self.value(Type::Tensor(ty));
        let kind = OpKind::Reduce { dimensions: Dims::from(dimensions) };
        self.define(kind, &[x, init], &[result]).regions = vec![region];
        Ok(result)
    }

    fn replace(&mut self, results: &[ValueId], values: &[ValueId]) -> Result<()> {
        let ty = |value: &ValueId| self.types().get(value.0 as usize);
        let is_same = |(one, other): (&ValueId, &ValueId)| ty(one) == ty(other);
        if results.len() != values.len() || !results.iter().zip(values).all(is_same) {
            return Err(Error::new(ErrorKind::Type, "the op has other result types than its replacement"));
        }
        results.iter().zip(values).for_each(|(&result, &value)| self.replace_uses(result, value));
        Ok(())
    }
}
