//! The pass `widen_narrow_types`.

use std::collections::HashSet;

use stablehlo::ir::{
    Binary, DYNAMIC, ElementType, Func, Module, Op, OpKind, Region, TensorType, Type, Unary, ValueId, ValueTypes,
};
use stablehlo::{Error, ErrorKind, Patch, Result, rewrite};

use crate::apply::apply;
use crate::build::{Build, of};
use crate::evaluate::Number;
use crate::sizes::{broadcast, shape_of};

/// Computes in wider types than those of the program, for devices that store elements of narrow types but do not
/// compute with them. `wide` returns the type in which the device computes with elements of a type, such as `f32` for
/// an `f8` or `i8` for `i4`, and `None` if it computes in the type itself. Returns `None` if the program computes only
/// in such types.
///
/// ```text
/// %0 = stablehlo.add %x, %y : tensor<4xf8E5M2>  =>  %1 = stablehlo.convert %x : (tensor<4xf8E5M2>) -> tensor<4xf32>
///                                                   %2 = stablehlo.convert %y : (tensor<4xf8E5M2>) -> tensor<4xf32>
///                                                   %3 = stablehlo.add %1, %2 : tensor<4xf32>
///                                                   %0 = stablehlo.convert %3 : (tensor<4xf32>) -> tensor<4xf8E5M2>
/// ```
///
/// The conversions of the results round, saturate and create NaN as the narrow type does, and keep the low bits of an
/// integer. Every op is rounded separately. Only products of tensors, and reductions with one elementwise op, are
/// computed in the wide type as a whole and rounded once. Reductions of integers with a quotient, a shift or a power
/// compute each step in the wide type instead. Counts and shifts of bits take the width of the narrow type into
/// account.
///
/// Ops that move or pass on elements keep the narrow types, and so do conversions, arguments and results. An op whose
/// region computes with more than one op, such as a `scatter`, also keeps them outside of its region. Call
/// [`decompose_quantized`](crate::decompose_quantized) and [`expand_batch_norm`](crate::expand_batch_norm) first.
///
/// # Errors
///
/// Returns an error if `wide` returns a type that is not wider, or that is of another kind. The kinds are signed
/// integers, unsigned integers and floats. `i1` belongs to none of them. The module must be verified.
pub fn widen_narrow_types(
    module: &Module,
    wide: impl Fn(ElementType) -> Option<ElementType>,
) -> Result<Option<Module>> {
    let widened = |types: &ValueTypes, value: ValueId| {
        let element = types.tensor(value)?.element;
        wide(element).filter(|&wide| wide != element)
    };
    let is_complex = |types: &ValueTypes, value| types.tensor(value).is_some_and(|ty| ty.element.is_complex());
    let is_concerned = |op: &Op, types: &ValueTypes| {
        let mut values = op.operands.iter().chain(&op.results);
        // The parts of a complex number stay as they are.
        computes(&op.kind)
            && values.clone().any(|&value| widened(types, value).is_some())
            && !values.any(|&value| is_complex(types, value))
    };
    let applies = |func: &Func| func.body.all_ops().any(|op| is_concerned(op, &func.values));
    apply(module, applies, |func, locations| {
        // The ops of the regions that stay as they are, in the wide type.
        let whole = func.body.all_ops().filter_map(|op| reducer(op, &func.values)).flat_map(|(op, _)| &op.results);
        let whole: HashSet<ValueId> = whole.copied().collect();
        let mut changed = false;
        rewrite(func, locations, |op, patch| {
            let types = patch.types();
            let is_concerned = is_concerned(&op, types);
            for &value in op.operands.iter().chain(&op.results).filter(|_| is_concerned) {
                if let (Some(wide), Some(ty)) = (widened(types, value), types.tensor(value)) {
                    check(ty.element, wide)?;
                }
            }
            let is_in_reducer = op.results.first().is_some_and(|result| whole.contains(result));
            if is_in_reducer || !is_concerned || !is_whole(&op, types) {
                patch.push(op);
                return Ok(());
            }
            changed = true;
            widen(op, patch, &widened)
        })?;
        Ok(changed)
    })
}

/// Returns an error if a type is not wider than another one of the same kind.
fn check(narrow: ElementType, wide: ElementType) -> Result<()> {
    let kinds = [ElementType::is_signed_integer, ElementType::is_unsigned_integer, ElementType::is_float];
    let is_same = kinds.iter().any(|is_kind| is_kind(narrow) && is_kind(wide));
    if is_same && narrow.bit_width() < wide.bit_width() {
        return Ok(());
    }
    let (narrow, wide) = (narrow.name(), wide.name());
    let message = format_args!("cannot compute in {wide} with elements of {narrow}; use a wider type of the same kind");
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns whether the op computes elements from others.
fn computes(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Binary(_)
            | OpKind::Cholesky { .. }
            | OpKind::Clamp
            | OpKind::Compare { .. }
            | OpKind::Convolution { .. }
            | OpKind::DotGeneral { .. }
            | OpKind::DynamicConv { .. }
            | OpKind::DynamicIota { .. }
            | OpKind::Fma
            | OpKind::Iota { .. }
            | OpKind::Reduce { .. }
            | OpKind::ReducePrecision { .. }
            | OpKind::ReduceWindow { .. }
            | OpKind::Rng { .. }
            | OpKind::TriangularSolve { .. }
            | OpKind::Unary(_)
    )
}

/// Returns the op that a reduction applies, and the arguments of its region. Returns `None` if the reduction must be
/// rounded after each op.
fn reducer<'o>(op: &'o Op, types: &ValueTypes) -> Option<(&'o Op, &'o [ValueId])> {
    let (OpKind::Reduce { .. } | OpKind::ReduceWindow { .. }, [Region { args, ops }]) = (&op.kind, &op.regions[..])
    else {
        return None;
    };
    let ([one, end], &[a, b]) = (&ops[..], &args[..]) else { return None };
    let OpKind::Binary(binary) = one.kind else { return None };
    // The low bits of these results follow from the low bits of the operands, or the result is one of the operands.
    let is_exact = matches!(
        binary,
        Binary::Add
            | Binary::And
            | Binary::Maximum
            | Binary::Minimum
            | Binary::Multiply
            | Binary::Or
            | Binary::Subtract
            | Binary::Xor
    );
    let is_simple = (is_exact || !types.tensor(a)?.element.is_integer())
        && (one.operands[..] == [a, b] || one.operands[..] == [b, a])
        && end.operands == one.results;
    is_simple.then_some((one, args))
}

/// Returns whether the op and its regions can be computed in the wide type.
fn is_whole(op: &Op, types: &ValueTypes) -> bool {
    op.regions.is_empty() || reducer(op, types).is_some()
}

fn widen(mut op: Op, patch: &mut Patch<'_>, wide: &impl Fn(&ValueTypes, ValueId) -> Option<ElementType>) -> Result<()> {
    let narrow = op.operands.first().and_then(|&x| patch.types().tensor(x)).map(|ty| ty.element);
    let inner = reducer(&op, patch.types())
        .map(|(one, args)| (args[0], args.iter().chain(&one.results).copied().collect::<Vec<_>>()));
    // A reduction computes in the type of its sums. Its inputs may have a narrower type.
    let own = |value| patch.types().tensor(value).map(|ty| ty.element);
    let sum = inner.as_ref().and_then(|&(arg, _)| wide(patch.types(), arg).or_else(|| own(arg)));
    for operand in &mut op.operands {
        if let Some(element) = sum.or_else(|| wide(patch.types(), *operand)) {
            *operand = patch.convert(*operand, element)?;
        }
    }
    for value in inner.into_iter().flat_map(|(_, values)| values) {
        if let Some(element) = wide(patch.types(), value) {
            let ty = of(patch.tensor(value)?, element);
            patch.set_type(value, Type::Tensor(ty));
        }
    }
    if matches!(op.kind, OpKind::DotGeneral { .. }) {
        // It states the narrow types.
        op.attributes.retain(|(name, _)| name != "algorithm");
    }
    if let (Some(narrow), &[result]) = (narrow.filter(|narrow| narrow.is_integer()), &op.results[..])
        && let Some(value) = bits(&op, narrow, patch)?
    {
        patch.define(OpKind::Convert, &[value], &[result]).attributes = op.attributes;
        return Ok(());
    }
    let results = op.results.clone();
    for result in &mut op.results {
        if let Some(element) = wide(patch.types(), *result) {
            let ty = of(patch.tensor(*result)?, element);
            *result = patch.value(Type::Tensor(ty));
        }
    }
    let computed = op.results.clone();
    patch.push(op);
    for (&value, &result) in computed.iter().zip(&results).filter(|(value, result)| value != result) {
        patch.define(OpKind::Convert, &[value], &[result]);
    }
    Ok(())
}

/// Computes a function of the bits of a narrow integer, whose operands are already wide. Returns `None` for other ops.
fn bits(op: &Op, narrow: ElementType, patch: &mut Patch<'_>) -> Result<Option<ValueId>> {
    let Some(&x) = op.operands.first() else { return Ok(None) };
    let ty = patch.tensor(x)?.clone();
    let unused = i128::from(ty.element.bit_width()) - i128::from(narrow.bit_width());
    let mut number = |patch: &mut Patch<'_>, number| {
        if !ty.shape.contains(&DYNAMIC) {
            return patch.splat(ty.clone(), Number::Integer(number));
        }
        let number = patch.splat(TensorType::new([], ty.element), Number::Integer(number))?;
        let shape = shape_of(patch, x)?;
        broadcast(patch, number, &[], &ty, Some(shape))
    };
    let own = |patch: &mut Patch<'_>, number: &mut dyn FnMut(&mut Patch<'_>, i128) -> Result<ValueId>| {
        let mask = number(patch, (1 << narrow.bit_width()) - 1)?;
        patch.binary(Binary::And, x, mask)
    };
    Ok(Some(match (&op.kind, &op.operands[..]) {
        (OpKind::Unary(Unary::Popcnt), _) => {
            let x = own(patch, &mut number)?;
            patch.unary(Unary::Popcnt, x)?
        }
        (OpKind::Unary(Unary::CountLeadingZeros), _) => {
            let x = own(patch, &mut number)?;
            let (zeros, unused) = (patch.unary(Unary::CountLeadingZeros, x)?, number(patch, unused)?);
            patch.binary(Binary::Subtract, zeros, unused)?
        }
        (OpKind::Binary(Binary::ShiftRightLogical), &[_, by]) => {
            let x = own(patch, &mut number)?;
            patch.binary(Binary::ShiftRightLogical, x, by)?
        }
        // Fills with the highest bit of the narrow type, also for unsigned types.
        (OpKind::Binary(Binary::ShiftRightArithmetic), &[_, by]) => {
            let unused = number(patch, unused)?;
            let x = patch.binary(Binary::ShiftLeft, x, unused)?;
            let x = patch.binary(Binary::ShiftRightArithmetic, x, unused)?;
            patch.binary(Binary::ShiftRightArithmetic, x, by)?
        }
        _ => return Ok(None),
    }))
}
