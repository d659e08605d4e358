//! The pass `expand_scans`.

use stablehlo::ir::{
    Attribute, Attributes, Binary, ComparisonDirection, ComparisonType, DYNAMIC, ElementType, Literal, Module, Op,
    OpKind, Region, TensorType, Type, ValueId, ValueTypes,
};
use stablehlo::{Error, ErrorKind, Patch, Result, rewrite};

use crate::apply::apply_all;
use crate::build::Build;
use crate::loops::index;

fn is_scan(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Other { name, .. } if name == "chlo.scan")
}

/// Replaces CHLO's `scan` with a loop. Returns `None` if the program contains no scan.
///
/// The loop carries a counter, the body's carried values and the outputs computed so far. Each iteration takes a slice
/// of every input, runs the body, and writes its slices to the outputs.
///
/// # Errors
///
/// Returns an error if the extent of the scanned dimension is not known, or if a scan breaks a rule of CHLO. The
/// module must be verified.
pub fn expand_scans(module: &Module) -> Result<Option<Module>> {
    apply_all(module, |func| func.body.all_ops().any(is_scan), |func, locations| rewrite(func, locations, replace))
}

/// The attributes of a scan.
struct Scan {
    inputs: usize,
    outputs: usize,
    dimension: usize,
    length: i64,
    reversed: bool,
}

impl Scan {
    fn of(op: &Op, attributes: &Attributes, values: &ValueTypes) -> Result<Self> {
        let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
        let first = |name: &str| {
            let list = find(name).and_then(Attribute::as_integers)?;
            usize::try_from(*list.first()?).ok()
        };
        let inputs = first("operandSegmentSizes").ok_or_else(|| invalid("operandSegmentSizes is missing"))?;
        let outputs = first("resultSegmentSizes").ok_or_else(|| invalid("resultSegmentSizes is missing"))?;
        let dimension = find("dimension").and_then(Attribute::as_integer).and_then(|d| usize::try_from(d).ok());
        let dimension = dimension.ok_or_else(|| invalid("dimension is missing"))?;
        let stated = find("scan_dim_size").and_then(Attribute::as_integer);
        let scanned = op.operands.iter().take(inputs).chain(op.results.iter().take(outputs));
        let extents = scanned.filter_map(|v| match values.get(v.0 as usize) {
            Some(Type::Tensor(tensor)) => tensor.shape.get(dimension).copied(),
            _ => None,
        });
        let length = stated.into_iter().chain(extents).find(|&extent| extent != DYNAMIC);
        let Some(length) = length else {
            return Err(unsupported("the extent of the scanned dimension is not known"));
        };
        let reversed = find("is_reverse").is_some_and(|a| *a == Attribute::Bool(true));
        Ok(Self { inputs, outputs, dimension, length, reversed })
    }
}

const INDEX: ElementType = ElementType::I64;

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Structure, message)
}

fn unsupported(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the type of an operand or result, which must be a tensor.
fn array(patch: &Patch<'_>, value: ValueId) -> Result<TensorType> {
    patch.tensor(value).cloned().map_err(|error| unsupported(error.message()))
}

fn index_type() -> TensorType {
    TensorType::new([], INDEX)
}

fn replace(op: Op, patch: &mut Patch<'_>) -> Result<()> {
    if is_scan(&op) {
        return expand(op, patch);
    }
    patch.push(op);
    Ok(())
}

/// Adds the loop of a scan.
fn expand(mut op: Op, patch: &mut Patch<'_>) -> Result<()> {
    let OpKind::Other { attributes, .. } = &op.kind else { return Ok(()) };
    let scan = Scan::of(&op, attributes, patch.types())?;
    let (Some(body), true) = (op.regions.pop(), op.regions.is_empty()) else {
        return Err(invalid("must have one region"));
    };
    let (inputs, inits) = op.operands.split_at(scan.inputs.min(op.operands.len()));
    let (outputs, carries) = op.results.split_at(scan.outputs.min(op.results.len()));
    if scan.length == 0 {
        return expand_empty(&scan, inits, outputs, carries, patch);
    }
    let mut operands = vec![index(patch, 0)?];
    operands.extend(inits);
    let mut results = vec![patch.value(Type::Tensor(index_type()))];
    results.extend(carries);
    for &output in outputs {
        let ty = with_extent(&array(patch, output)?, scan.dimension, scan.length);
        patch.set_type(output, Type::Tensor(ty.clone()));
        // The initial contents do not matter, because the loop overwrites every element.
        operands.push(patch.blank(&ty)?);
        results.push(output);
    }
    let condition = condition(patch, &operands, scan.length)?;
    let turn = turn(patch, &scan, body, inputs, &operands)?;
    patch.define(OpKind::While, &operands, &results).regions = vec![condition, turn];
    Ok(())
}

/// Replaces a scan over zero slices. Its outputs are empty, and the carried values keep their initial values.
fn expand_empty(
    scan: &Scan,
    inits: &[ValueId],
    outputs: &[ValueId],
    carries: &[ValueId],
    patch: &mut Patch<'_>,
) -> Result<()> {
    for &output in outputs {
        let ty = with_extent(&array(patch, output)?, scan.dimension, 0);
        patch.set_type(output, Type::Tensor(ty.clone()));
        patch.define(OpKind::Constant(Literal::new(ty, Vec::new())?), &[], &[output]);
    }
    patch.define(OpKind::OptimizationBarrier, inits, carries);
    Ok(())
}

/// Creates values with the types of others.
fn arguments(patch: &mut Patch<'_>, like: &[ValueId]) -> Result<Vec<ValueId>> {
    let ty = |v: &ValueId| patch.types().shared(v.0 as usize).cloned();
    let types: Option<Vec<_>> = like.iter().map(ty).collect();
    let types = types.ok_or_else(|| invalid("an operand has no type"))?;
    Ok(types.into_iter().map(|ty| patch.value(ty)).collect())
}

fn condition(patch: &mut Patch<'_>, operands: &[ValueId], length: i64) -> Result<Region> {
    let args = arguments(patch, operands)?;
    let counter = args[0];
    patch.region(args, |patch| {
        let end = index(patch, length)?;
        let kind = OpKind::Compare { direction: ComparisonDirection::Lt, compare_type: ComparisonType::Signed };
        let less = patch.add(kind, &[counter, end], TensorType::new([], ElementType::Bool));
        patch.define(OpKind::Return, &[less], &[]);
        Ok(())
    })
}

/// Builds the body of the loop. It contains the ops that define the arguments of the scan's body, the scan's body
/// itself, and the ops that update the outputs and the counter.
fn turn(
    patch: &mut Patch<'_>,
    scan: &Scan,
    mut body: Region,
    inputs: &[ValueId],
    operands: &[ValueId],
) -> Result<Region> {
    let (slices, carried) = body.args.split_at(scan.inputs.min(body.args.len()));
    let made = arguments(patch, &operands[1 + carried.len()..])?;
    let counter = patch.value(Type::Tensor(index_type()));
    let mut args = vec![counter];
    args.extend(carried);
    args.extend(&made);
    patch.region(args, |patch| {
        let place = if scan.reversed {
            let last = index(patch, scan.length - 1)?;
            patch.add(OpKind::Binary(Binary::Subtract), &[last, counter], index_type())
        } else {
            counter
        };
        let zero = index(patch, 0)?;
        let at_place = |rank: usize| (0..rank).map(move |d| if d == scan.dimension { place } else { zero });
        for (&input, &slice) in inputs.iter().zip(slices) {
            let ty = with_extent(&array(patch, input)?, scan.dimension, 1);
            let starts: Vec<ValueId> = std::iter::once(input).chain(at_place(ty.rank())).collect();
            let cut = patch.add(OpKind::DynamicSlice { slice_sizes: ty.shape.clone() }, &starts, ty);
            patch.define(OpKind::Reshape, &[cut], &[slice]);
        }
        let Some(Op { kind: OpKind::Return, operands: yielded, .. }) = body.ops.pop() else {
            return Err(invalid("its body must end in a return"));
        };
        body.ops.into_iter().for_each(|op| patch.push(op));
        let one = index(patch, 1)?;
        let mut next = vec![patch.add(OpKind::Binary(Binary::Add), &[counter, one], index_type())];
        let (slices, carried) = yielded.split_at(scan.outputs.min(yielded.len()));
        next.extend(carried);
        for (&output, &slice) in made.iter().zip(slices) {
            let ty = array(patch, output)?;
            let row = with_extent(&ty, scan.dimension, 1);
            let row = patch.add(OpKind::Reshape, &[slice], row);
            let starts: Vec<ValueId> = [output, row].into_iter().chain(at_place(ty.rank())).collect();
            next.push(patch.add(OpKind::DynamicUpdateSlice, &starts, ty));
        }
        patch.define(OpKind::Return, &next, &[]);
        Ok(())
    })
}

/// Returns the type with another extent of a dimension.
fn with_extent(ty: &TensorType, dimension: usize, extent: i64) -> TensorType {
    let mut ty = ty.clone();
    ty.shape[dimension] = extent;
    ty
}
