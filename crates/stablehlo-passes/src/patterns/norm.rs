//! Layer norm and RMS norm.

use stablehlo::ir::{Attribute, Attributes, Binary as B, TensorType, Unary as U, ValueId};

use super::found::{Match, flag, float, integers, operands};
use super::matcher::{Matcher, Reduced, Spread};

/// A factor or a term that is broadcast along the normalized dimensions.
fn along(matcher: &Matcher<'_>, value: ValueId, reduced: &[usize], ty: &TensorType) -> Option<ValueId> {
    let Spread { value, dimensions } = matcher.spread(value)?;
    // The parameter itself, with its own dimensions.
    let core = Matcher::core_dimensions(ty);
    let wanted: Vec<i64> = reduced.iter().map(|&at| ty.shape[core[at]]).collect();
    (dimensions == reduced && matcher.ty(value)?.shape == wanted).then_some(value)
}

/// Returns `mean(operand)` of a value that is broadcast from one number per row.
fn mean(matcher: &Matcher<'_>, value: ValueId) -> Option<(Reduced, ValueId)> {
    let value = matcher.core(value);
    let (sum, factor) = match matcher.binary(value, B::Divide) {
        Some((sum, count)) => (sum, matcher.number(count)?),
        None => {
            let (sum, factor) =
                matcher.both(value, B::Multiply).into_iter().find(|&(_, b)| matcher.number(b).is_some())?;
            (sum, 1.0 / matcher.number(factor)?)
        }
    };
    let reduced = matcher.reduced(sum, B::Add, 0.0)?;
    let ty = matcher.ty(reduced.operand)?;
    let core = Matcher::core_dimensions(ty);
    let count: i64 = reduced.reduced.iter().map(|&at| ty.shape[core[at]]).product();
    // A factor is rounded to the element type.
    let is_count = (factor - count as f64).abs() <= 1e-6 * count as f64 && !reduced.reduced.is_empty();
    is_count.then_some((reduced, value))
}

/// Returns the number of each row, and whether a value is divided by its root instead of multiplied with it, for
/// `value * rsqrt(row + epsilon)` and `value / sqrt(row + epsilon)`.
struct Scaled {
    value: ValueId,
    row: ValueId,
    dimensions: Vec<usize>,
    epsilon: f64,
    /// Another factor, which belongs to the root.
    factor: Option<ValueId>,
}

fn root(matcher: &Matcher<'_>, spread: &Spread, unary: U) -> Option<(ValueId, f64)> {
    let sum = matcher.core(matcher.unary(spread.value, unary)?);
    let (row, epsilon) = matcher.both(sum, B::Add).into_iter().find(|&(_, b)| matcher.number(b).is_some())?;
    Some((matcher.core(row), matcher.number(epsilon)?))
}

fn scaled(matcher: &Matcher<'_>, value: ValueId) -> Vec<Scaled> {
    let mut found = Vec::new();
    let mut add = |value, spread: Option<Spread>, unary, factor| {
        if let Some(spread) = spread
            && let Some((row, epsilon)) = root(matcher, &spread, unary)
        {
            found.push(Scaled { value, row, dimensions: spread.dimensions, epsilon, factor });
        }
    };
    if let Some((a, b)) = matcher.binary(value, B::Divide) {
        add(a, matcher.spread(b), U::Sqrt, None);
    }
    for (a, b) in matcher.both(value, B::Multiply) {
        add(a, matcher.spread(b), U::Rsqrt, None);
        for (root, factor) in matcher.both(b, B::Multiply) {
            add(a, matcher.spread(root), U::Rsqrt, Some(factor));
        }
    }
    found
}

fn attributes(reduced: &[usize], ty: &TensorType, epsilon: f64) -> Attributes {
    let core = Matcher::core_dimensions(ty);
    let dimensions: Vec<usize> = reduced.iter().map(|&at| core[at]).collect();
    vec![("dimensions".to_owned(), integers(&dimensions)), float("epsilon", epsilon)]
}

/// A norm without parameters.
struct Norm {
    x: ValueId,
    reduced: Vec<usize>,
    epsilon: f64,
    factor: Option<ValueId>,
}

/// Finds a norm at a value, or at the operands of a product with the scale. The product may be one of converted
/// numbers.
fn with_scale(
    matcher: &Matcher<'_>,
    value: ValueId,
    find: fn(&Matcher<'_>, ValueId) -> Option<Norm>,
) -> Option<(Norm, Option<ValueId>)> {
    let ty = matcher.ty(value)?;
    for (norm, scale) in matcher.both(value, B::Multiply) {
        if let Some(norm) = find(matcher, matcher.unconverted(norm))
            && norm.factor.is_none()
            && let Some(scale) = along(matcher, scale, &norm.reduced, ty)
        {
            return Some((norm, Some(scale)));
        }
    }
    let norm = find(matcher, matcher.unconverted(value))?;
    let scale = match norm.factor {
        Some(factor) => Some(along(matcher, factor, &norm.reduced, ty)?),
        None => None,
    };
    Some((norm, scale))
}

/// Returns the operand before it was converted or reshaped, if it then has the type of the result.
fn input(matcher: &Matcher<'_>, x: ValueId, ty: &TensorType) -> Option<ValueId> {
    let is_same = |&x: &ValueId| matcher.ty(x) == Some(ty);
    [x, matcher.unconverted(x), matcher.core(x), matcher.unconverted(matcher.core(x))].into_iter().find(is_same)
}

pub(super) fn find_rms_norm(matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
    let (norm, scale) = with_scale(matcher, value, rms_norm)?;
    let ty = matcher.ty(value)?;
    let x = input(matcher, norm.x, ty)?;
    let mut attributes = attributes(&norm.reduced, ty, norm.epsilon);
    attributes.push(flag("has_scale", scale.is_some()));
    Some(Match { attributes, operands: operands(&[x], &[scale]) })
}

/// `x * rsqrt(mean(x * x) + epsilon)`
fn rms_norm(matcher: &Matcher<'_>, value: ValueId) -> Option<Norm> {
    let found = |scaled: Scaled| {
        let (Reduced { operand, reduced, kept }, _) = mean(matcher, scaled.row)?;
        let (a, b) = matcher.binary(operand, B::Multiply)?;
        let is_norm = a == b && a == scaled.value && kept == scaled.dimensions;
        is_norm.then_some(Norm { x: a, reduced, epsilon: scaled.epsilon, factor: scaled.factor })
    };
    scaled(matcher, value).into_iter().find_map(found)
}

pub(super) fn find_layer_norm(matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
    let ty = matcher.ty(value)?;
    let make = |norm: &Norm, scale: Option<ValueId>, bias: Option<ValueId>| {
        let x = input(matcher, norm.x, ty)?;
        let mut attributes: Attributes = attributes(&norm.reduced, ty, norm.epsilon);
        attributes
            .extend::<[(String, Attribute); 2]>([flag("has_scale", scale.is_some()), flag("has_bias", bias.is_some())]);
        Some(Match { attributes, operands: operands(&[x], &[scale, bias]) })
    };
    for (product, bias) in matcher.both(value, B::Add) {
        if let Some((norm, scale)) = with_scale(matcher, product, layer_norm)
            && let Some(bias) = along(matcher, bias, &norm.reduced, ty)
        {
            return make(&norm, scale, Some(bias));
        }
    }
    let (norm, scale) = with_scale(matcher, value, layer_norm)?;
    make(&norm, scale, None)
}

/// `(x - mean(x)) * rsqrt(variance + epsilon)`, to which the batch normalization that PyTorch/XLA uses adds zeros.
fn layer_norm(matcher: &Matcher<'_>, value: ValueId) -> Option<Norm> {
    let value = matcher.core(value);
    let value = matcher.with_number(value, B::Add, |number| number == 0.0).unwrap_or(value);
    let found = |scaled: Scaled| {
        let (x, spread) = matcher.binary(scaled.value, B::Subtract)?;
        let Spread { value: row, dimensions } = matcher.spread(spread)?;
        let (Reduced { operand, reduced, kept }, mean_row) = mean(matcher, row)?;
        let is_centered = operand == x && dimensions == kept && scaled.dimensions == kept;
        let is_variance = variance(matcher, scaled.row, x, scaled.value, mean_row, &reduced)?;
        let norm = Norm { x, reduced, epsilon: scaled.epsilon, factor: scaled.factor };
        (is_centered && is_variance).then_some(norm)
    };
    scaled(matcher, value).into_iter().find_map(found)
}

/// Returns whether a row is the mean of the squares of the centered numbers, or the mean of all squares minus the
/// square of the mean, which may be kept from becoming negative.
fn variance(
    matcher: &Matcher<'_>,
    row: ValueId,
    x: ValueId,
    centered: ValueId,
    mean_row: ValueId,
    reduced: &[usize],
) -> Option<bool> {
    let is_mean_of_square = |row: ValueId, of: ValueId| {
        mean(matcher, row).is_some_and(|(found, _)| {
            found.reduced == reduced && matcher.binary(found.operand, B::Multiply) == Some((of, of))
        })
    };
    if is_mean_of_square(row, centered) {
        return Some(true);
    }
    let row = matcher.with_number(row, B::Maximum, |number| number == 0.0).unwrap_or(row);
    let (squares, square) = matcher.binary(matcher.core(row), B::Subtract)?;
    let (a, b) = matcher.binary(matcher.core(square), B::Multiply)?;
    Some(is_mean_of_square(squares, x) && matcher.core(a) == mean_row && matcher.core(b) == mean_row)
}
