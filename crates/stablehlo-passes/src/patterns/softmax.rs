//! Softmax: `exp(x - max(x)) / sum(exp(x - max(x)))`.

use stablehlo::ir::{Binary, Unary, ValueId};

use super::found::{Match, integer};
use super::matcher::{Matcher, Reduced};

/// A softmax.
pub(super) struct Softmax {
    /// The operand, with the type of the result.
    pub(super) x: ValueId,
    /// The core dimension over which the sum is.
    pub(super) dimension: usize,
}

pub(super) fn find(matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
    let Softmax { x, dimension } = softmax(matcher, value)?;
    let ty = matcher.ty(x)?;
    let &dimension = Matcher::core_dimensions(ty).get(dimension)?;
    (ty == matcher.ty(value)?).then_some(())?;
    Some(Match { attributes: vec![integer("dimension", dimension)], operands: vec![x] })
}

pub(super) fn softmax(matcher: &Matcher<'_>, value: ValueId) -> Option<Softmax> {
    let (exponential, divisor) = matcher.binary(matcher.core(value), Binary::Divide)?;
    let divisor = matcher.spread(divisor)?;
    // The sum may be computed in a wider type.
    let sum = matcher.reduced(matcher.unconverted(divisor.value), Binary::Add, 0.0)?;
    let summed = matcher.unconverted(matcher.core(sum.operand));
    let exponential = matcher.core(exponential);
    if divisor.dimensions != sum.kept || matcher.core(summed) != exponential {
        return None;
    }
    let (x, maximum) = matcher.binary(matcher.unary(exponential, Unary::Exponential)?, Binary::Subtract)?;
    let spread = matcher.spread(maximum)?;
    // JAX also takes the maximum of the result and of the initial value.
    let maximum = matcher.with_number(spread.value, Binary::Maximum, |number| number == f64::NEG_INFINITY);
    let maximum = matcher.reduced(maximum.unwrap_or(spread.value), Binary::Maximum, f64::NEG_INFINITY)?;
    let Reduced { operand, reduced, kept } = maximum;
    let is_same = spread.dimensions == kept && reduced == sum.reduced && matcher.core(operand) == matcher.core(x);
    let &[dimension] = &reduced[..] else { return None };
    is_same.then_some(Softmax { x, dimension })
}
