//! `ragged_dot`.

use stablehlo::ir::{
    Attribute, Attributes, Binary as B, ComparisonDirection as D, Dims, DotDimensions, ElementType, OpKind, Precision,
    RaggedDotDimensions, TensorType, ValueId,
};
use stablehlo::{Patch, Result};

use super::attributes::filled;
use crate::build::{Build, of};
use crate::evaluate::Number;

/// Adds a copy of the left operand for each group, with zeros outside of the group, and one product. If the ragged
/// dimension is contracted, the groups are a dimension of the result. Otherwise, the product is also over the groups.
pub(super) fn ragged_dot(
    patch: &mut Patch<'_>,
    attributes: &Attributes,
    [lhs, rhs, sizes]: [ValueId; 3],
    result: &TensorType,
) -> Result<ValueId> {
    let numbers = RaggedDotDimensions::of(attributes)?;
    let RaggedDotDimensions { ref dot, lhs_ragged: ragged, ref rhs_group } = numbers;
    let precision = precision(attributes);
    if dot.lhs_batching.contains(&ragged) {
        // Groups of whole batches do not change the result.
        let kind = OpKind::DotGeneral { dimensions: dot.clone(), precision };
        return Ok(patch.add(kind, &[lhs, rhs], result.clone()));
    }
    let leading = if patch.tensor(sizes)?.rank() == 1 { Dims::new() } else { numbers.group_size_dimensions() };
    let lhs = of_groups(patch, lhs, sizes, ragged, &leading)?;
    // The groups are the dimension of the left operand after the ragged one.
    let moved = |list: &Dims| list.iter().map(|&d| d + usize::from(d > ragged)).collect::<Dims>();
    let mut dimensions = DotDimensions {
        lhs_batching: moved(&dot.lhs_batching),
        lhs_contracting: moved(&dot.lhs_contracting),
        ..dot.clone()
    };
    if !dot.lhs_contracting.contains(&ragged) {
        dimensions.lhs_contracting.insert(0, ragged + 1);
        dimensions.rhs_contracting.insert_many(0, rhs_group.iter().copied());
        return Ok(patch.add(OpKind::DotGeneral { dimensions, precision }, &[lhs, rhs], result.clone()));
    }
    // The product has the groups after the batching dimensions and those before the ragged one, but the result first.
    let batching = dot.lhs_batching.len();
    let is_free = |d: &usize| !dot.lhs_batching.contains(d) && !dot.lhs_contracting.contains(d);
    let count = batching + (0..ragged).filter(is_free).count();
    let mut shape = result.shape.clone();
    shape[..=count].rotate_left(1);
    let ty = TensorType { shape, element: result.element };
    let product = patch.add(OpKind::DotGeneral { dimensions, precision }, &[lhs, rhs], ty);
    let order: Vec<usize> = [count].into_iter().chain(0..count).chain(count + 1..result.rank()).collect();
    patch.transpose(product, &order)
}

/// Returns a tensor that has the groups after the ragged dimension. `leading` are the dimensions of `x` that the group
/// sizes have before their last one.
fn of_groups(patch: &mut Patch<'_>, x: ValueId, sizes: ValueId, ragged: usize, leading: &[usize]) -> Result<ValueId> {
    let ty = patch.tensor(x)?.clone();
    let element = match patch.tensor(sizes)?.element {
        ElementType::I64 | ElementType::Ui64 | ElementType::Ui32 => ElementType::I64,
        _ => ElementType::I32,
    };
    let sizes = patch.convert(sizes, element)?;
    let of_sizes = patch.tensor(sizes)?.clone();
    let (&groups, at) = (of_sizes.shape.last().unwrap_or(&0), leading.len());
    // The end of a group is the sum of its size and of those before it.
    let mut square = of_sizes.clone();
    square.shape.insert(at, groups);
    let others: Vec<usize> = (0..of_sizes.rank()).map(|d| d + usize::from(d == at)).collect();
    let spread = patch.broadcast(sizes, &others, &square.shape)?;
    let iota =
        |patch: &mut Patch<'_>, ty: &TensorType, d| patch.add(OpKind::Iota { iota_dimension: d }, &[], ty.clone());
    let (of_group, of_other) = (iota(patch, &square, at), iota(patch, &square, at + 1));
    let is_before = patch.compare(D::Le, of_other, of_group)?;
    let zero = patch.splat(square, Number::Integer(0))?;
    let counted = patch.select(is_before, spread, zero)?;
    let ends = patch.reduce(B::Add, Number::Integer(0), counted, &[at + 1])?;
    let starts = patch.binary(B::Subtract, ends, sizes)?;
    // Whether a position belongs to a group.
    let mut places = of_sizes;
    places.shape.insert(at, ty.shape[ragged]);
    let position = iota(patch, &places, at);
    let (starts, ends) =
        (patch.broadcast(starts, &others, &places.shape)?, patch.broadcast(ends, &others, &places.shape)?);
    let (from, to) = (patch.compare(D::Ge, position, starts)?, patch.compare(D::Lt, position, ends)?);
    let is_member = patch.binary(B::And, from, to)?;
    let mut all = ty.clone();
    all.shape.insert(ragged + 1, groups);
    let moved = |d: usize| d + usize::from(d > ragged);
    let to: Vec<usize> = leading.iter().map(|&d| moved(d)).chain([ragged, ragged + 1]).collect();
    let is_member = patch.broadcast(is_member, &to, &all.shape)?;
    let dimensions: Vec<usize> = (0..ty.rank()).map(moved).collect();
    let copies = patch.broadcast(x, &dimensions, &all.shape)?;
    let zero = filled(patch, Number::Integer(0), &of(&all, ty.element))?;
    patch.select(is_member, copies, zero)
}

fn precision(attributes: &Attributes) -> [Precision; 2] {
    let list = attributes.iter().find(|(name, _)| name == "precision_config").map(|(_, value)| value);
    let Some(Attribute::Array(list)) = list else { return [Precision::Default; 2] };
    let of = |at: usize| match list.get(at).and_then(Attribute::as_word) {
        Some("HIGH") => Precision::High,
        Some("HIGHEST") => Precision::Highest,
        _ => Precision::Default,
    };
    [of(0), of(1)]
}
