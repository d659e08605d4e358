//! Rules of batch normalization, `map` and `rng`.

use super::control::region_yields_elements;
use super::dynamic::shape_operand;
use super::shapes::{agree, tensors, within};
use super::site::{Site, ensure};
use crate::error::Result;
use crate::ir::*;

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::BatchNormTraining { feature_index, .. } => batch_norm(site, *feature_index, 3, 3),
        OpKind::BatchNormInference { feature_index, .. } => batch_norm(site, *feature_index, 5, 1),
        OpKind::BatchNormGrad { feature_index, .. } => batch_norm(site, *feature_index, 5, 3),
        OpKind::Map { dimensions } => map(site, dimensions),
        OpKind::Rng { .. } => rng(site),
        _ => Ok(()),
    }
}

fn batch_norm(site: &Site<'_>, feature: usize, operands: usize, results: usize) -> Result<()> {
    let operand = tensors!(site.operand_tensor(0));
    within(feature, operand.rank(), "feature_index")?;
    // The gradient of the output has the shape of the operand. Every other operand has one element for each feature.
    let gradient = results == 3 && operands == 5;
    for i in 1..operands {
        let other = tensors!(site.operand_tensor(i));
        let expected = if gradient && i == 4 { operand.shape.clone() } else { vec![operand.shape[feature]] };
        ensure!(
            Shape,
            agree(&other.shape, &expected),
            "operand {i} is {other} but must be {}",
            TensorType::new(expected, other.element)
        );
    }
    for i in 0..results {
        let result = tensors!(site.slot(i));
        let expected = if i == 0 { operand.shape.clone() } else { vec![operand.shape[feature]] };
        result.element_may_be(operand.element);
        result.shape_is(&expected)?;
    }
    Ok(())
}

fn map(site: &Site<'_>, dimensions: &[usize]) -> Result<()> {
    let (first, result) = tensors!(site.operand_tensor(0), site.slot(0));
    let every = dimensions.len() == first.rank() && dimensions.iter().zip(0..).all(|(&d, wanted)| d == wanted);
    ensure!(Attribute, every, "`dimensions` must be every dimension of {first} in order, not {dimensions:?}");
    for i in 0..site.op.operands.len() {
        let operand = tensors!(site.operand_tensor(i));
        ensure!(Shape, agree(&operand.shape, &first.shape), "operands {first} and {operand} differ in shape");
    }
    result.element_may_be(first.element);
    result.shape_is(&first.shape)?;
    if site.wanted.is_some() { Ok(()) } else { region_yields_elements(site, 0) }
}

fn rng(site: &Site<'_>) -> Result<()> {
    let (a, b, shape) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.operand_tensor(2));
    let result = tensors!(site.result_tensor(0));
    ensure!(Type, a.shape.is_empty() && b.shape.is_empty(), "the bounds {a} and {b} must be scalars");
    ensure!(Type, a.element == b.element && a.element == result.element, "bounds and result differ in element type");
    shape_operand(site, 2, shape, result)
}
