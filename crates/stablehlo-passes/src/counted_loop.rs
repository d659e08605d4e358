//! Facts about counted loops.

use stablehlo::ir::{Binary, ComparisonDirection, Literal, Op, OpKind, ValueId};

use crate::evaluate::{Number, uniform_number, wraps};
use crate::uses::Uses;

/// A `while` that counts. See [`counted_loop`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountedLoop {
    /// Index of the carried value that counts, a scalar integer. It is also the index of its initial value among the
    /// operands, of its final value among the results, and of the argument of both regions.
    pub induction: usize,
    /// The operand with the initial value.
    pub start: ValueId,
    /// The number that the body adds to the value, which may be negative but not zero.
    pub step: i64,
    /// Comparison of the value, on the left, with the limit. The loop continues while it is true.
    pub direction: ComparisonDirection,
    /// The limit, a value from outside of the loop. It does not change while the loop runs.
    pub limit: ValueId,
    /// How often the body runs, if the initial value and the limit are constants. `None` also if the loop does not end
    /// before the value overflows.
    pub trip_count: Option<u64>,
}

/// Returns how a `while` counts, for devices that unroll loops, or that run loops without reading the condition from
/// their memory. Returns `None` for other ops, and if the loop does not count. `uses` are those of the whole function.
///
/// The condition must be one comparison (`LT`, `LE`, `GT`, `GE` or `NE`) of a carried value with a limit, and the body
/// must add a constant to this value. The limit is a constant, a value from outside, or a carried value that the body
/// returns as it is. JAX emits such loops for `fori_loop` and `scan`. The condition and the body may contain other ops.
///
/// ```
/// use stablehlo::VerifyLevel;
/// use stablehlo_passes::{Uses, counted_loop};
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<f32>) -> tensor<f32> {
///   %start = stablehlo.constant dense<2> : tensor<i32>
///   %0:2 = stablehlo.while(%i = %start, %y = %x) : tensor<i32>, tensor<f32>
///     cond { %limit = stablehlo.constant dense<9> : tensor<i32>
///            %1 = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
///            stablehlo.return %1 : tensor<i1> }
///     do   { %step = stablehlo.constant dense<3> : tensor<i32>
///            %1 = stablehlo.add %i, %step : tensor<i32>
///            %2 = stablehlo.sine %y : tensor<f32>
///            stablehlo.return %1, %2 : tensor<i32>, tensor<f32> }
///   return %0#1 : tensor<f32>
/// }", VerifyLevel::FULL)?;
/// let main = module.entry().expect("the module has one");
/// let found = counted_loop(&main.body.ops[1], &Uses::of(main)).expect("a counted loop");
/// assert_eq!((found.induction, found.step, found.trip_count), (0, 3, Some(3)));
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[must_use]
pub fn counted_loop(op: &Op, uses: &Uses<'_>) -> Option<CountedLoop> {
    let (OpKind::While, [condition, body]) = (&op.kind, &op.regions[..]) else { return None };
    let returned = |region: &stablehlo::ir::Region, index: usize| region.ops.last()?.operands.get(index).copied();
    let compare = uses.definition(returned(condition, 0)?)?;
    let (OpKind::Compare { direction, .. }, &[a, b]) = (&compare.kind, &compare.operands[..]) else { return None };
    let carried = |value: ValueId| condition.args.iter().position(|arg| *arg == value);
    let counts = |value: ValueId| -> Option<(usize, i64)> {
        let index = carried(value)?;
        let next = uses.definition(returned(body, index)?)?;
        let &argument = body.args.get(index)?;
        let (OpKind::Binary(Binary::Add | Binary::Subtract), &[x, y]) = (&next.kind, &next.operands[..]) else {
            return None;
        };
        let is_sum = matches!(next.kind, OpKind::Binary(Binary::Add));
        let by = if x == argument {
            y
        } else if y == argument && is_sum {
            x
        } else {
            return None;
        };
        let step = i64::try_from(integer(literal(by, uses)?)?).ok()?;
        Some((index, if is_sum { step } else { step.checked_neg()? })).filter(|&(_, step)| step != 0)
    };
    if *direction == ComparisonDirection::Eq {
        return None;
    }
    let (direction, limit, (induction, step)) = match (counts(a), counts(b)) {
        (Some(found), _) => (*direction, b, found),
        (None, Some(found)) => (direction.mirrored(), a, found),
        (None, None) => return None,
    };
    // The limit must not change.
    let limit = match carried(limit) {
        Some(index) if returned(body, index)? == *body.args.get(index)? => *op.operands.get(index)?,
        Some(_) => return None,
        None => match uses.definition(limit) {
            // An op of the condition may compute another number in each iteration.
            Some(definition) if is_within(definition, condition) => {
                matches!(definition.kind, OpKind::Constant(_)).then_some(limit)?
            }
            _ => limit,
        },
    };
    let start = *op.operands.get(induction)?;
    let trip_count = trip_count(literal(start, uses), direction, literal(limit, uses), step);
    Some(CountedLoop { induction, start, step, direction, limit, trip_count })
}

fn is_within(op: &Op, region: &stablehlo::ir::Region) -> bool {
    region.all_ops().any(|other| std::ptr::eq(other, op))
}

fn literal<'f>(value: ValueId, uses: &Uses<'f>) -> Option<&'f Literal> {
    match &uses.definition(value)?.kind {
        OpKind::Constant(literal) => Some(literal),
        _ => None,
    }
}

fn integer(literal: &Literal) -> Option<i128> {
    uniform_number(literal).and_then(Number::integer).filter(|_| literal.ty.rank() == 0)
}

fn trip_count(
    start: Option<&Literal>,
    direction: ComparisonDirection,
    limit: Option<&Literal>,
    step: i64,
) -> Option<u64> {
    use ComparisonDirection as D;
    let element = start?.ty.element;
    let (start, limit, step) = (integer(start?)?, integer(limit?)?, i128::from(step));
    let runs = match direction {
        D::Lt => start < limit,
        D::Le => start <= limit,
        D::Gt => start > limit,
        D::Ge => start >= limit,
        D::Ne => start != limit,
        D::Eq => return None,
    };
    if !runs {
        return Some(0);
    }
    let distance = limit - start;
    let count = match direction {
        D::Lt | D::Gt => (distance.abs() + step.abs() - 1) / step.abs(),
        D::Ne if distance % step == 0 => distance / step,
        D::Ne => return None,
        _ => distance.abs() / step.abs() + 1,
    };
    let is_toward = match direction {
        D::Lt | D::Le => step > 0,
        D::Gt | D::Ge => step < 0,
        _ => count > 0,
    };
    let last = start + count * step;
    (is_toward && !wraps(element, last)).then(|| u64::try_from(count).ok())?
}
