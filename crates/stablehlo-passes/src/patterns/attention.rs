//! Attention: the product of the softmax of the scaled scores with the values.

use stablehlo::ir::{Attribute, Binary as B, DotDimensions, Op, OpKind, ValueId};

use super::found::{Match, flag, float, integers, operands, text};
use super::matcher::Matcher;
use super::softmax::{Softmax, softmax};

pub(super) fn find(matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
    let (output, left, right) = dot(matcher, value)?;
    [true, false].into_iter().find_map(|value_first| {
        let (weights, values) = if value_first { (right, left) } else { (left, right) };
        let contracted = if value_first { &output.rhs_contracting } else { &output.lhs_contracting };
        let weights = matcher.unconverted(weights);
        let found = softmax(matcher, weights)?;
        let ty = matcher.ty(weights)?;
        let core = Matcher::core_dimensions(ty);
        // The product must be over the dimension of the softmax.
        let (&[dimension], Some(&summed)) = (&contracted[..], core.get(found.dimension)) else { return None };
        let scores = scores(matcher, &found)?;
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
        (dimension == summed).then_some(Match { attributes, operands })
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

fn scores<'f>(matcher: &Matcher<'f>, found: &Softmax) -> Option<Scores<'f>> {
    let mut value = matcher.core(matcher.unconverted(matcher.core(found.x)));
    let (mut mask, mut mask_value) = (None, 0.0);
    if let Some(Op { kind: OpKind::Select, operands, .. }) = matcher.op(value) {
        let &[on, yes, no] = &operands[..] else { return None };
        mask_value = matcher.number(no)?;
        mask = Some(("select", on));
        value = matcher.core(yes);
    } else if let Some((scores, added)) =
        matcher.both(value, B::Add).into_iter().find(|&(scores, _)| scaled(matcher, matcher.core(scores)).is_some())
    {
        mask = Some(("add", added));
        value = matcher.core(scores);
    }
    let (scale, product) = scaled(matcher, value)?;
    let (dimensions, left, right) = dot(matcher, product)?;
    // The dimensions of the scores are those of both operands that are neither batching nor contracting, after the
    // batching ones. The softmax is over the keys.
    let free = matcher.ty(left)?.rank() - dimensions.lhs_contracting.len();
    let ty = matcher.ty(product)?;
    let &summed = Matcher::core_dimensions(ty).get(found.dimension)?;
    (summed >= dimensions.lhs_batching.len()).then_some(())?;
    let key_first = summed < free;
    let (query, key) = if key_first { (right, left) } else { (left, right) };
    Some(Scores { query, key, dimensions, key_first, scale, mask, mask_value })
}

/// Returns the factor and the product of the queries and the keys.
fn scaled(matcher: &Matcher<'_>, value: ValueId) -> Option<(f64, ValueId)> {
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
    let product = matcher.core(matcher.unconverted(product));
    dot(matcher, product).map(|_| (scale, product))
}
