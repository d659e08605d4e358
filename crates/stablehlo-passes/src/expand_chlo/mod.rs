//! The pass `expand_chlo`.

mod attributes;
mod bessel;
#[rustfmt::skip]
mod erf_tables;
pub(crate) mod functions;
mod named;
mod ragged_dot;
mod special;
mod zeta;

use stablehlo::ir::{
    Attribute, Attributes, Binary, ComparisonDirection, ComparisonType, ElementType, Module, Op, OpKind, Region,
    TensorType, Type, Unary, ValueId,
};
use stablehlo::{Patch, Result, rewrite};

use self::attributes::{can_be_zero, filled, number};
use self::named::{Function, named};
use crate::apply::apply;
use crate::build::{Build, of};
use crate::evaluate::{is_float, is_integer};

/// Replaces ops of CHLO, StableHLO's client dialect, with ops of StableHLO. Keeps an op if `keep` returns `true` for
/// its name, such as `chlo.erf`. Returns `None` if the program has no other op that the pass replaces.
///
/// ```text
/// %0 = chlo.broadcast_add %x, %y                    %1 = stablehlo.broadcast_in_dim %y, dims = [1]
///   : (tensor<2x3xf32>, tensor<3xf32>)          =>  %0 = stablehlo.add %x, %1
///   -> tensor<2x3xf32>
/// ```
///
/// | ops | results |
/// |---|---|
/// | `broadcast_*` of ops of StableHLO, `constant`, `constant_like`, `square`, `conj`, `is_inf`, `is_pos_inf`, `is_neg_inf` | exact |
/// | `top_k` | exact; a stable sort in the total order, of which the first elements are taken |
/// | `next_after`, `mulhi`, `dynamic_reshape` | exact |
/// | `tan` | as `stablehlo.tan` |
/// | `acos`, `acosh`, `asin`, `asinh`, `atan`, `atanh`, `cosh`, `sinh` | the relative error is at most 8 units in the last place, if the device's functions have at most 1 |
/// | `erf` | the relative error is at most 8 units in the last place |
/// | `bessel_i1e` | the relative error is at most 16 units in the last place |
/// | `erfc`, `erf_inv` | the relative error is at most 64 units in the last place |
/// | `digamma`, `lgamma` | the error is at most 64 units in the last place of the result, or of 1 for smaller results |
/// | `zeta(s, q)`, `polygamma(n, q)` | the error is at most 16 units in the last place of the result for a positive `q` and an `s` up to 100, if the device's functions have at most 1 |
/// | `ragged_dot` | as `stablehlo.dot_general` |
///
/// Functions of numbers narrower than `f32` are computed in `f32`.
///
/// For a negative `q`, large terms of `zeta` and `polygamma` cancel near zeros of the function, and the error is
/// relative to these terms. `polygamma` is `digamma` if `n` is 0. Otherwise, it is the product of `n!` and a value of
/// `zeta`, which must both be in the range of the type, so `n` is at most 34 for `f32` and 170 for `f64`.
///
/// Unless the ragged dimension is a batching one, `ragged_dot` becomes one product with a copy of its left operand for
/// each group. The copies need as much memory as the left operand times the number of groups, unless the device fuses
/// them with the product.
///
/// Keeps functions of complex numbers and other ops of dynamic shape. The pass [`expand_scans`](crate::expand_scans)
/// replaces `scan`. Frameworks send most ops of CHLO as composites, which
/// [`expand_composites`](crate::expand_composites) replaces.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn expand_chlo(module: &Module, keep: impl Fn(&str) -> bool) -> Result<Option<Module>> {
    let is_chlo = |op: &Op| matches!(&op.kind, OpKind::Other { name, .. } if name.starts_with("chlo.") && !keep(name));
    apply(
        module,
        |func| func.body.all_ops().any(is_chlo),
        |func, locations| {
            let mut changed = false;
            rewrite(func, locations, |op, patch| {
                if is_chlo(&op) && expanded(&op, patch, &is_chlo)? {
                    changed = true;
                } else {
                    patch.push(op);
                }
                Ok(())
            })?;
            Ok(changed)
        },
    )
}

/// Adds the ops that replace an op. Returns `false` if the pass does not replace it, and then adds nothing.
fn expanded(op: &Op, patch: &mut Patch<'_>, is_chlo: &dyn Fn(&Op) -> bool) -> Result<bool> {
    let OpKind::Other { name, attributes } = &op.kind else { return Ok(false) };
    let Some(name) = name.strip_prefix("chlo.") else { return Ok(false) };
    if name == "dynamic_reshape" {
        patch.define(OpKind::DynamicReshape, &op.operands, &op.results);
        return Ok(true);
    }
    let values = op.operands.iter().chain(&op.results);
    let types: Option<Vec<TensorType>> =
        values.map(|&v| patch.tensor(v).ok().filter(|ty| ty.num_elements().is_some()).cloned()).collect();
    let (Some(types), false) = (types, op.results.is_empty()) else { return Ok(false) };
    let (operands, results) = types.split_at(op.operands.len());
    let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    if let Some(name) = name.strip_prefix("broadcast_") {
        let Some(op) = broadcasting(name, op, attributes, operands, &results[0], patch)? else { return Ok(false) };
        if !is_chlo(&op) || !expanded(&op, patch, is_chlo)? {
            patch.push(op);
        }
        return Ok(true);
    }
    let value = match (name, &op.operands[..]) {
        ("constant", []) => match find("value") {
            Some(Attribute::Tensor(literal) | Attribute::DenseArray(literal)) if literal.ty == results[0] => {
                patch.add(OpKind::Constant(literal.clone()), &[], literal.ty.clone())
            }
            _ => return Ok(false),
        },
        ("constant_like", [_]) => match find("value").and_then(number) {
            Some(number) => filled(patch, number, &results[0])?,
            None => return Ok(false),
        },
        ("square", &[x]) => patch.binary(Binary::Multiply, x, x)?,
        ("conj", &[x]) if operands[0].element.is_complex() => {
            let (re, im) = (patch.unary(Unary::Real, x)?, patch.unary(Unary::Imag, x)?);
            let im = patch.unary(Unary::Negate, im)?;
            patch.binary(Binary::Complex, re, im)?
        }
        ("conj", &[x]) => x,
        ("is_inf" | "is_pos_inf" | "is_neg_inf", &[x]) if operands[0].element.is_float() => {
            let element = operands[0].element;
            let x = patch.convert(x, if is_float(element) { element } else { ElementType::F32 })?;
            let x = if name == "is_inf" { patch.unary(Unary::Abs, x)? } else { x };
            let limit = if name == "is_neg_inf" { f64::NEG_INFINITY } else { f64::INFINITY };
            let limit = patch.like(x, limit)?;
            patch.compare(ComparisonDirection::Eq, x, limit)?
        }
        ("next_after", &[x, y]) if operands[0] == operands[1] => match special::next_after(patch, x, y)? {
            Some(next) => next,
            None => return Ok(false),
        },
        ("mulhi", &[x, y]) if operands[0] == operands[1] => match special::mulhi(patch, x, y)? {
            Some(high) => high,
            None => return Ok(false),
        },
        ("top_k", &[x]) if results.len() == 2 => {
            let values = top_k(patch, x, &results[0], &results[1])?;
            return patch.replace(&op.results, &values).map(|()| true);
        }
        ("ragged_dot", &[lhs, rhs, sizes]) if operands.iter().all(|ty| can_be_zero(ty.element)) => {
            ragged_dot::ragged_dot(patch, attributes, [lhs, rhs, sizes], &results[0])?
        }
        (_, &[x, ref rest @ ..]) if operands[0].element.is_float() && operands.iter().all(|ty| *ty == operands[0]) => {
            let element = operands[0].element;
            let computed = if element == ElementType::F64 { ElementType::F64 } else { ElementType::F32 };
            let Some(function) = named(name) else { return Ok(false) };
            let x = patch.convert(x, computed)?;
            let y = match (function, rest) {
                (Function::One(function), []) => function(patch, x)?,
                (Function::Two(function), &[y]) => {
                    let y = patch.convert(y, computed)?;
                    function(patch, x, y)?
                }
                _ => return Ok(false),
            };
            patch.convert(y, element)?
        }
        _ => return Ok(false),
    };
    patch.replace(&op.results, &[value])?;
    Ok(true)
}

/// Broadcasts the operands of an op to a common shape. Returns the op on the broadcast operands.
fn broadcasting(
    name: &str,
    op: &Op,
    attributes: &Attributes,
    operands: &[TensorType],
    result: &TensorType,
    patch: &mut Patch<'_>,
) -> Result<Option<Op>> {
    let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    let kind = match (name, operands.len()) {
        ("select", 3) => OpKind::Select,
        ("compare", 2) => {
            let word = |name: &str| find(name).and_then(Attribute::as_word);
            let direction = word("comparison_direction").and_then(ComparisonDirection::from_name);
            let Some(direction) = direction else { return Ok(None) };
            let compare_type = word("compare_type").and_then(ComparisonType::from_name);
            OpKind::Compare { direction, compare_type: compare_type.unwrap_or(ComparisonType::NoType) }
        }
        ("next_after" | "polygamma" | "zeta", 2) => {
            OpKind::Other { name: format!("chlo.{name}"), attributes: Attributes::new() }
        }
        (_, 2) => match Binary::from_name(name) {
            Some(binary) => OpKind::Binary(binary),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let given = find("broadcast_dimensions").and_then(Attribute::as_integers);
    let rank = result.rank();
    let dimensions = |ty: &TensorType| -> Option<Vec<usize>> {
        let own = ty.rank();
        match &given {
            // The predicate of a `select` is a scalar, or has the rank of the other operands.
            Some(list) if own < rank && name != "select" => {
                let list: Option<Vec<usize>> = list.iter().map(|&d| usize::try_from(d).ok()).collect();
                list.filter(|list| list.len() == own)
            }
            _ => (own <= rank).then(|| (rank - own..rank).collect()),
        }
    };
    let dimensions: Option<Vec<Vec<usize>>> = operands.iter().map(dimensions).collect();
    let fits = |(dimensions, ty): (&Vec<usize>, &TensorType)| {
        let mut pairs = dimensions.iter().zip(&ty.shape);
        pairs.all(|(&d, &extent)| result.shape.get(d).is_some_and(|&to| extent == to || extent == 1))
            && dimensions.is_sorted_by(|a, b| a < b)
    };
    let Some(dimensions) = dimensions.filter(|all| all.iter().zip(operands).all(fits)) else { return Ok(None) };
    let mut broadcast = Vec::with_capacity(operands.len());
    for ((&x, ty), dimensions) in op.operands.iter().zip(operands).zip(dimensions) {
        let is_same = ty.shape == result.shape;
        broadcast.push(if is_same { x } else { patch.broadcast(x, &dimensions, &result.shape)? });
    }
    Ok(Some(Op { location: op.location, ..Op::new(kind, broadcast, op.results.clone()) }))
}

/// Sorts the elements of the last dimension with their positions, and takes the first ones.
fn top_k(patch: &mut Patch<'_>, x: ValueId, values: &TensorType, positions: &TensorType) -> Result<[ValueId; 2]> {
    let ty = patch.tensor(x)?.clone();
    let dimension = ty.rank().saturating_sub(1);
    let at = of(&ty, positions.element);
    let iota = patch.add(OpKind::Iota { iota_dimension: dimension }, &[], at.clone());
    let scalar = |patch: &mut Patch<'_>, element| patch.value(Type::Tensor(TensorType::new([], element)));
    let args: Vec<ValueId> =
        [ty.element, ty.element, at.element, at.element].into_iter().map(|element| scalar(patch, element)).collect();
    let (a, b) = (args[0], args[1]);
    let is_whole = is_integer(ty.element) || ty.element == ElementType::Bool;
    let compare_type = match ty.element {
        _ if !is_whole => ComparisonType::TotalOrder,
        element if element.is_signed_integer() => ComparisonType::Signed,
        _ => ComparisonType::Unsigned,
    };
    let comparator: Region = patch.region(args, |patch| {
        let kind = OpKind::Compare { direction: ComparisonDirection::Gt, compare_type };
        let is_first = patch.add(kind, &[a, b], TensorType::new([], ElementType::Bool));
        patch.define(OpKind::Return, &[is_first], &[]);
        Ok(())
    })?;
    let sorted = [patch.value(Type::Tensor(ty)), patch.value(Type::Tensor(at))];
    patch.define(OpKind::Sort { dimension, is_stable: true }, &[x, iota], &sorted).regions = vec![comparator];
    let first = |patch: &mut Patch<'_>, x, ty: &TensorType| {
        let (start_indices, strides) = (vec![0; ty.rank()], vec![1; ty.rank()]);
        patch.add(OpKind::Slice { start_indices, limit_indices: ty.shape.clone(), strides }, &[x], ty.clone())
    };
    Ok([first(patch, sorted[0], values), first(patch, sorted[1], positions)])
}
