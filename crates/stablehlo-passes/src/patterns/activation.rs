//! A bias and an activation function.

use stablehlo::ir::{Binary as B, Op, OpKind, Unary as U, ValueId};

use super::found::{Match, integer, text};
use super::matcher::{Matcher, Spread};

pub(super) fn find(matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
    let (name, sum) = activation(matcher, value)?;
    let ty = matcher.ty(value)?;
    for (x, bias) in matcher.both(sum, B::Add) {
        let Some(Spread { value: bias, dimensions }) = matcher.spread(bias) else { continue };
        let core = Matcher::core_dimensions(ty);
        let (&[at], Some(bias_ty), Some(x_ty)) = (&dimensions[..], matcher.ty(bias), matcher.ty(x)) else { continue };
        // A bias that is computed from `x` is not a parameter, but is broadcast, so this cannot be wrong.
        if bias_ty.rank() == 1 && x_ty == ty && core.len() > 1 {
            let attributes = vec![integer("dimension", *core.get(at)?), text("activation", name)];
            return Some(Match { attributes, operands: vec![x, bias] });
        }
    }
    None
}

/// Returns the name and the operand of an activation function.
fn activation(matcher: &Matcher<'_>, value: ValueId) -> Option<(&'static str, ValueId)> {
    if let Some(x) = matcher.unary(value, U::Tanh) {
        return Some(("tanh", x));
    }
    if let Some(x) = matcher.with_number(value, B::Maximum, |number| number.to_bits() == 0) {
        return Some(("relu", x));
    }
    if let Some(x) = sigmoid(matcher, value) {
        return Some(("sigmoid", x));
    }
    for (x, factor) in matcher.both(value, B::Multiply) {
        if sigmoid(matcher, factor) == Some(x) {
            return Some(("silu", x));
        }
        if tanh_factor(matcher, factor) == Some(x) {
            return Some(("gelu_tanh", x));
        }
        // PyTorch multiplies the operand by the half.
        let half = matcher.with_number(x, B::Multiply, |number| number == 0.5);
        if half.is_some() && half == one_plus_tanh(matcher, factor) {
            return half.map(|x| ("gelu_tanh", x));
        }
        if let Some(x) = exact_gelu(matcher, x, factor) {
            return Some(("gelu", x));
        }
    }
    None
}

fn near(number: f64, wanted: f64) -> bool {
    (number - wanted).abs() <= wanted.abs() / 128.0
}

/// `1 / (1 + exp(-x))`
fn sigmoid(matcher: &Matcher<'_>, value: ValueId) -> Option<ValueId> {
    if let Some(x) = matcher.unary(value, U::Logistic) {
        return Some(x);
    }
    let (one, divisor) = matcher.binary(value, B::Divide)?;
    let exponential = matcher.with_number(divisor, B::Add, |number| number == 1.0)?;
    let x = matcher.unary(matcher.unary(exponential, U::Exponential)?, U::Negate)?;
    (matcher.number(one) == Some(1.0)).then_some(x)
}

/// `0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))`
fn tanh_factor(matcher: &Matcher<'_>, value: ValueId) -> Option<ValueId> {
    one_plus_tanh(matcher, matcher.with_number(value, B::Multiply, |number| number == 0.5)?)
}

/// `1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))`
fn one_plus_tanh(matcher: &Matcher<'_>, value: ValueId) -> Option<ValueId> {
    let tanh = matcher.with_number(value, B::Add, |number| number == 1.0)?;
    let scaled = matcher.unary(tanh, U::Tanh)?;
    let sum = matcher.with_number(scaled, B::Multiply, |number| near(number, 0.797_884_56))?;
    for (x, cubic) in matcher.both(sum, B::Add) {
        let Some(cube) = matcher.with_number(cubic, B::Multiply, |number| near(number, 0.044_715)) else { continue };
        for (square, factor) in matcher.both(cube, B::Multiply) {
            if factor == x && matcher.binary(square, B::Multiply) == Some((x, x)) {
                return Some(x);
            }
        }
    }
    None
}

/// `(x * 0.5) * erfc(-x * sqrt(0.5))`, or `(x * 0.5) * (1 + erf(x * sqrt(0.5)))`
fn exact_gelu(matcher: &Matcher<'_>, half: ValueId, factor: ValueId) -> Option<ValueId> {
    let x = matcher.with_number(half, B::Multiply, |number| number == 0.5)?;
    let function = |value: ValueId, wanted: &str| match matcher.op(value)? {
        Op { kind: OpKind::Other { name, .. } | OpKind::Composite { name, .. }, operands, .. } if name == wanted => {
            operands.first().copied()
        }
        _ => None,
    };
    let scaled = |value| {
        matcher.with_number(value, B::Multiply, |number| near(number, std::f64::consts::FRAC_1_SQRT_2)).or_else(|| {
            let (x, divisor) = matcher.binary(value, B::Divide)?;
            near(matcher.number(divisor)?, std::f64::consts::SQRT_2).then_some(x)
        })
    };
    if let Some(argument) = function(factor, "chlo.erfc") {
        return (matcher.unary(scaled(argument)?, U::Negate)? == x).then_some(x);
    }
    let erf = matcher.with_number(factor, B::Add, |number| number == 1.0)?;
    (scaled(function(erf, "chlo.erf")?)? == x).then_some(x)
}
