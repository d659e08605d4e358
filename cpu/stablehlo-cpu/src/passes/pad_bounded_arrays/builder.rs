//! The state of the pass, and helpers that add ops.

use std::collections::HashMap;

use stablehlo::ir::{
    Binary, ComparisonDirection, ComparisonType, Dims, ElementType, Literal, LocationId, Op, OpKind, TensorType, Type,
    ValueId, ValueTypes,
};

use super::types::{Result, Signature, bounded, size_type};
use crate::error::CompileError;

/// The bounded dimensions of an array, and the size of each. The size is an `i32` scalar that contains the number of
/// valid elements along the dimension. The valid elements come first.
pub(super) type Sizes = Vec<(usize, ValueId)>;

/// An extent of an array.
#[derive(Clone, Copy)]
pub(super) enum Extent {
    Known(i64),
    /// An `i32` scalar.
    Computed(ValueId),
}

pub(super) struct Rewrite<'f> {
    values: &'f mut ValueTypes,
    /// The types that the source program declares.
    types: &'f ValueTypes,
    pub(super) signatures: &'f HashMap<&'f str, Signature>,
    /// The replacement of each replaced value.
    pub(super) same: HashMap<ValueId, ValueId>,
    /// The sizes of each array of bounded size.
    sizes: HashMap<ValueId, Sizes>,
    /// The ops of the current region.
    pub(super) ops: Vec<Op>,
    /// The location of the current op.
    pub(super) location: LocationId,
}

impl<'f> Rewrite<'f> {
    pub(super) fn new(
        values: &'f mut ValueTypes,
        types: &'f ValueTypes,
        signatures: &'f HashMap<&'f str, Signature>,
    ) -> Self {
        let (same, sizes) = (HashMap::new(), HashMap::new());
        Self { values, types, signatures, same, sizes, ops: Vec::new(), location: LocationId::default() }
    }

    /// Returns the type of a value in the source program.
    pub(super) fn declared(&self, value: ValueId) -> &'f Type {
        &self.types[value.0 as usize]
    }

    pub(super) fn sizes_of(&self, value: ValueId) -> Sizes {
        self.sizes.get(&value).cloned().unwrap_or_default()
    }

    /// Records the sizes of a value of the source program.
    pub(super) fn record(&mut self, value: ValueId, sizes: Sizes) {
        if !sizes.is_empty() {
            self.sizes.insert(value, sizes);
        }
    }

    /// Creates and records a value for each size of an array of the source program.
    pub(super) fn new_sizes(&mut self, array: ValueId) -> Result<Vec<ValueId>> {
        let Some((_, dimensions)) = bounded(self.declared(array)) else { return Ok(Vec::new()) };
        let new: Vec<ValueId> = dimensions.iter().map(|_| self.value(size_type())).collect();
        self.record(array, dimensions.into_iter().zip(new.iter().copied()).collect());
        Ok(new)
    }

    /// Returns the type of an array in the new program.
    pub(super) fn tensor(&self, value: ValueId) -> Result<TensorType> {
        let ty = self.values.get(value.0 as usize).and_then(Type::as_tensor);
        ty.cloned().ok_or_else(|| CompileError::invalid("an array of bounded size and unknown type"))
    }

    pub(super) fn value(&mut self, ty: TensorType) -> ValueId {
        self.values.push(Type::Tensor(ty))
    }

    /// Adds an op with one result.
    pub(super) fn add(&mut self, kind: OpKind, operands: &[ValueId], ty: TensorType) -> Result<ValueId> {
        let result = self.value(ty);
        let mut op = Op::new(kind, operands, vec![result]);
        op.location = self.location;
        self.ops.push(op);
        Ok(result)
    }

    /// Adds a constant `i32` scalar.
    pub(super) fn number(&mut self, number: i64) -> Result<ValueId> {
        let number = i32::try_from(number)
            .map_err(|_| CompileError::unsupported("an array of bounded size with more than 2^31 - 1 elements"))?;
        self.constant(size_type(), number.to_le_bytes().to_vec())
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, ty: TensorType, data: Vec<u8>) -> Result<ValueId> {
        let literal = Literal::new(ty.clone(), data).map_err(|error| CompileError::invalid(error.to_string()))?;
        self.add(OpKind::Constant(literal), &[], ty)
    }

    /// Adds a scalar whose bytes are all zero.
    pub(super) fn zero(&mut self, element: ElementType) -> Result<ValueId> {
        self.constant(TensorType::new([], element), vec![0; element.byte_size()])
    }

    /// Adds an elementwise op on two arrays of the same type.
    pub(super) fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        let ty = self.tensor(a)?;
        self.add(OpKind::Binary(op), &[a, b], ty)
    }

    /// Converts an integer scalar to an `i32`.
    pub(super) fn as_size(&mut self, size: ValueId) -> Result<ValueId> {
        if self.tensor(size)?.element == ElementType::I32 {
            return Ok(size);
        }
        self.add(OpKind::Convert, &[size], size_type())
    }

    /// Returns the extent as a value.
    pub(super) fn extent(&mut self, extent: Extent) -> Result<ValueId> {
        match extent {
            Extent::Known(number) => self.number(number),
            Extent::Computed(value) => Ok(value),
        }
    }

    /// Returns the product of extents.
    pub(super) fn product(&mut self, extents: &[Extent]) -> Result<Extent> {
        let mut known = 1i64;
        let mut computed = None;
        for extent in extents {
            match *extent {
                Extent::Known(number) => known = known.saturating_mul(number),
                Extent::Computed(value) => {
                    computed = Some(match computed {
                        Some(others) => self.binary(Binary::Multiply, others, value)?,
                        None => value,
                    });
                }
            }
        }
        Ok(match computed {
            None => Extent::Known(known),
            Some(value) if known == 1 => Extent::Computed(value),
            Some(value) => {
                let known = self.number(known)?;
                Extent::Computed(self.binary(Binary::Multiply, value, known)?)
            }
        })
    }

    /// Broadcasts a scalar to an array.
    pub(super) fn filled(&mut self, scalar: ValueId, ty: TensorType) -> Result<ValueId> {
        self.add(OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() }, &[scalar], ty)
    }

    /// Creates a mask of the elements whose index in a dimension is below `size`.
    pub(super) fn mask(&mut self, shape: &[i64], dimension: usize, size: ValueId) -> Result<ValueId> {
        let numbers = TensorType::new(shape, ElementType::I32);
        let number = self.add(OpKind::Iota { iota_dimension: dimension }, &[], numbers.clone())?;
        let size = self.filled(size, numbers)?;
        self.compare(ComparisonDirection::Lt, number, size)
    }

    /// Compares signed integers.
    pub(super) fn compare(&mut self, direction: ComparisonDirection, a: ValueId, b: ValueId) -> Result<ValueId> {
        let ty = self.tensor(a)?;
        let compare = OpKind::Compare { direction, compare_type: ComparisonType::Signed };
        self.add(compare, &[a, b], TensorType::new(ty.shape, ElementType::Bool))
    }

    /// Replaces the invalid elements of an array with the scalar `fill`.
    pub(super) fn masked(&mut self, array: ValueId, sizes: &[(usize, ValueId)], fill: ValueId) -> Result<ValueId> {
        let ty = self.tensor(array)?;
        let mut array = array;
        for &(dimension, size) in sizes {
            let mask = self.mask(&ty.shape, dimension, size)?;
            let fill = self.filled(fill, ty.clone())?;
            array = self.add(OpKind::Select, &[mask, array, fill], ty.clone())?;
        }
        Ok(array)
    }
}
