//! Rules of those CHLO ops that devices can support directly.

use super::shapes::{Extents, agree, distinct, extents, extents_agree, rest, same_extents, shape_is, tensors, within};
use super::site::{Site, ensure, returned};
use crate::compatible::{all_compatible, compatible, list};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    let OpKind::Other { name, attributes } = &site.op.kind else { return Ok(()) };
    let Some(base) = name.strip_prefix("chlo.") else { return Ok(()) };
    let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    let integer = |name: &str| find(name).and_then(Attribute::as_integer);
    match base {
        "scan" => scan(site, &integer),
        "top_k" => {
            let operand = tensors!(site.operand_tensor(0));
            let Some(&last) = operand.shape.last() else {
                return Err(Error::new(ErrorKind::Shape, "the operand must not be a scalar"));
            };
            let k = integer("k").unwrap_or(0);
            ensure!(Shape, last == DYNAMIC || k <= last, "the last dimension of {operand} has less than {k} elements");
            Ok(())
        }
        "mulhi" => {
            let operand = tensors!(site.operand_tensor(0));
            ensure!(Type, operand.element.is_integer(), "operands must hold integers, not {}", operand.element);
            Ok(())
        }
        "constant_like" => {
            let Some(Attribute::Integer(_, element) | Attribute::Float(_, element)) = find("value") else {
                return Ok(());
            };
            let result = tensors!(site.result_tensor(0));
            ensure!(Type, result.element == *element, "the value is of type {element}, but the result is {result}");
            Ok(())
        }
        "ragged_dot" => ragged_dot(site, attributes),
        _ if base.starts_with("broadcast_") => super::quantized::alike(site),
        _ => Ok(()),
    }
}

/// Checks a scan. The scan's body takes a slice of each input and the carried values. It returns a slice of each output
/// and the new carried values.
fn scan(site: &Site<'_>, integer: &dyn Fn(&str) -> Option<i64>) -> Result<()> {
    let op = site.op;
    let [body] = &op.regions[..] else { return Err(Error::new(ErrorKind::Structure, "must have one region")) };
    let sizes = |name: &str| match &op.kind {
        OpKind::Other { attributes, .. } => {
            attributes.iter().find(|(n, _)| n == name).and_then(|(_, list)| list.as_integers())
        }
        _ => None,
    };
    let first = |name: &str| sizes(name).and_then(|list| usize::try_from(*list.first()?).ok());
    let (Some(inputs), Some(outputs)) = (first("operandSegmentSizes"), first("resultSegmentSizes")) else {
        return Err(Error::new(
            ErrorKind::Attribute,
            "`operandSegmentSizes` and `resultSegmentSizes` must give the number of carried values",
        ));
    };
    let fits = inputs <= op.operands.len() && outputs <= op.results.len();
    ensure!(Structure, fits, "has {} operands, of which {inputs} should be inputs", op.operands.len());
    ensure!(Structure, inputs + outputs > 0, "must have an input or an output");
    let dimension = integer("dimension").and_then(|d| usize::try_from(d).ok());
    let Some(dimension) = dimension else {
        return Err(Error::new(ErrorKind::Attribute, "`dimension` must be given and not negative"));
    };
    let mut length = integer("scan_dim_size").unwrap_or(DYNAMIC);
    let mut slice = |ty: &Type| {
        let Type::Tensor(tensor) = ty else { return Ok(ty.clone()) };
        within(dimension, tensor.rank(), "dimension")?;
        let extent = tensor.shape[dimension];
        ensure!(
            Shape,
            extents_agree(extent, length),
            "dimension {dimension} of {tensor} should have {length} elements"
        );
        length = if length == DYNAMIC { extent } else { length };
        let mut shape = tensor.shape.clone();
        shape.remove(dimension);
        Ok(Type::Tensor(TensorType::new(shape, tensor.element)))
    };
    let mut taken: Vec<Type> = site.operands().take(inputs).map(&mut slice).collect::<Result<_>>()?;
    taken.extend(site.operands().skip(inputs).cloned());
    let mut given: Vec<Type> = site.results().take(outputs).map(&mut slice).collect::<Result<_>>()?;
    given.extend(site.results().skip(outputs).cloned());
    let args = body.args.iter().map(|&v| site.func.ty(v));
    ensure!(
        Type,
        all_compatible(args.clone(), &taken),
        "the body takes ({}) but must take ({})",
        list(args),
        list(&taken)
    );
    let yielded = returned(body)?.iter().map(|&v| site.func.ty(v));
    ensure!(
        Type,
        all_compatible(yielded.clone(), &given),
        "the body returns ({}) but must return ({})",
        list(yielded),
        list(&given)
    );
    let carried = site.operands().skip(inputs).zip(site.results().skip(outputs)).all(|(a, b)| compatible(a, b));
    ensure!(Type, carried, "carried values must keep their types");
    Ok(())
}

/// Checks a ragged dot product. One dimension of the left operand is split into groups, and `group_sizes` contains
/// their sizes.
fn ragged_dot(site: &Site<'_>, attributes: &Attributes) -> Result<()> {
    let (lhs, rhs, sizes) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.operand_tensor(2));
    let dims = RaggedDotDimensions::of(attributes)?;
    let RaggedDotDimensions { dot, lhs_ragged, rhs_group: group } = &dims;
    let ragged = *lhs_ragged;
    let (batch, contracting) = (&dot.lhs_batching, &dot.lhs_contracting);
    let (rhs_batch, rhs_contracting) = (&dot.rhs_batching, &dot.rhs_contracting);
    distinct(&[&batch[..], contracting].concat(), lhs.rank(), "lhs dimensions")?;
    distinct(&[&rhs_batch[..], rhs_contracting, group].concat(), rhs.rank(), "rhs dimensions")?;
    ensure!(
        Shape,
        batch.len() == rhs_batch.len() && contracting.len() == rhs_contracting.len(),
        "the two sides have different numbers of batching or contracting dimensions"
    );
    same_extents(lhs, batch, rhs, rhs_batch)?;
    same_extents(lhs, contracting, rhs, rhs_contracting)?;
    within(ragged, lhs.rank(), "lhs_ragged_dimensions")?;
    let grouped = !batch.contains(&ragged) && !contracting.contains(&ragged);
    let wanted = usize::from(grouped);
    ensure!(Shape, group.len() == wanted, "rhs must have {wanted} group dimensions, not {}", group.len());
    let Some(&groups) = sizes.shape.last() else {
        return Err(Error::new(ErrorKind::Shape, "the group sizes must not be a scalar"));
    };
    let mut expected = extents(lhs, &dims.group_size_dimensions());
    expected.push(groups);
    ensure!(
        Shape,
        sizes.rank() == 1 || agree(&sizes.shape, &expected),
        "the group sizes are {sizes} but must be {}",
        TensorType::new(expected.to_vec(), sizes.element)
    );
    for (dimension, extent) in group.iter().zip(extents(rhs, group)) {
        ensure!(Shape, extents_agree(extent, groups), "dimension {dimension} of {rhs} must have {groups} elements");
    }
    let mut shape = Extents::new();
    shape.extend(contracting.contains(&ragged).then_some(groups));
    shape.extend(extents(lhs, batch));
    shape.extend(rest(&lhs.shape, &[&batch[..], contracting].concat()));
    shape.extend(rest(&rhs.shape, &[&rhs_batch[..], rhs_contracting, group].concat()));
    shape_is(tensors!(site.result_tensor(0)), &shape)
}
