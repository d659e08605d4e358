//! The pass `recognize_patterns`.

mod activation;
mod attention;
mod found;
mod matcher;
mod norm;
mod softmax;

use std::collections::{HashMap, HashSet};

use stablehlo::ir::{Attributes, Func, Module, Op, OpKind, Region, ValueId};
use stablehlo::{Result, VerifyLevel, rewrite};

use self::found::Match;
use self::matcher::Matcher;
use crate::eliminate_dead_code::eliminate_dead_code;
use crate::names::Names;
use crate::outline::outline;

/// A group of ops for which vendors often have a kernel. See [`recognize_patterns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pattern {
    /// `pjrt.attention`
    Attention,
    /// `pjrt.layer_norm`
    LayerNorm,
    /// `pjrt.rms_norm`
    RmsNorm,
    /// `pjrt.bias_activation`
    BiasActivation,
    /// `pjrt.softmax`
    Softmax,
}

impl Pattern {
    /// All patterns. A larger pattern precedes the patterns that it contains.
    pub const ALL: &[Self] = &[Self::Attention, Self::LayerNorm, Self::RmsNorm, Self::BiasActivation, Self::Softmax];

    fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::LayerNorm => "layer_norm",
            Self::RmsNorm => "rms_norm",
            Self::BiasActivation => "bias_activation",
            Self::Softmax => "softmax",
        }
    }

    fn find(self, matcher: &Matcher<'_>, value: ValueId) -> Option<Match> {
        match self {
            Self::Attention => attention::find(matcher, value),
            Self::LayerNorm => norm::find_layer_norm(matcher, value),
            Self::RmsNorm => norm::find_rms_norm(matcher, value),
            Self::BiasActivation => activation::find(matcher, value),
            Self::Softmax => softmax::find(matcher, value),
        }
    }
}

/// Replaces groups of ops with composites, so that a vendor can run each composite with one kernel. The decomposition
/// of a composite is a new private function with the same ops, so [`expand_composites`](crate::expand_composites) gives
/// the same values again. Returns `None` if no group is found.
///
/// ```text
/// %m = reduce maximum %x; %e = exponential (%x - %m)      %y = stablehlo.composite "pjrt.softmax" %x
/// %s = reduce add %e; %y = %e / %s                    =>    {composite_attributes = {dimension = 1 : i64},
///                                                            decomposition = @pjrt.softmax_0}
/// ```
///
/// | composite | operands | attributes |
/// |---|---|---|
/// | `pjrt.softmax` | `x` | `dimension` |
/// | `pjrt.layer_norm` | `x`, then `scale` and `bias` if they exist | `dimensions`, `epsilon`, `has_scale`, `has_bias` |
/// | `pjrt.rms_norm` | `x`, then `scale` if it exists | `dimensions`, `epsilon`, `has_scale` |
/// | `pjrt.bias_activation` | `x`, `bias` | `dimension`, `activation`: `relu`, `gelu`, `gelu_tanh`, `sigmoid`, `silu` or `tanh` |
/// | `pjrt.attention` | `query`, `key`, `value`, then `mask` if it exists | `scale`, `mask`: `none`, `select` or `add`, `mask_value`, `scores`, `key_first`, `output`, `value_first`, `weights` |
///
/// - `dimensions` are dimensions of `x`. `scale` and `bias` have the extents of these dimensions.
/// - Layer norm is `(x - mean) / sqrt(variance + epsilon) * scale + bias`. RMS norm is
///   `x / sqrt(mean(x * x) + epsilon) * scale`.
/// - The bias of an activation is added along `dimension` of `x`.
/// - Attention is `dot(softmax(mask(dot(query, key) * scale)), value)`. `scores` and `output` are the dimension numbers
///   of the two `dot_general` ops, as lists of batching and contracting dimensions of their left and right operands.
///   `key_first` and `value_first` are true if `key` and `value` are the left operands. The softmax is over the
///   dimension of the keys. Its result has the shape `weights`, and is an operand of the second product. With the mask
///   `select`, a score whose mask is `false` becomes `mask_value`. With the mask `add`, the mask is added to the
///   scores. The weights and `mask` have their elements in the order of the scores. They keep the dimension of the
///   keys, but may have dimensions of extent 1, and the other dimensions may be split or merged, as in `4x6x6` and
///   `2x2x6x6`.
///
/// Also finds groups that differ only in reshapes with dimensions of extent 1, attention that reshapes the scores, such
/// as products over merged batch and head dimensions, and groups that compute sums in a wider type. Every value that
/// the program uses elsewhere is still computed.
///
/// Call [`stablehlo::inline`], [`expand_chlo`](crate::expand_chlo), [`fold_constants`](crate::fold_constants),
/// [`canonicalize`](crate::canonicalize) and
/// [`eliminate_common_subexpressions`](crate::eliminate_common_subexpressions) first, because the pass expects their
/// forms. Keep `chlo.erf` and `chlo.erfc`.
///
/// # Errors
///
/// Returns an error if the module is not valid.
pub fn recognize_patterns(module: &Module, patterns: &[Pattern]) -> Result<Option<Module>> {
    // The search follows operands, and must not meet the same op again.
    stablehlo::verify(module, VerifyLevel::STRUCTURE)?;
    let mut done: Option<Module> = None;
    // A pattern may remain whose values another pattern also uses, so search until nothing is found.
    while let Some(next) = once(done.as_ref().unwrap_or(module), patterns)? {
        done = Some(eliminate_dead_code(&next).unwrap_or(next));
    }
    Ok(done)
}

fn once(module: &Module, patterns: &[Pattern]) -> Result<Option<Module>> {
    // The functions of composites contain their patterns.
    let ops = module.funcs.iter().flat_map(|func| func.body.all_ops());
    let decompositions: HashSet<&str> = ops
        .filter_map(|op| match &op.kind {
            OpKind::Composite { name, decomposition, .. } if name.starts_with("pjrt.") => Some(&**decomposition),
            _ => None,
        })
        .collect();
    let mut names = Names::new(module);
    let mut changed = module.clone();
    let mut added = Vec::new();
    for (func, to) in module.funcs.iter().zip(&mut changed.funcs) {
        if decompositions.contains(&*func.name) {
            continue;
        }
        let mut composites = composites(func, patterns, &mut names, &mut added)?;
        if !composites.is_empty() {
            rewrite(to, &module.locations, |op, patch| {
                match op.results.first().and_then(|result| composites.remove(result)) {
                    Some((kind, operands)) => _ = patch.define(kind, &operands, &op.results),
                    None => patch.push(op),
                }
                Ok(())
            })?;
        }
    }
    if added.is_empty() {
        return Ok(None);
    }
    changed.funcs.extend(added);
    Ok(Some(changed))
}

/// Returns the composites of a function, by the values for which they stand. Adds their decompositions.
fn composites(
    func: &Func,
    patterns: &[Pattern],
    names: &mut Names,
    added: &mut Vec<Func>,
) -> Result<HashMap<ValueId, (OpKind, Vec<ValueId>)>> {
    let matcher = Matcher::new(func);
    let mut found = HashMap::new();
    // Ops of patterns that were found.
    let mut used: HashSet<*const Op> = HashSet::new();
    let ops: Vec<&Op> = func.body.all_ops().collect();
    for &pattern in Pattern::ALL.iter().filter(|pattern| patterns.contains(pattern)) {
        // From the last op to the first, because a pattern with more ops ends later.
        for &op in ops.iter().rev() {
            let &[result] = &op.results[..] else { continue };
            if used.contains(&std::ptr::from_ref(op)) {
                continue;
            }
            let Some(Match { attributes, operands }) = pattern.find(&matcher, result) else { continue };
            let Some(slice) = matcher.slice(result, &operands) else { continue };
            if slice.iter().any(|op| used.contains(&std::ptr::from_ref(*op)) && !matches!(op.kind, OpKind::Constant(_)))
            {
                continue;
            }
            used.extend(slice.iter().map(|op| std::ptr::from_ref(*op)));
            let name = format!("pjrt.{}", pattern.name());
            let callee = names.next(&name);
            added.push(decomposition(&callee, &slice, &operands, result, func)?);
            let kind = OpKind::Composite { name, decomposition: callee, composite_attributes: attributes };
            found.insert(result, (kind, operands));
        }
    }
    Ok(found)
}

/// Creates a function of these ops whose arguments are the operands of the composite.
fn decomposition(name: &str, slice: &[&Op], operands: &[ValueId], result: ValueId, from: &Func) -> Result<Func> {
    let outline = outline(name, slice.iter().copied(), &[result], &from.values)?;
    let mut func = outline.func;
    let mut own: HashMap<ValueId, ValueId> = outline.operands.iter().copied().zip(func.body.args.clone()).collect();
    let mut args = Vec::with_capacity(operands.len());
    for operand in operands {
        // If the composite has an operand twice, the ops use the first argument.
        args.push(match own.remove(operand) {
            Some(arg) => arg,
            None => func.values.push(from.values[*operand].clone()),
        });
    }
    func.arg_attributes = vec![Attributes::new(); args.len()];
    func.body = Region { args, ..func.body };
    Ok(func)
}
