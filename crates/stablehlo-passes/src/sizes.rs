//! Functions with which passes add sizes and shapes that are not known.

use stablehlo::ir::{DYNAMIC, Dims, ElementType, OpKind, TensorType, ValueId};
use stablehlo::{Patch, Result};

use crate::build::Build;
use crate::loops::index;

/// Adds the size of a dimension as an index.
pub(crate) fn size(patch: &mut Patch<'_>, x: ValueId, extent: i64, dimension: usize) -> Result<ValueId> {
    if extent != DYNAMIC {
        return index(patch, extent);
    }
    let size = patch.add(OpKind::GetDimensionSize { dimension }, &[x], TensorType::new([], ElementType::I32));
    patch.convert(size, ElementType::I64)
}

/// Adds a shape as an array of indices.
pub(crate) fn shape(patch: &mut Patch<'_>, sizes: &[ValueId]) -> ValueId {
    let one = TensorType::new([1], ElementType::I64);
    let sizes: Vec<ValueId> = sizes.iter().map(|&size| patch.add(OpKind::Reshape, &[size], one.clone())).collect();
    let rank = i64::try_from(sizes.len()).unwrap_or(i64::MAX);
    let ty = TensorType::new([rank], ElementType::I64);
    patch.add(OpKind::Concatenate { dimension: 0 }, &sizes, ty)
}

/// Adds the shape of a tensor as an array of indices.
pub(crate) fn shape_of(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let extents = patch.tensor(x)?.shape.clone();
    let sizes = extents.iter().enumerate().map(|(d, &extent)| size(patch, x, extent, d));
    let sizes = sizes.collect::<Result<Vec<_>>>()?;
    Ok(shape(patch, &sizes))
}

/// Adds `dynamic_broadcast_in_dim`, or `broadcast_in_dim` if all sizes are known.
pub(crate) fn broadcast(
    patch: &mut Patch<'_>,
    x: ValueId,
    dimensions: &[usize],
    ty: &TensorType,
    shape: Option<ValueId>,
) -> Result<ValueId> {
    let Some(shape) = shape.filter(|_| ty.shape.contains(&DYNAMIC)) else {
        return patch.broadcast(x, dimensions, &ty.shape);
    };
    let kind = OpKind::DynamicBroadcastInDim {
        broadcast_dimensions: Dims::from(dimensions),
        known_expanding_dimensions: Dims::new(),
        known_nonexpanding_dimensions: Dims::new(),
    };
    Ok(patch.add(kind, &[x, shape], ty.clone()))
}
