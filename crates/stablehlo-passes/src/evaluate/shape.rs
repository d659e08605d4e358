//! Ops on constants that only move elements.

use stablehlo::ir::{ElementType, Literal, Op, OpKind, TensorType, ValueTypes};

use super::number::{Number, decode, encode, is_float, is_integer};
use super::values::{MAX_ELEMENTS, element, splat, uniform};
use crate::index_map::{Coordinate, Source, index_map};

/// Maximum number of elements of an `iota` that becomes a constant. A larger one is computed more cheaply than read.
const MAX_IOTA: usize = 64;

/// Returns a short `iota`.
pub(super) fn iota(ty: &TensorType, dimension: usize) -> Option<Literal> {
    let count = ty.num_elements().filter(|&count| count <= MAX_IOTA)?;
    let element = ty.element;
    let inner: i64 = ty.shape.get(dimension + 1..)?.iter().product();
    let extent = *ty.shape.get(dimension)?;
    if extent > 127 || !(is_integer(element) || is_float(element)) {
        return None;
    }
    let mut bytes = Vec::new();
    for at in 0..i64::try_from(count).ok()? {
        let index = at / inner % extent;
        let number = if is_integer(element) { Number::Integer(index.into()) } else { Number::Float(index as f64) };
        // Indices that a narrow type cannot represent depend on the device.
        let encoded = encode(element, number)?;
        bytes.extend(Some(encoded).filter(|encoded| decode(element, encoded) == Some(number))?);
    }
    Literal::new(ty.clone(), bytes).ok()
}

/// Returns the result of an op that has an index map.
pub(super) fn gathered(op: &Op, ty: &TensorType, operands: &[&Literal], types: &ValueTypes) -> Option<Literal> {
    if !is_consistent(op, ty, operands) {
        return None;
    }
    let sources = index_map(op, types)?;
    let from = |source: &Source| operands.get(source.operand).copied();
    let all: Option<Vec<&[u8]>> = sources.iter().map(|source| uniform(from(source)?)).collect();
    if let Some(&[first, ref others @ ..]) = all.as_deref()
        && others.iter().all(|other| *other == first)
    {
        return splat(ty, first.to_vec());
    }
    let count = ty.num_elements().filter(|&count| count <= MAX_ELEMENTS)?;
    let mut bytes = Vec::with_capacity(count * ty.element.byte_size());
    let mut out = vec![0; ty.rank()];
    for _ in 0..count {
        let bytes_of = |source: &Source| {
            let literal = from(source)?;
            let mut index: usize = 0;
            for (coordinate, &extent) in source.coordinates.iter().zip(&literal.ty.shape) {
                let position = position(coordinate, &out, extent, operands)?;
                index = index.checked_mul(usize::try_from(extent).ok()?)?.checked_add(position)?;
            }
            element(literal, index)
        };
        bytes.extend(sources.iter().find_map(bytes_of)?);
        for (at, &extent) in out.iter_mut().zip(&ty.shape).rev() {
            *at += 1;
            if *at < extent {
                break;
            }
            *at = 0;
        }
    }
    Literal::new(ty.clone(), bytes).ok()
}

/// Returns whether the lists of the op have the lengths that an index map relies on, and numbers in range.
fn is_consistent(op: &Op, to: &TensorType, operands: &[&Literal]) -> bool {
    let Some(from) = operands.first().map(|literal| literal.ty.rank()) else { return false };
    let are_extents = |list: &[i64]| list.len() == from && list.iter().all(|extent| (0..1 << 40).contains(extent));
    let are_dimensions = |list: &[usize], rank| list.iter().all(|&d| d < rank);
    match &op.kind {
        OpKind::BroadcastInDim { broadcast_dimensions } => {
            broadcast_dimensions.len() == from && are_dimensions(broadcast_dimensions, to.rank())
        }
        OpKind::Transpose { permutation } => permutation.len() == from && to.rank() == from,
        OpKind::Slice { start_indices, strides, .. } => are_extents(start_indices) && are_extents(strides),
        OpKind::Reverse { .. } => to.rank() == from,
        OpKind::Pad { edge_padding_low, interior_padding, .. } => {
            let is_small = |padding: &i64| (-(1 << 40)..1 << 40).contains(padding);
            operands.len() == 2
                && operands[1].ty.rank() == 0
                && are_extents(interior_padding)
                && edge_padding_low.len() == from
                && edge_padding_low.iter().all(is_small)
        }
        OpKind::Concatenate { dimension } => {
            *dimension < to.rank() && operands.iter().all(|literal| literal.ty.rank() == to.rank())
        }
        OpKind::DynamicSlice { slice_sizes } => are_extents(slice_sizes) && operands.len() == from + 1,
        OpKind::DynamicUpdateSlice => to.rank() == from && operands.len() == from + 2 && operands[1].ty.rank() == from,
        _ => false,
    }
}

/// Returns a coordinate in an operand. Returns `None` if the operand does not contain the element.
fn position(coordinate: &Coordinate, out: &[i64], extent: i64, operands: &[&Literal]) -> Option<usize> {
    let base = coordinate.dimension.map_or(Some(0), |dimension| out.get(dimension).copied())?;
    let mut at = i128::from(base) * i128::from(coordinate.stride) + i128::from(coordinate.offset);
    if let Some(start) = &coordinate.start {
        let literal = operands.get(start.operand)?;
        let number = decode(literal.ty.element, element(literal, 0)?)?.integer()?;
        let number = number.clamp(0, i128::from(start.last.max(0)));
        at += if start.subtracts { -number } else { number };
    }
    let divisor = i128::from(coordinate.divisor);
    if divisor <= 0 || at.rem_euclid(divisor) != 0 {
        return None;
    }
    let at = at / divisor;
    usize::try_from(at).ok().filter(|_| at < i128::from(extent))
}

/// Returns a constant of zeros. Returns `None` for types in which the bytes of a zero are not zeros.
pub(crate) fn zeros(ty: &TensorType) -> Option<Literal> {
    if ty.element == ElementType::F8E8M0FNU {
        return None;
    }
    splat(ty, vec![0; ty.element.byte_size()])
}
