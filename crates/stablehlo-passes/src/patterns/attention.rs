//! Attention: the product of the softmax of the scaled scores with the values.

use stablehlo::ir::{Attribute, Binary as B, DotDimensions, Op, OpKind, ValueId};

use super::found::{Match, flag, float, integers, operands, text};
use super::matcher::{Axis, Matcher};
use super::softmax::softmax;

pub(super) fn find(matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
    let (output, left, right) = dot(matcher, value)?;
    [true, false].into_iter().find_map(|value_first| {
        let (weights, values) = if value_first { (right, left) } else { (left, right) };
        let contracted = if value_first { &output.rhs_contracting } else { &output.lhs_contracting };
        let ty = matcher.ty(weights)?;
        let &[dimension] = &contracted[..] else { return None };
        let keys = Axis::of(ty, dimension)?;
        let found = softmax(matcher, matcher.around(keys, matcher.unconverted(matcher.around(keys, weights))))?;
        // The product must be over the dimension of the softmax.
        let of_softmax = matcher.ty(found.x)?;
        let &summed = Matcher::core_dimensions(of_softmax).get(found.dimension)?;
        (Axis::of(of_softmax, summed) == Some(keys)).then_some(())?;
        let scores = scores(matcher, found.x, keys)?;
        let shape: Vec<usize> = ty.shape.iter().map(|&extent| usize::try_from(extent).ok()).collect::<Option<_>>()?;
        let attributes = vec![
            float("scale", scores.scale),
            text("mask", scores.mask.map_or("none", |(name, _)| name)),
            float("mask_value", scores.mask_value),
            ("scores".to_owned(), dimensions(scores.dimensions)),
            flag("key_first", scores.key_first),
            ("output".to_owned(), dimensions(output)),
            flag("value_first", value_first),
            ("weights".to_owned(), integers(&shape)),
        ];
        let mask = scores.mask.map(|(_, mask)| mask);
        let operands = operands(&[scores.query, scores.key, values], &[mask]);
        Some(Match { attributes, operands })
    })
}

fn dot<'f>(matcher: &Matcher<'f>, value: ValueId) -> Option<(&'f DotDimensions, ValueId, ValueId)> {
    match matcher.op(value)? {
        Op { kind: OpKind::DotGeneral { dimensions, .. }, operands, .. } => match operands[..] {
            [left, right] => Some((dimensions, left, right)),
            _ => None,
        },
        _ => None,
    }
}

fn dimensions(of: &DotDimensions) -> Attribute {
    let lists = [&of.lhs_batching, &of.rhs_batching, &of.lhs_contracting, &of.rhs_contracting];
    Attribute::Array(lists.map(|list| integers(list)).to_vec())
}

struct Scores<'f> {
    query: ValueId,
    key: ValueId,
    dimensions: &'f DotDimensions,
    key_first: bool,
    scale: f64,
    /// The kind of the mask and the mask.
    mask: Option<(&'static str, ValueId)>,
    mask_value: f64,
}

/// `x` is the operand of the softmax over the keys. Reshapes may split and merge the other dimensions.
fn scores<'f>(matcher: &Matcher<'f>, x: ValueId, keys: Axis) -> Option<Scores<'f>> {
    let around = |value| matcher.around(keys, value);
    let mut value = around(matcher.unconverted(around(x)));
    let (mut mask, mut mask_value) = (None, 0.0);
    if let Some(Op { kind: OpKind::Select, operands, .. }) = matcher.op(value) {
        let &[on, yes, no] = &operands[..] else { return None };
        // A predicate for all scores is not a mask.
        (matcher.ty(on)?.shape == matcher.ty(yes)?.shape).then_some(())?;
        mask_value = matcher.number(no)?;
        mask = Some(("select", on));
        value = around(yes);
    } else if let Some((scores, added)) =
        matcher.both(value, B::Add).into_iter().find(|&(scores, _)| scaled(matcher, around(scores), keys).is_some())
    {
        mask = Some(("add", added));
        value = around(scores);
    }
    let (scale, product) = scaled(matcher, value, keys)?;
    let (dimensions, left, right) = dot(matcher, product)?;
    // The dimensions of the scores are those of both operands that are neither batching nor contracting, after the
    // batching ones. The softmax is over the keys.
    let free = matcher.ty(left)?.rank() - dimensions.lhs_contracting.len();
    let summed = keys.find(matcher.ty(product)?)?;
    (summed >= dimensions.lhs_batching.len()).then_some(())?;
    let key_first = summed < free;
    let (query, key) = if key_first { (right, left) } else { (left, right) };
    Some(Scores { query, key, dimensions, key_first, scale, mask, mask_value })
}

/// Returns the factor and the product of the queries and the keys.
fn scaled(matcher: &Matcher<'_>, value: ValueId, keys: Axis) -> Option<(f64, ValueId)> {
    if dot(matcher, value).is_some() {
        return Some((1.0, value));
    }
    let (scale, product) = match matcher.binary(value, B::Divide) {
        Some((product, divisor)) => (1.0 / matcher.number(divisor)?, product),
        None => {
            let factor = |&(_, factor): &(ValueId, ValueId)| matcher.number(factor).is_some();
            let (product, factor) = matcher.both(value, B::Multiply).into_iter().find(factor)?;
            (matcher.number(factor)?, product)
        }
    };
    let product = matcher.around(keys, matcher.unconverted(matcher.around(keys, product)));
    dot(matcher, product).map(|_| (scale, product))
}
