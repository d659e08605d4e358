//! Rules on shapes for elementwise, shape and indexing ops.

use smallvec::SmallVec;

use super::elements::{self, ANY, FLOATS, NUMBERS, REALS};
use super::level::VerifyLevel;
use super::site::{Site, ensure};
pub(super) use super::slot::shape_is;
pub(super) use crate::compatible::{agree, extents_agree};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Computed extents. Up to eight extents are stored inline.
pub(super) type Extents = SmallVec<[i64; 8]>;

/// Maximum rank of a tensor. Some checks, and many devices, take time quadratic in the rank.
pub(super) const MAX_RANK: usize = 128;

/// Checks a type. The rank of a tensor must be supported, no extent may be negative, and the tensor's size must not
/// exceed the address space. Types that the IR keeps as text are checked only at level [`VerifyLevel::FULL`].
pub(super) fn verify_type(ty: &Type, level: VerifyLevel) -> Result<()> {
    match ty {
        Type::Tensor(tensor) => {
            let sound = tensor.shape.iter().all(|&d| d >= 0 || d == DYNAMIC);
            ensure!(
                Limit,
                tensor.rank() <= MAX_RANK,
                "a tensor has {} dimensions, more than {MAX_RANK}",
                tensor.rank()
            );
            ensure!(Shape, sound, "{tensor} has a negative extent");
            ensure!(Limit, !tensor.is_static() || tensor.byte_size().is_some(), "{tensor} is too large to address");
            Ok(())
        }
        Type::Tuple(types) => types.iter().try_for_each(|ty| verify_type(ty, level)),
        Type::Other(_) => level.full().map_or(Ok(()), |rules| (rules.ty)(ty)),
        Type::Token => Ok(()),
    }
}

/// Checks that dimension indices are less than the rank and distinct. `name` is the attribute's name for the error.
pub(super) fn distinct(dimensions: &[usize], rank: usize, name: &str) -> Result<()> {
    all_distinct(dimensions.iter(), rank, name)
}

/// Checks dimensions as [`distinct`] does, for several concatenated lists.
pub(super) fn all_distinct<'a>(dimensions: impl Iterator<Item = &'a usize>, rank: usize, name: &str) -> Result<()> {
    // The bit set has one bit for each possible dimension.
    const { assert!(MAX_RANK == u128::BITS as usize) };
    let mut seen = 0u128;
    for &dimension in dimensions {
        if dimension >= rank.min(MAX_RANK) {
            return Err(outside(dimension, rank, name));
        }
        if seen >> dimension & 1 == 1 {
            return Err(Error::new(
                ErrorKind::Attribute,
                format_args!("dimension {dimension} occurs twice in `{name}`"),
            ));
        }
        seen |= 1 << dimension;
    }
    Ok(())
}

#[cold]
fn outside(dimension: usize, rank: usize, name: &str) -> Error {
    Error::new(
        ErrorKind::Shape,
        format_args!("dimension {dimension} in `{name}` is outside the {rank} dimensions of the tensor"),
    )
}

/// Returns the extents of dimensions.
pub(super) fn extents(tensor: &TensorType, dimensions: &[usize]) -> Extents {
    dimensions.iter().map(|&dimension| tensor.shape[dimension]).collect()
}

/// Checks that dimensions of two tensors have the same extents.
pub(super) fn same_extents(left: &TensorType, of_left: &[usize], right: &TensorType, of_right: &[usize]) -> Result<()> {
    for (&l, &r) in of_left.iter().zip(of_right) {
        ensure!(
            Shape,
            extents_agree(left.shape[l], right.shape[r]),
            "dimension {l} of {left} and dimension {r} of {right} differ"
        );
    }
    Ok(())
}

/// Returns the extents of the dimensions that are not in `used`.
pub(super) fn rest<'a>(shape: &'a [i64], used: &'a [usize]) -> impl Iterator<Item = i64> + 'a {
    shape.iter().enumerate().filter(|(i, _)| !used.contains(i)).map(|(_, &extent)| extent)
}

/// Checks that a dimension index is less than the rank. `name` is the attribute's name for the error.
pub(super) fn within(dimension: usize, rank: usize, name: &str) -> Result<()> {
    ensure!(Attribute, dimension < rank, "`{name}` is {dimension}, outside the {rank} dimensions of the tensor");
    Ok(())
}

/// Checks that a list of this length has one element for each dimension. `name` is the list's name for the error.
pub(super) fn per_dimension(length: usize, rank: usize, name: &str) -> Result<()> {
    ensure!(Attribute, length == rank, "`{name}` has {length} entries for {rank} dimensions");
    Ok(())
}

fn same_element(a: &TensorType, b: &TensorType) -> Result<()> {
    ensure!(Type, a.element == b.element, "element types of {a} and {b} differ");
    Ok(())
}

/// Unwraps the tensor types of operands and results. Returns `Ok(())` from the rule if a type is not a [`TensorType`].
macro_rules! tensors {
    ($($tensor:expr),+) => {
        ($(match $tensor? {
            Some(tensor) => tensor,
            None => return Ok(()),
        }),+)
    };
}
pub(super) use tensors;

pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::Constant(literal) => constant(site, literal),
        OpKind::Iota { iota_dimension } => {
            let result = tensors!(site.result_tensor(0));
            within(*iota_dimension, result.rank(), "iota_dimension")?;
            elements::of(result, NUMBERS, "the result")
        }
        OpKind::Unary(unary) => elementwise_unary(site, *unary),
        OpKind::Binary(binary) => elementwise_binary(site, *binary),
        OpKind::PartitionId | OpKind::ReplicaId => exactly(site, ElementType::Ui32),
        OpKind::Compare { direction, compare_type } => {
            let (lhs, rhs, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
            alike(lhs, rhs)?;
            result.element_is(ElementType::Bool)?;
            result.shape_is(&lhs.shape)?;
            comparable(lhs, *direction, *compare_type)
        }
        OpKind::Select => select(site),
        OpKind::Clamp => clamp(site),
        OpKind::Fma => fma(site),
        OpKind::Convert => same_shape(site),
        OpKind::ReducePrecision { exponent_bits, .. } => {
            ensure!(Attribute, *exponent_bits > 0, "`exponent_bits` must be at least 1");
            same_shape(site)?;
            let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
            result.element_is(operand.element)?;
            elements::of(operand, FLOATS, "the operand")
        }
        OpKind::BitcastConvert => bitcast(site),
        OpKind::BroadcastInDim { broadcast_dimensions } => broadcast(site, broadcast_dimensions),
        OpKind::Reshape => {
            let (operand, result) = tensors!(site.operand_tensor(0), site.result_tensor(0));
            same_element(operand, result)?;
            let equal = !operand.is_static() || !result.is_static() || operand.num_elements() == result.num_elements();
            ensure!(Shape, equal, "{operand} and {result} hold different numbers of elements");
            Ok(())
        }
        OpKind::Transpose { permutation } => {
            let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
            result.element_is(operand.element)?;
            per_dimension(permutation.len(), operand.rank(), "permutation")?;
            distinct(permutation, operand.rank(), "permutation")?;
            result.shape_is(&extents(operand, permutation))
        }
        OpKind::Slice { start_indices, limit_indices, strides } => slice(site, start_indices, limit_indices, strides),
        OpKind::DynamicSlice { slice_sizes } => dynamic_slice(site, slice_sizes),
        OpKind::DynamicUpdateSlice => dynamic_update_slice(site),
        OpKind::Concatenate { dimension } => concatenate(site, *dimension),
        OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding } => {
            pad(site, edge_padding_low, edge_padding_high, interior_padding)
        }
        OpKind::Reverse { dimensions } => {
            let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
            distinct(dimensions, operand.rank(), "dimensions")?;
            result.is_like(operand)
        }
        OpKind::GetDimensionSize { dimension } => {
            let operand = tensors!(site.operand_tensor(0));
            within(*dimension, operand.rank(), "dimension")?;
            exactly(site, ElementType::I32)
        }
        OpKind::Sort { dimension, .. } => sort(site, *dimension),
        _ => Ok(()),
    }
}

fn constant(site: &Site<'_>, literal: &Literal) -> Result<()> {
    let checked = Literal::new(literal.ty.clone(), literal.data.clone())?;
    ensure!(Type, checked.splat == literal.splat, "the splat flag of {literal:?} is wrong");
    let result = tensors!(site.result_tensor(0));
    ensure!(Type, *result == literal.ty, "the value is {} but the result is {result}", literal.ty);
    Ok(())
}

fn same_shape(site: &Site<'_>) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
    result.shape_is(&operand.shape)
}

/// Checks that two operands have the same element type and shape.
fn alike(one: &TensorType, other: &TensorType) -> Result<()> {
    same_element(one, other)?;
    ensure!(Shape, agree(&one.shape, &other.shape), "operands {one} and {other} differ in shape");
    Ok(())
}

fn elementwise_unary(site: &Site<'_>, unary: Unary) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
    result.shape_is(&operand.shape)?;
    let element = match unary {
        Unary::IsFinite => ElementType::Bool,
        Unary::Abs | Unary::Real | Unary::Imag => operand.element.complex_part().unwrap_or(operand.element),
        _ => operand.element,
    };
    result.element_is(element)?;
    elements::of(operand, unary.elements(), "the operand")
}

fn elementwise_binary(site: &Site<'_>, binary: Binary) -> Result<()> {
    let (lhs, rhs, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    alike(lhs, rhs)?;
    result.shape_is(&lhs.shape)?;
    match binary {
        Binary::Complex => match ElementType::all().find(|e| e.complex_part() == Some(lhs.element)) {
            Some(element) => result.element_is(element)?,
            None => {
                return Err(Error::new(
                    ErrorKind::Type,
                    format_args!("complex numbers cannot have parts of type {lhs}"),
                ));
            }
        },
        _ => result.element_is(lhs.element)?,
    }
    elements::of(lhs, binary.elements(), "operands")
}

fn select(site: &Site<'_>) -> Result<()> {
    let (pred, on_true, on_false, result) =
        tensors!(site.operand_tensor(0), site.operand_tensor(1), site.operand_tensor(2), site.slot(0));
    ensure!(Type, pred.element == ElementType::Bool, "the predicate must be booleans, not {pred}");
    alike(on_true, on_false)?;
    result.element_is(on_true.element)?;
    ensure!(
        Type,
        pred.shape.is_empty() || agree(&pred.shape, &on_true.shape),
        "the predicate {pred} must be a scalar or have the shape of {on_true}"
    );
    result.shape_is(&on_true.shape)
}

fn clamp(site: &Site<'_>) -> Result<()> {
    let (min, operand, max, result) =
        tensors!(site.operand_tensor(0), site.operand_tensor(1), site.operand_tensor(2), site.slot(0));
    for bound in [min, max] {
        same_element(bound, operand)?;
        ensure!(
            Type,
            bound.shape.is_empty() || agree(&bound.shape, &operand.shape),
            "the bound {bound} must be a scalar or have the shape of {operand}"
        );
    }
    result.is_like(operand)?;
    elements::of(operand, ANY, "the operand")
}

/// Checks that the operands and the result of a fused multiply-add have the same type, of floating-point numbers.
fn fma(site: &Site<'_>) -> Result<()> {
    let (a, b, c, result) =
        tensors!(site.operand_tensor(0), site.operand_tensor(1), site.operand_tensor(2), site.slot(0));
    alike(a, b)?;
    alike(a, c)?;
    result.is_like(a)?;
    elements::of(a, FLOATS, "operands")
}

/// Checks that complex numbers are not ordered. Except for `WEAKORDER`, the comparison type is not checked, because
/// producers combine it with any element type.
fn comparable(operand: &TensorType, direction: ComparisonDirection, compare_type: ComparisonType) -> Result<()> {
    if compare_type == ComparisonType::WeakOrder {
        elements::of(operand, FLOATS, "operands compared as WEAKORDER")?;
    }
    let equality = matches!(direction, ComparisonDirection::Eq | ComparisonDirection::Ne);
    elements::of(operand, if equality { ANY } else { REALS }, "operands")
}

/// Checks that the result is a scalar of this element type.
fn exactly(site: &Site<'_>, element: ElementType) -> Result<()> {
    let result = tensors!(site.result_tensor(0));
    ensure!(
        Type,
        result.shape.is_empty() && result.element == element,
        "the result must be tensor<{element}>, not {result}"
    );
    Ok(())
}

/// Checks a bitcast. If the widths differ, the type with narrower elements has an additional last dimension for the
/// elements that make up one wider element.
fn bitcast(site: &Site<'_>) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.result_tensor(0));
    let (from, to) = (operand.element.bit_width(), result.element.bit_width());
    let (wide, narrow, ratio) =
        if from >= to { (operand, result, from / to.max(1)) } else { (result, operand, to / from.max(1)) };
    let mut expected = wide.shape.clone();
    if from != to {
        expected.push(i64::from(ratio));
        ensure!(
            Shape,
            from.max(to) % from.min(to) == 0,
            "{operand} and {result} have element widths that do not divide"
        );
    }
    ensure!(Shape, agree(&narrow.shape, &expected), "{operand} cannot be reinterpreted as {result}");
    Ok(())
}

fn broadcast(site: &Site<'_>, dimensions: &[usize]) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.result_tensor(0));
    same_element(operand, result)?;
    per_dimension(dimensions.len(), operand.rank(), "broadcast_dimensions")?;
    distinct(dimensions, result.rank(), "broadcast_dimensions")?;
    for (&from, &dimension) in operand.shape.iter().zip(dimensions) {
        let to = result.shape[dimension];
        ensure!(
            Shape,
            from == 1 || extents_agree(from, to),
            "{operand} cannot be broadcast to {result}: extent {from} does not fit {to}"
        );
    }
    Ok(())
}

fn slice(site: &Site<'_>, start: &[i64], limit: &[i64], strides: &[i64]) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
    result.element_is(operand.element)?;
    let rank = operand.rank();
    per_dimension(start.len(), rank, "start_indices")?;
    per_dimension(limit.len(), rank, "limit_indices")?;
    per_dimension(strides.len(), rank, "strides")?;
    let mut shape = Extents::with_capacity(rank);
    for (d, &extent) in operand.shape.iter().enumerate() {
        let (start, limit, stride) = (start[d], limit[d], strides[d]);
        let bounded = extent == DYNAMIC || limit <= extent;
        ensure!(
            Shape,
            0 <= start && start <= limit && bounded,
            "slice {start}:{limit} of dimension {d} is outside {operand}"
        );
        ensure!(Attribute, stride > 0, "stride {stride} of dimension {d} must be positive");
        // The subtraction does not overflow, because `0 <= start <= limit`. Rounding up does not overflow, because a
        // remainder requires a stride of at least 2.
        let length = limit - start;
        shape.push(length / stride + i64::from(length % stride != 0));
    }
    result.shape_is(&shape)
}

/// Checks that the start indices are scalars of the same integer type, with one index for each dimension.
fn start_indices(site: &Site<'_>, first: usize, rank: usize) -> Result<()> {
    per_dimension(site.op.operands.len() - first, rank, "start_indices")?;
    let mut element = None;
    for ty in site.operands().skip(first) {
        let Type::Tensor(tensor) = ty else { continue };
        let common = *element.get_or_insert(tensor.element);
        ensure!(Type, tensor.element == common, "start indices have the types {common} and {}", tensor.element);
        ensure!(
            Type,
            tensor.shape.is_empty() && tensor.element.is_integer(),
            "a start index must be an integer scalar, not {ty}"
        );
    }
    Ok(())
}

fn dynamic_slice(site: &Site<'_>, sizes: &[i64]) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
    result.element_is(operand.element)?;
    per_dimension(sizes.len(), operand.rank(), "slice_sizes")?;
    start_indices(site, 1, operand.rank())?;
    for (&size, &extent) in sizes.iter().zip(&operand.shape) {
        ensure!(Shape, size >= 0 && (extent == DYNAMIC || size <= extent), "slice size {size} is outside {operand}");
    }
    result.shape_is(sizes)
}

fn dynamic_update_slice(site: &Site<'_>) -> Result<()> {
    let (operand, update, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    same_element(operand, update)?;
    result.element_is(operand.element)?;
    per_dimension(update.rank(), operand.rank(), "update")?;
    start_indices(site, 2, operand.rank())?;
    for (&size, &extent) in update.shape.iter().zip(&operand.shape) {
        ensure!(
            Shape,
            size == DYNAMIC || extent == DYNAMIC || size <= extent,
            "update {update} is larger than {operand}"
        );
    }
    result.shape_is(&operand.shape)
}

fn concatenate(site: &Site<'_>, dimension: usize) -> Result<()> {
    let (first, result) = tensors!(site.operand_tensor(0), site.slot(0));
    within(dimension, first.rank(), "dimension")?;
    let mut shape = Extents::from_slice(&first.shape);
    let mut total = Some(0i64);
    for i in 0..site.op.operands.len() {
        let operand = tensors!(site.operand_tensor(i));
        same_element(first, operand)?;
        per_dimension(operand.rank(), first.rank(), "operand")?;
        for (d, (extent, &other)) in shape.iter_mut().zip(&operand.shape).enumerate().filter(|(d, _)| *d != dimension) {
            ensure!(Shape, extents_agree(*extent, other), "operands {first} and {operand} differ in dimension {d}");
            *extent = if *extent == DYNAMIC { other } else { *extent };
        }
        let extent = operand.shape[dimension];
        total = if extent == DYNAMIC { None } else { total.map(|t| t.saturating_add(extent)) };
        if total.is_none() {
            break;
        }
    }
    shape[dimension] = total.unwrap_or(DYNAMIC);
    result.element_is(first.element)?;
    result.shape_is(&shape)
}

fn pad(site: &Site<'_>, low: &[i64], high: &[i64], interior: &[i64]) -> Result<()> {
    let (operand, value, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
    same_element(operand, value)?;
    result.element_is(operand.element)?;
    ensure!(Type, value.shape.is_empty(), "the padding value must be a scalar, not {value}");
    let rank = operand.rank();
    per_dimension(low.len(), rank, "edge_padding_low")?;
    per_dimension(high.len(), rank, "edge_padding_high")?;
    per_dimension(interior.len(), rank, "interior_padding")?;
    let mut shape = Extents::with_capacity(rank);
    for (d, &extent) in operand.shape.iter().enumerate() {
        let (low, high, interior) = (low[d], high[d], interior[d]);
        ensure!(Attribute, interior >= 0, "interior padding {interior} must not be negative");
        if extent == DYNAMIC {
            shape.push(DYNAMIC);
            continue;
        }
        // Compute with 128 bits, because the padding may be any 64-bit integers.
        let gaps = i128::from((extent - 1).max(0)) * i128::from(interior);
        let padded = i128::from(extent) + gaps + i128::from(low) + i128::from(high);
        let padded = i64::try_from(padded).ok().filter(|&p| p >= 0);
        shape.push(padded.ok_or_else(|| {
            Error::new(ErrorKind::Shape, format_args!("padding makes dimension {d} of {operand} negative or too large"))
        })?);
    }
    result.shape_is(&shape)
}

fn sort(site: &Site<'_>, dimension: usize) -> Result<()> {
    let first = tensors!(site.operand_tensor(0));
    within(dimension, first.rank(), "dimension")?;
    for i in 0..site.op.operands.len() {
        let (operand, result) = tensors!(site.operand_tensor(i), site.slot(i));
        ensure!(Shape, agree(&operand.shape, &first.shape), "operands {first} and {operand} differ in shape");
        result.is_like(operand)?;
    }
    Ok(())
}
