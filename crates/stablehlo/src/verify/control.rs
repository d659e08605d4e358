//! Checks the numbers of operands, results and regions, and the types of values that are passed between an op and its
//! regions.

use super::site::{Site, ensure, returned};
use crate::compatible::{all_compatible, list, unbounded};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::ops::{Count, counts};

/// Returns a region, which exists because [`verify`] has checked the number of regions.
fn region<'a>(site: &Site<'a>, at: usize) -> &'a Region {
    &site.op.regions[at]
}

fn check_count(count: Count, actual: usize, what: &str) -> Result<()> {
    match count {
        Count::Exactly(n) => ensure!(Structure, actual == usize::from(n), "must have {n} {what}, not {actual}"),
        Count::AtLeast(n) => {
            ensure!(Structure, actual >= usize::from(n), "must have at least {n} {what}, not {actual}")
        }
    }
    Ok(())
}

/// Checks the numbers of operands and regions of an op.
pub(super) fn verify_operands(op: &Op) -> Result<()> {
    let [operands, _, regions] = counts(&op.kind);
    check_count(operands, op.operands.len(), "operands")?;
    check_count(regions, op.regions.len(), "regions")
}

pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    let op = site.op;
    let [operands, results, regions] = counts(&op.kind);
    check_count(operands, op.operands.len(), "operands")?;
    check_count(results, op.results.len(), "results")?;
    check_count(regions, op.regions.len(), "regions")?;
    for region in &op.regions {
        ensure!(
            Structure,
            !region.ops.is_empty() || matches!(op.kind, OpKind::Composite { .. } | OpKind::Other { .. }),
            "a region must end in a return"
        );
    }
    match &op.kind {
        OpKind::While => verify_while(site),
        OpKind::If => {
            scalar(site.operand(0)?, ElementType::Bool, "the condition")?;
            branches(site)
        }
        OpKind::Case => {
            scalar(site.operand(0)?, ElementType::I32, "the index")?;
            branches(site)
        }
        OpKind::Sort { .. } => {
            ensure!(Structure, op.operands.len() == op.results.len(), "must have as many results as operands");
            let elements = element_types(site, &op.operands, 2)?;
            takes(region(site, 0), site, &elements, "the comparator")?;
            predicate(region(site, 0), site, "the comparator")
        }
        OpKind::Reduce { .. } | OpKind::ReduceWindow { .. } => {
            let inputs = op.operands.len() / 2;
            ensure!(Structure, inputs * 2 == op.operands.len(), "must have as many initial values as inputs");
            ensure!(Structure, inputs == op.results.len(), "must have as many results as inputs");
            for (input, init) in site.operands().zip(site.operands().skip(inputs)) {
                let (Type::Tensor(input), Type::Tensor(init)) = (input, init) else { continue };
                ensure!(Type, init.shape.is_empty(), "initial value of type {init} must be a scalar");
                promotes(input, init)?;
            }
            reducer(region(site, 0), site, inputs)?;
            accumulates(region(site, 0), site, 0, inputs)?;
            accumulates(region(site, 0), site, inputs, inputs)
        }
        OpKind::Scatter { .. } => {
            let inputs = op.operands.len() / 2;
            ensure!(
                Structure,
                inputs * 2 + 1 == op.operands.len(),
                "must have inputs, indices, and as many updates as inputs"
            );
            ensure!(Structure, inputs == op.results.len(), "must have as many results as inputs");
            for (input, result) in site.operands().zip(site.results()) {
                let (Type::Tensor(input), Type::Tensor(result)) = (input, result) else { continue };
                ensure!(
                    Shape,
                    crate::compatible::agree(&input.shape, &result.shape),
                    "the result {result} must have the shape of the input {input}"
                );
                promotes(input, result)?;
            }
            reducer(region(site, 0), site, inputs)?;
            accumulates(region(site, 0), site, 0, inputs)?;
            accumulates(region(site, 0), site, inputs + 1, inputs)
        }
        OpKind::SelectAndScatter { .. } => {
            if let (Type::Tensor(operand), Type::Tensor(result)) = (site.operand(0)?, site.result(0)?) {
                ensure!(
                    Shape,
                    crate::compatible::agree(&operand.shape, &result.shape),
                    "the result {result} must have the shape of the operand {operand}"
                );
                promotes(operand, result)?;
            }
            let element = element_types(site, op.operands.get(..1).unwrap_or_default(), 2)?;
            takes(region(site, 0), site, &element, "the selection")?;
            predicate(region(site, 0), site, "the selection")?;
            reducer(region(site, 1), site, 1)?;
            accumulates(region(site, 1), site, 1, 1)?;
            accumulates(region(site, 1), site, 2, 1)
        }
        OpKind::CreateToken => token(site.result(0)?),
        OpKind::AfterAll => {
            site.operands().try_for_each(token)?;
            token(site.result(0)?)
        }
        OpKind::OptimizationBarrier => {
            ensure!(
                Type,
                all_compatible(site.operands(), site.results()),
                "results must have the types of the operands"
            );
            Ok(())
        }
        OpKind::Tuple => {
            let types: Vec<Type> = site.operands().cloned().collect();
            ensure!(
                Type,
                *site.result(0)? == Type::Tuple(types),
                "the result must be the tuple of the operands' types"
            );
            Ok(())
        }
        OpKind::GetTupleElement { index } => {
            let Type::Tuple(types) = site.operand(0)? else {
                return Err(Error::new(ErrorKind::Type, "the operand must be a tuple"));
            };
            ensure!(
                Type,
                types.get(*index) == Some(site.result(0)?),
                "element {index} does not exist or differs from the result type"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

fn scalar(ty: &Type, element: ElementType, what: &str) -> Result<()> {
    match ty {
        Type::Tensor(tensor) if tensor.shape.is_empty() && tensor.element == element => Ok(()),
        _ => Err(Error::new(ErrorKind::Type, format_args!("{what} must be a tensor<{element}>, not {ty}"))),
    }
}

fn token(ty: &Type) -> Result<()> {
    ensure!(Type, matches!(ty, Type::Token | Type::Other(_)), "operands and results must be tokens, not {ty}");
    Ok(())
}

fn args<'a>(region: &'a Region, site: &'a Site<'_>) -> impl Iterator<Item = &'a Type> + Clone {
    region.args.iter().map(|&v| site.func.ty(v))
}

fn takes(region: &Region, site: &Site<'_>, types: &[Type], what: &str) -> Result<()> {
    ensure!(
        Type,
        all_compatible(args(region, site), types),
        "{what} takes ({}) but must take ({})",
        list(args(region, site)),
        list(types)
    );
    Ok(())
}

fn yields<'t>(
    region: &Region,
    site: &Site<'t>,
    types: impl Iterator<Item = &'t Type> + Clone,
    what: &str,
) -> Result<()> {
    let actual = returned(region)?.iter().map(|&v| site.func.ty(v));
    ensure!(
        Type,
        all_compatible(actual.clone(), types.clone()),
        "{what} returns ({}) but must return ({})",
        list(actual),
        list(types)
    );
    Ok(())
}

fn predicate(region: &Region, site: &Site<'_>, what: &str) -> Result<()> {
    yields(region, site, [Type::Tensor(TensorType::new([], ElementType::Bool))].iter(), what)
}

fn verify_while(site: &Site<'_>) -> Result<()> {
    ensure!(Type, all_compatible(site.operands(), site.results()), "results must have the types of the operands");
    let types: Vec<Type> = site.operands().cloned().collect();
    takes(region(site, 0), site, &types, "the condition")?;
    takes(region(site, 1), site, &types, "the body")?;
    predicate(region(site, 0), site, "the condition")?;
    yields(region(site, 1), site, types.iter(), "the body")
}

fn branches(site: &Site<'_>) -> Result<()> {
    for region in &site.op.regions {
        takes(region, site, &[], "a branch")?;
        yields(region, site, site.results(), "a branch")?;
    }
    Ok(())
}

/// Checks that a reduction accumulates in a type of the same kind that is at least as wide.
fn promotes(from: &TensorType, to: &TensorType) -> Result<()> {
    let (a, b) = (from.element, to.element);
    let kind = |e: ElementType| {
        (e == ElementType::Bool, e.is_signed_integer(), e.is_unsigned_integer(), e.is_float(), e.is_complex())
    };
    ensure!(
        Type,
        a == b || (kind(a) == kind(b) && a.bit_width() <= b.bit_width()),
        "{from} cannot be accumulated in {to}"
    );
    Ok(())
}

/// Checks that the reducer can accumulate values of the operands' types in the types of its arguments, and that the
/// results have the element types of its arguments.
///
/// `first` and `count` select these operands, which are either the inputs or the initial values.
fn accumulates(region: &Region, site: &Site<'_>, first: usize, count: usize) -> Result<()> {
    let inputs = site.operands().skip(first).take(count);
    for ((&value, input), result) in region.args.iter().zip(inputs).zip(site.results()) {
        let (Type::Tensor(taken), Type::Tensor(input), Type::Tensor(result)) = (site.func.ty(value), input, result)
        else {
            continue;
        };
        promotes(input, taken)?;
        ensure!(Type, result.element == taken.element, "the reducer returns {taken} but the result is {result}");
    }
    Ok(())
}

/// Returns scalar types with the element types of these tensors. Each type occurs `copies` times. The type of a
/// quantized tensor is returned unchanged.
fn element_types(site: &Site<'_>, tensors: &[ValueId], copies: usize) -> Result<Vec<Type>> {
    let mut types = Vec::with_capacity(tensors.len() * copies);
    for &value in tensors {
        let ty = match site.func.ty(value) {
            Type::Tensor(tensor) => Type::Tensor(TensorType::new([], tensor.element)),
            ty @ Type::Other(text) => match unbounded(text) {
                Some((_, element)) => Type::Tensor(TensorType::new([], element)),
                None => ty.clone(),
            },
            other => return Err(Error::new(ErrorKind::Type, format_args!("operands must be tensors, not {other}"))),
        };
        types.extend(vec![ty; copies]);
    }
    Ok(types)
}

/// Checks a reducer, which takes two scalars for each input and returns one scalar for each input. The scalars have the
/// type in which the reducer accumulates.
fn reducer(region: &Region, site: &Site<'_>, inputs: usize) -> Result<()> {
    ensure!(
        Structure,
        region.args.len() == 2 * inputs,
        "the reducer must take {} arguments, not {}",
        2 * inputs,
        region.args.len()
    );
    for ty in args(region, site) {
        if let Type::Tensor(tensor) = ty {
            ensure!(Type, tensor.shape.is_empty(), "the reducer must take scalars, not {ty}");
        }
    }
    let first = args(region, site).take(inputs);
    ensure!(
        Type,
        args(region, site).skip(inputs).eq(first.clone()),
        "the two halves of the reducer's arguments must have the same types"
    );
    yields(region, site, first, "the reducer")
}

/// Checks the reducer in the region with the index `region`, and the types in which it accumulates. The reducer takes
/// two scalars for each of `inputs` inputs, and returns one.
pub(super) fn region_reduces(site: &Site<'_>, region: usize, inputs: usize) -> Result<()> {
    match site.op.regions.get(region) {
        Some(region) => {
            reducer(region, site, inputs)?;
            accumulates(region, site, 0, inputs)
        }
        None => Err(Error::new(ErrorKind::Structure, "must have a reducer")),
    }
}

/// Checks a region that takes one scalar for each operand and returns one element of the result.
pub(super) fn region_yields_elements(site: &Site<'_>, region: usize) -> Result<()> {
    let Some(region) = site.op.regions.get(region) else {
        return Err(Error::new(ErrorKind::Structure, "must have a computation"));
    };
    takes(region, site, &element_types(site, &site.op.operands, 1)?, "the computation")?;
    yields(region, site, element_types(site, &site.op.results, 1)?.iter(), "the computation")
}
