//! Rules of ops with an operand that determines the shape of the result. If this operand is a constant, the rules also
//! check the shape.

use super::contractions;
use super::shapes::{agree, distinct, extents_agree, tensors, within};
use super::site::{Site, ensure};
use crate::compatible::unbounded;
use crate::error::Result;
use crate::ir::*;

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::DynamicReshape => dynamic_reshape(site),
        OpKind::DynamicIota { iota_dimension } => {
            dynamic_shape(site, 0)?;
            let result = tensors!(site.result_tensor(0));
            within(*iota_dimension, result.rank(), "iota_dimension")
        }
        OpKind::DynamicBroadcastInDim {
            broadcast_dimensions,
            known_expanding_dimensions,
            known_nonexpanding_dimensions,
        } => {
            let hinted = [&known_expanding_dimensions[..], known_nonexpanding_dimensions].concat();
            dynamic_broadcast(site, broadcast_dimensions, &hinted)
        }
        OpKind::DynamicPad => dynamic_pad(site),
        OpKind::RealDynamicSlice => per_dimension_operands(site, 1..4),
        OpKind::DynamicGather { dimensions, .. } => dynamic_gather(site, dimensions),
        OpKind::DynamicConv { dimensions, window, feature_group_count, batch_group_count, .. } => {
            dynamic_conv(site, dimensions, window, (*feature_group_count, *batch_group_count))
        }
        OpKind::SetDimensionSize { dimension } => set_dimension_size(site, *dimension),
        _ => Ok(()),
    }
}

/// Checks that the operand and the result have the same number of elements.
fn dynamic_reshape(site: &Site<'_>) -> Result<()> {
    dynamic_shape(site, 1)?;
    let (operand, result) = tensors!(site.operand_tensor(0), site.result_tensor(0));
    let Some(count) = operand.num_elements() else { return Ok(()) };
    let fits = result.num_elements().is_none_or(|n| n == count);
    ensure!(Shape, fits, "{operand} and {result} hold different numbers of elements");
    if let Some(known) = site.known(1) {
        let asked = known.iter().try_fold(1i64, |n, &d| n.checked_mul(d)).and_then(|n| usize::try_from(n).ok());
        ensure!(Shape, asked == Some(count), "{operand} cannot have the shape {known:?}");
    }
    Ok(())
}

/// Checks a pad whose low, high and interior padding are operands.
fn dynamic_pad(site: &Site<'_>) -> Result<()> {
    per_dimension_operands(site, 2..5)?;
    let (operand, result) = tensors!(site.operand_tensor(0), site.result_tensor(0));
    let Some(interior) = site.known(4) else { return Ok(()) };
    ensure!(Attribute, interior.iter().all(|&p| p >= 0), "the interior padding {interior:?} must not be negative");
    let (Some(low), Some(high)) = (site.known(2), site.known(3)) else { return Ok(()) };
    for (d, (&from, &to)) in operand.shape.iter().zip(&result.shape).enumerate() {
        let (Some(&low), Some(&high), Some(&interior)) = (low.get(d), high.get(d), interior.get(d)) else { break };
        if from == DYNAMIC || to == DYNAMIC {
            continue;
        }
        // Compute with 128 bits, because the padding may be any 64-bit integers.
        let padded = i128::from(from)
            + i128::from((from - 1).max(0)) * i128::from(interior)
            + i128::from(low)
            + i128::from(high);
        ensure!(Shape, padded == i128::from(to), "dimension {d} of {result} must be {padded}");
    }
    Ok(())
}

/// Checks that the operand has the dimension, and that the new extent is an integer scalar.
fn set_dimension_size(site: &Site<'_>, dimension: usize) -> Result<()> {
    let rank = match site.operand(0)? {
        Type::Tensor(tensor) => Some(tensor.rank()),
        Type::Other(text) => unbounded(text).map(|(shape, _)| shape.len()),
        _ => None,
    };
    rank.map_or(Ok(()), |rank| within(dimension, rank, "dimension"))?;
    let size = tensors!(site.operand_tensor(1));
    let fits = size.rank() == 0 && size.element.is_integer();
    ensure!(Type, fits, "the size must be an integer scalar, not {size}");
    Ok(())
}

/// Checks a shape operand, which has one extent for each dimension of the result.
pub(super) fn shape_operand(site: &Site<'_>, at: usize, shape: &TensorType, result: &TensorType) -> Result<()> {
    ensure!(Type, shape.rank() == 1 && shape.element.is_integer(), "the shape must be a list of integers, not {shape}");
    let rank = i64::try_from(result.rank()).unwrap_or(i64::MAX);
    ensure!(Shape, shape.shape[0] == rank, "the shape {shape} does not have the rank of {result}");
    if let Some(known) = site.known(at) {
        let fits = known.iter().zip(&result.shape).all(|(&known, &extent)| known >= 0 && extents_agree(known, extent));
        ensure!(Shape, fits, "the shape is {known:?}, but the result is {result}");
    }
    Ok(())
}

/// Checks an op whose last operand, with the index `at`, is the shape of the result.
fn dynamic_shape(site: &Site<'_>, at: usize) -> Result<()> {
    let (shape, result) = tensors!(site.operand_tensor(at), site.result_tensor(0));
    if at > 0 {
        let operand = tensors!(site.operand_tensor(0));
        ensure!(Type, operand.element == result.element, "element types of {operand} and {result} differ");
    }
    shape_operand(site, at, shape, result)
}

fn dynamic_broadcast(site: &Site<'_>, dimensions: &[usize], hinted: &[usize]) -> Result<()> {
    dynamic_shape(site, 1)?;
    let (operand, result) = tensors!(site.operand_tensor(0), site.result_tensor(0));
    let count = dimensions.len();
    ensure!(Attribute, count == operand.rank(), "`broadcast_dimensions` has {count} entries for {operand}");
    distinct(dimensions, result.rank(), "broadcast_dimensions")?;
    for (&from, &dimension) in operand.shape.iter().zip(dimensions) {
        let to = result.shape[dimension];
        ensure!(Shape, from == 1 || extents_agree(from, to), "{operand} cannot be broadcast to {result}");
        let known = site.known(1).and_then(|shape| shape.get(dimension).copied());
        ensure!(
            Shape,
            from == 1 || known.is_none_or(|to| extents_agree(from, to)),
            "{operand} cannot be broadcast to the shape {:?}",
            site.known(1)
        );
    }
    distinct(hinted, operand.rank(), "known_expanding_dimensions and known_nonexpanding_dimensions")
}

/// Checks a convolution whose padding is an operand with a pair of integers for each spatial dimension.
fn dynamic_conv(site: &Site<'_>, dimensions: &ConvDimensions, window: &Window, groups: (i64, i64)) -> Result<()> {
    let padding = tensors!(site.operand_tensor(2));
    let spatial = i64::try_from(dimensions.input_spatial.len()).unwrap_or(i64::MAX);
    let fits = padding.element.is_integer() && agree(&padding.shape, &[spatial, 2]);
    ensure!(Type, fits, "the padding is {padding} but must hold a pair of integers per spatial dimension");
    // The rules of `convolution` need a padding. This placeholder does not affect the result, because `padded` is
    // false.
    let window = Window { padding: vec![(0, 0); dimensions.input_spatial.len()], ..window.clone() };
    contractions::convolution(site, dimensions, &window, groups, false)
}

/// Checks a gather whose slice sizes are an operand.
fn dynamic_gather(site: &Site<'_>, dimensions: &GatherDimensions) -> Result<()> {
    let (operand, sizes) = tensors!(site.operand_tensor(0), site.operand_tensor(2));
    let rank = i64::try_from(operand.rank()).unwrap_or(i64::MAX);
    let fits = sizes.element.is_integer() && agree(&sizes.shape, &[rank]);
    ensure!(Type, fits, "the slice sizes are {sizes} but must be an integer per dimension of {operand}");
    let known = site.known(2).filter(|sizes| sizes.len() == operand.rank());
    for &size in known.unwrap_or_default() {
        ensure!(Attribute, size >= 0, "slice size {size} must not be negative");
    }
    let sizes = known.map_or_else(|| vec![DYNAMIC; operand.rank()], <[i64]>::to_vec);
    contractions::gather(site, dimensions, &sizes)
}

/// Checks that these operands are lists of integers with one element for each dimension of operand 0.
fn per_dimension_operands(site: &Site<'_>, operands: std::ops::Range<usize>) -> Result<()> {
    let operand = tensors!(site.operand_tensor(0));
    let rank = i64::try_from(operand.rank()).unwrap_or(i64::MAX);
    for i in operands {
        let list = tensors!(site.operand_tensor(i));
        let fits = list.rank() == 1 && list.element.is_integer() && extents_agree(list.shape[0], rank);
        ensure!(Shape, fits, "operand {i} is {list} but must have an integer per dimension of {operand}");
    }
    Ok(())
}
