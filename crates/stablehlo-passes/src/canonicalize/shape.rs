//! Identities of ops that move elements.

use stablehlo::ir::{Dims, Op, OpKind, TensorType, ValueId, ValueTypes};

use super::facts::{Known, Simpler};

pub(super) fn simpler(op: &Op, known: &Known, types: &ValueTypes) -> Option<Simpler> {
    let to = types.static_tensor(*op.results.first()?)?;
    let &x = op.operands.first()?;
    let from = types.static_tensor(x)?;
    let same = Some(Simpler::Value(x));
    match &op.kind {
        OpKind::Reshape if from == to => same,
        OpKind::Reshape => match known.definition(x)? {
            (OpKind::Reshape, operands) => Simpler::op(OpKind::Reshape, operands),
            (OpKind::Iota { iota_dimension }, _) => reshaped_iota(from, to, *iota_dimension),
            _ => None,
        },
        OpKind::Transpose { permutation } if permutation.is_sorted() => same,
        OpKind::Transpose { permutation } => {
            if let (OpKind::Transpose { permutation: inner }, operands) = known.definition(x).unwrap_or((&op.kind, &[]))
                && !operands.is_empty()
            {
                let permutation = permutation.iter().map(|&d| inner.get(d).copied()).collect::<Option<Dims>>()?;
                return Simpler::op(OpKind::Transpose { permutation }, operands);
            }
            // Dimensions of one element may move.
            let moved = permutation.iter().filter(|&&d| from.shape.get(d) != Some(&1));
            moved.is_sorted().then(|| Simpler::op(OpKind::Reshape, &[x]))?
        }
        OpKind::BroadcastInDim { broadcast_dimensions } => broadcast(x, broadcast_dimensions, from, to, known, types),
        OpKind::Slice { .. } | OpKind::DynamicSlice { .. } if from == to => same,
        OpKind::DynamicSlice { slice_sizes } => {
            let start = |(&value, (&extent, &size)): (&ValueId, (&i64, &i64))| {
                let last = i128::from(extent.checked_sub(size)?);
                i64::try_from(known.number(value)?.integer()?.clamp(0, last.max(0))).ok()
            };
            let starts = op.operands.get(1..)?.iter().zip(from.shape.iter().zip(slice_sizes));
            let start_indices: Vec<i64> = starts.map(start).collect::<Option<_>>()?;
            let limits = start_indices.iter().zip(slice_sizes).map(|(start, size)| start + size);
            let (limit_indices, strides) = (limits.collect(), vec![1; start_indices.len()]);
            Simpler::op(OpKind::Slice { start_indices, limit_indices, strides }, &[x])
        }
        OpKind::DynamicUpdateSlice => {
            let &update = op.operands.get(1)?;
            match types.static_tensor(update)? {
                whole if whole == to => Some(Simpler::Value(update)),
                empty if empty.num_elements() == Some(0) => same,
                _ => None,
            }
        }
        OpKind::Reverse { dimensions } => {
            let changes_nothing = |&d: &usize| from.shape.get(d).is_some_and(|&extent| extent <= 1);
            dimensions.iter().all(changes_nothing).then_some(same)?
        }
        OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding } if from == to => {
            let lists = [edge_padding_low, edge_padding_high, interior_padding];
            lists.into_iter().flatten().all(|&padding| padding == 0).then_some(same)?
        }
        OpKind::Concatenate { .. } if op.operands.len() == 1 => same,
        OpKind::Concatenate { dimension } => {
            let has_elements = |value: &&ValueId| {
                let extent = types.static_tensor(**value).and_then(|ty| ty.shape.get(*dimension));
                extent != Some(&0)
            };
            let filled: Vec<ValueId> = op.operands.iter().filter(has_elements).copied().collect();
            let is_shorter = !filled.is_empty() && filled.len() < op.operands.len();
            is_shorter.then(|| Simpler::op(op.kind.clone(), &filled))?
        }
        _ => None,
    }
}

fn broadcast(
    x: ValueId,
    dimensions: &[usize],
    from: &TensorType,
    to: &TensorType,
    known: &Known,
    types: &ValueTypes,
) -> Option<Simpler> {
    let is_ordered = dimensions.is_sorted();
    if is_ordered && from == to {
        return Some(Simpler::Value(x));
    }
    let composed = |inner: &[usize], operands: &[ValueId]| {
        let broadcast_dimensions = inner.iter().map(|&d| dimensions.get(d).copied()).collect::<Option<Dims>>()?;
        Simpler::op(OpKind::BroadcastInDim { broadcast_dimensions }, operands)
    };
    match known.definition(x) {
        Some((OpKind::BroadcastInDim { broadcast_dimensions: inner }, operands)) => return composed(inner, operands),
        Some((OpKind::Reshape, &[before])) => {
            if let Some(inner) = kept(types.static_tensor(before)?, from) {
                return composed(&inner, &[before]);
            }
        }
        Some((OpKind::Iota { iota_dimension }, _)) => {
            let &dimension = dimensions.get(*iota_dimension)?;
            if from.shape.get(*iota_dimension) == to.shape.get(dimension) {
                return Simpler::op(OpKind::Iota { iota_dimension: dimension }, &[]);
            }
        }
        _ => {}
    }
    let keeps_order = is_ordered && from.num_elements().is_some_and(|count| to.num_elements() == Some(count));
    keeps_order.then(|| Simpler::op(OpKind::Reshape, &[x]))?
}

/// If a reshape only adds dimensions of extent 1, returns the new dimension for each old one.
fn kept(before: &TensorType, after: &TensorType) -> Option<Vec<usize>> {
    let mut dimensions = Vec::with_capacity(before.rank());
    for (d, &extent) in after.shape.iter().enumerate() {
        if before.shape.get(dimensions.len()) == Some(&extent) && extent != 1 {
            dimensions.push(d);
        } else if extent != 1 {
            return None;
        }
    }
    (dimensions.len() == before.rank()).then_some(dimensions)
}

/// Simplifies a reshape of an `iota` whose other dimensions have one element.
fn reshaped_iota(from: &TensorType, to: &TensorType, dimension: usize) -> Option<Simpler> {
    let &extent = from.shape.get(dimension)?;
    let count = i64::try_from(from.num_elements()?).ok()?;
    let iota_dimension = to.shape.iter().position(|&e| e == extent)?;
    let is_line = extent == count && to.num_elements() == from.num_elements() && extent > 1;
    is_line.then(|| Simpler::op(OpKind::Iota { iota_dimension }, &[]))?
}
