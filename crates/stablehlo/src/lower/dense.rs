//! Replaces gathers and scatters along one dimension with matrix multiplications by a mask. The mask has a one where an
//! index selects an element, and zeros elsewhere.

use super::rules::DeviceRules;
use crate::ir::*;
use crate::rewrite::Patch;

/// Precision for exact multiplication of floating-point numbers by the zeros and ones of the mask.
const EXACT: [Precision; 2] = [Precision::Highest; 2];

/// A gather or scatter that indexes one dimension.
struct IndexedDimension {
    dimension: usize,
    /// Type of the indices without the dimension of the index vectors.
    indices: TensorType,
}

/// Returns the indexed dimension if the index vectors have only one component, the indices are integers with a static
/// shape, and the slices or windows omit exactly this dimension. `map` and `removed` are the corresponding dimension
/// numbers of the gather or scatter.
fn along(indices: &TensorType, map: &[usize], removed: &[usize], vector_dim: usize) -> Option<IndexedDimension> {
    let &[dimension] = map else { return None };
    let mut shape = indices.shape.clone();
    if vector_dim < shape.len() {
        if shape[vector_dim] != 1 {
            return None;
        }
        shape.remove(vector_dim);
    }
    let one = removed == [dimension] && indices.element.is_integer() && indices.is_static();
    one.then(|| IndexedDimension { dimension, indices: TensorType::new(shape, indices.element) })
}

/// Returns whether multiplications by the mask are exact for elements of this type, and the shape is static.
fn multiplies(ty: &TensorType) -> bool {
    ty.is_static() && (ty.element.is_float() || ty.element.is_integer())
}

fn product(shape: &[i64]) -> u64 {
    shape.iter().map(|&extent| u64::try_from(extent).unwrap_or(0)).fold(1, u64::saturating_mul)
}

/// Adds a mask with a row of `extent` elements for each index. The row has a one at the index, and zeros elsewhere. If
/// `clamped` is true, limits each index to the valid range first.
fn mask(
    patch: &mut Patch<'_>,
    indices: ValueId,
    of: &IndexedDimension,
    (extent, element, clamped): (i64, ElementType, bool),
) -> ValueId {
    let (ty, rank) = (of.indices.clone(), of.indices.rank());
    let mut indices = patch.add(OpKind::Reshape, &[indices], ty.clone());
    if clamped {
        let scalar = TensorType::new([], ty.element);
        let number = |value: i64| {
            let data = value.to_le_bytes()[..ty.element.byte_size()].to_vec();
            OpKind::Constant(Literal { ty: scalar.clone(), data: data.into(), splat: false })
        };
        let low = patch.add(number(0), &[], scalar.clone());
        let high = patch.add(number(extent - 1), &[], scalar.clone());
        indices = patch.add(OpKind::Clamp, &[low, indices, high], ty.clone());
    }
    let mut shape = ty.shape.clone();
    shape.push(extent);
    let wide = TensorType::new(shape.clone(), ty.element);
    let broadcast = OpKind::BroadcastInDim { broadcast_dimensions: (0..rank).collect() };
    let rows = patch.add(broadcast, &[indices], wide.clone());
    let columns = patch.add(OpKind::Iota { iota_dimension: rank }, &[], wide);
    let equal = OpKind::Compare { compare_type: ComparisonType::NoType, direction: ComparisonDirection::Eq };
    let equal = patch.add(equal, &[rows, columns], TensorType::new(shape.clone(), ElementType::Bool));
    patch.add(OpKind::Convert, &[equal], TensorType::new(shape, element))
}

/// Replaces a gather with a matrix multiplication. Adds all new ops but the last, and returns the last op. Returns
/// `None` if the gather is not replaced.
pub(super) fn gather(rules: &DeviceRules, op: &Op, patch: &mut Patch<'_>) -> Option<Op> {
    let OpKind::Gather { dimensions: d, slice_sizes, .. } = &op.kind else { return None };
    let (operand, indices) = (patch.tensor(op.operands[0]).ok()?.clone(), patch.tensor(op.operands[1]).ok()?.clone());
    let of = along(&indices, &d.start_index_map, &d.collapsed_slice_dims, d.index_vector_dim)?;
    let extent = *operand.shape.get(of.dimension)?;
    let whole = |(at, (&size, &extent)): (usize, (&i64, &i64))| at == of.dimension || size == extent;
    let fits = d.operand_batching_dims.is_empty()
        && multiplies(&operand)
        && slice_sizes.iter().zip(&operand.shape).enumerate().all(whole)
        && extent > 0
        && u64::try_from(extent).ok()? <= rules.dense_gather?
        // The index type must be able to represent the largest index.
        && fits_in(extent - 1, of.indices.element);
    if !fits {
        return None;
    }
    let mask = mask(patch, op.operands[1], &of, (extent, operand.element, true));
    // The result of the matrix multiplication has the dimensions of the indices, followed by the operand's dimensions
    // without the indexed dimension.
    let result = patch.tensor(op.results[0]).ok()?.clone();
    let batch: Vec<usize> = (0..result.rank()).filter(|dimension| !d.offset_dims.contains(dimension)).collect();
    let order: Vec<usize> = batch.iter().chain(&d.offset_dims).copied().collect();
    let made = result.permuted(&order).ok()?;
    let dimensions = DotDimensions {
        lhs_contracting: [of.indices.rank()].into_iter().collect(),
        rhs_contracting: [of.dimension].into_iter().collect(),
        ..DotDimensions::default()
    };
    let dot = OpKind::DotGeneral { dimensions, precision: EXACT };
    let product = patch.add(dot, &[mask, op.operands[0]], made);
    let transpose = OpKind::Transpose { permutation: inverse_permutation(&order).into() };
    Some(Op { kind: transpose, operands: [product].into_iter().collect(), ..op.clone() })
}

/// Replaces a scatter with a matrix multiplication. Adds all new ops but the last, and returns the last op. Returns
/// `None` if the scatter is not replaced.
pub(super) fn scatter(rules: &DeviceRules, op: &Op, patch: &mut Patch<'_>) -> Option<Op> {
    let OpKind::Scatter { dimensions: d, .. } = &op.kind else { return None };
    let (&[input, indices, updates], [region]) = (&op.operands[..], &op.regions[..]) else { return None };
    if !adds(region) || !d.input_batching_dims.is_empty() {
        return None;
    }
    let (ty, index_type) = (patch.tensor(input).ok()?.clone(), patch.tensor(indices).ok()?.clone());
    let update_type = patch.tensor(updates).ok()?.clone();
    let of = along(&index_type, &d.scatter_dims_to_operand_dims, &d.inserted_window_dims, d.index_vector_dim)?;
    let extent = *ty.shape.get(of.dimension)?;
    let window: Vec<i64> = d.update_window_dims.iter().map(|&dimension| update_type.shape[dimension]).collect();
    let others: Vec<usize> = (0..ty.rank()).filter(|&dimension| dimension != of.dimension).collect();
    let factor = rules.dense_scatter?;
    let fits = multiplies(&ty)
        && window.iter().eq(others.iter().map(|&dimension| &ty.shape[dimension]))
        && product(&index_type.shape).saturating_mul(factor) >= product(&ty.shape)
        && fits_in(extent - 1, of.indices.element);
    if !fits {
        return None;
    }
    // A scatter ignores an index outside of the input, so the mask's row for such an index is zero.
    let mask = mask(patch, indices, &of, (extent, ty.element, false));
    let batch = (0..update_type.rank()).filter(|dimension| !d.update_window_dims.contains(dimension)).collect();
    let dimensions = DotDimensions {
        lhs_contracting: batch,
        rhs_contracting: (0..of.indices.rank()).collect(),
        ..DotDimensions::default()
    };
    // The result of the matrix multiplication has the dimensions of the window, followed by the indexed dimension.
    let order: Vec<usize> = others.iter().copied().chain([of.dimension]).collect();
    let dot = OpKind::DotGeneral { dimensions, precision: EXACT };
    let sums = patch.add(dot, &[updates, mask], ty.permuted(&order).ok()?);
    let transpose = OpKind::Transpose { permutation: inverse_permutation(&order).into() };
    let sums = patch.add(transpose, &[sums], ty);
    Some(Op {
        kind: OpKind::Binary(Binary::Add),
        operands: [input, sums].into_iter().collect(),
        regions: Vec::new(),
        ..op.clone()
    })
}

/// Returns whether the region adds its two arguments and returns the sum.
fn adds(region: &Region) -> bool {
    let ([sum, end], [a, b]) = (&region.ops[..], &region.args[..]) else { return false };
    let operands = sum.operands[..] == [*a, *b] || sum.operands[..] == [*b, *a];
    matches!(sum.kind, OpKind::Binary(Binary::Add)) && operands && end.operands == sum.results
}

/// Returns whether an integer type can represent a nonnegative number.
fn fits_in(number: i64, element: ElementType) -> bool {
    let bits = element.bit_width() - u32::from(element.is_signed_integer());
    bits >= 63 || number < 1 << bits
}
