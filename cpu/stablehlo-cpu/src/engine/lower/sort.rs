//! Lowers `sort`, and recognizes comparators that compare keys of the elements.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Op, OpKind, Region, ValueId};

use super::{LoweringContext, Result, TypedValue, tensor_type, type_of};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::sort::{Order, Sort, SortKey};
use crate::engine::scalar_fn::ScalarFn;

impl<'m> LoweringContext<'_, 'm> {
    pub(super) fn sort(&mut self, dimension: usize) -> Result<()> {
        let operands = self.operands()?;
        let Some(first) = operands.first() else {
            return Err(self.invalid("must have an operand"));
        };
        for x in &operands {
            self.ensure(x.ty.dims == first.ty.dims, || format!("{} beside {}", x.ty, first.ty))?;
        }
        let rank = first.ty.rank();
        self.ensure(dimension < rank, || format!("dimension {dimension} of {}", first.ty))?;
        let dims = first.ty.dims.clone();
        let region = self.body()?;
        let mut scalars = Vec::with_capacity(2 * operands.len());
        for x in &operands {
            let scalar = self.typed(x.ty.dtype, &[])?;
            scalars.extend([scalar.clone(), scalar]);
        }
        let body = self.scalar_fn(region, &scalars)?;
        let pred = self.typed(DType::Bool, &[])?;
        self.ensure(body.results[..] == [pred], || format!("the comparator returns {:?}", body.results))?;
        let mut captured = body.captured.clone();
        let order = match self.sort_keys(region, &scalars)? {
            Some((keys, own)) => {
                captured = own;
                Order::Keys(keys)
            }
            None => Order::Comparator(body),
        };
        let mut ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).collect();
        ins.extend(captured);
        let sorted = self.first_sorted(&operands, dimension, dims[dimension], order, &ins)?;
        self.finish(sorted)
    }

    /// Sorts `inputs` together along `dimension` by `order`, and returns the first `kept` elements of each. `ins` are
    /// the inputs of the sort kernel, which may also include captured scalars. The result is exact, so it satisfies
    /// every recall target of `ApproxTopK`.
    pub(super) fn first_sorted(
        &mut self,
        inputs: &[TypedValue],
        dimension: usize,
        kept: usize,
        order: Order,
        ins: &[ValueIndex],
    ) -> Result<Vec<TypedValue>> {
        let dims = inputs[0].ty.dims.clone();
        if u32::try_from(dims[dimension]).is_err() {
            return Err(self.unsupported());
        }
        self.ensure(kept <= dims[dimension], || format!("{kept} of {}", dims[dimension]))?;
        let kernel = Sort {
            outer: dims[..dimension].iter().product(),
            n: dims[dimension],
            kept,
            inner: dims[dimension + 1..].iter().product(),
            sizes: inputs.iter().map(|x| x.ty.dtype.size()).collect(),
            order,
        };
        let mut taken = dims.to_vec();
        taken[dimension] = kept;
        let types = inputs.iter().map(|x| self.typed(x.ty.dtype, &taken)).collect::<Result<Vec<TensorType>>>()?;
        let sorted = self.kernel(kernel, ins, &[], &types);
        Ok(sorted.into_iter().zip(types).map(|(value, ty)| TypedValue { value, ty }).collect())
    }

    /// Returns the keys of a comparator that compares elements by a list of keys, and the scalars that the keys
    /// capture. Returns `None` for other comparators.
    ///
    /// With one key, such a comparator has the form `key(a) < key(b)` or `key(a) > key(b)`, where `a` and `b` are
    /// elements of one operand. With several keys, it has the form `x | (e & rest)`, where `x` compares the first key,
    /// `e` tests whether the first keys are equal, and `rest` compares the other keys.
    fn sort_keys(
        &mut self,
        region: &'m Region,
        scalars: &[TensorType],
    ) -> Result<Option<(Vec<SortKey>, Vec<ValueIndex>)>> {
        let Some(&[mut result]) = region.ops.last().map(|ret| &ret.operands[..]) else {
            return Ok(None);
        };
        let (mut keys, mut captured) = (Vec::new(), Vec::new());
        loop {
            let (compare, rest) = match lexicographic(region, result) {
                Some((compare, rest)) => (compare, Some(rest)),
                None => match maker(region, result) {
                    Some(op) => (op, None),
                    None => return Ok(None),
                },
            };
            let Some((key, own)) = self.sort_key(region, compare, scalars)? else { return Ok(None) };
            if rest.is_some() && key.dtype.is_float() && !key.total {
                // NaN is not equal to itself in this order, so `rest` never decides the order of elements with NaN.
                return Ok(None);
            }
            keys.push(key);
            captured.extend(own);
            match rest {
                Some(rest) => result = rest,
                None => return Ok(Some((keys, captured))),
            }
        }
    }

    /// Returns the key of an op of the form `key(a) < key(b)` or `key(a) > key(b)`, and the scalars that the key
    /// captures. Returns `None` for other ops.
    fn sort_key(
        &mut self,
        region: &'m Region,
        compare: &Op,
        scalars: &[TensorType],
    ) -> Result<Option<(SortKey, Vec<ValueIndex>)>> {
        let OpKind::Compare { direction, compare_type } = compare.kind else {
            return Ok(None);
        };
        let descending = match direction {
            ComparisonDirection::Lt => false,
            ComparisonDirection::Gt => true,
            _ => return Ok(None),
        };
        let &[a, b] = &compare.operands[..] else {
            return Ok(None);
        };
        let ty = tensor_type(type_of(self.frame.func, a)?)?;
        let dtype = ty.dtype.computed();
        if dtype.size() != ty.dtype.size() || dtype.part().is_some() || compare_type == ComparisonType::WeakOrder {
            // Narrow floats, complex numbers and comparisons in weak order have no integer key.
            return Ok(None);
        }
        let total = compare_type == ComparisonType::TotalOrder;
        for operand in 0..scalars.len() / 2 {
            let (left, right) = (region.args[2 * operand], region.args[2 * operand + 1]);
            let key = SortKey { operand, program: None, captured: 0, dtype, descending, total };
            if a == left && b == right {
                return Ok(Some((key, Vec::new())));
            }
            if !mirrored(region, [a, b], [left, right], &mut { MAX_MIRRORED }) {
                continue;
            }
            let f = self.scalar_cone(region, left, a, &scalars[2 * operand])?;
            let Some((program, captured)) = f.and_then(ScalarFn::into_vectors) else { continue };
            let key = SortKey { program: Some(program), captured: captured.len(), ..key };
            return Ok(Some((key, captured)));
        }
        Ok(None)
    }
}

/// Returns the op that computes a value, or `None` if the value comes from outside the region.
fn maker(region: &Region, value: ValueId) -> Option<&Op> {
    region.ops.iter().find(|op| op.results.contains(&value))
}

/// If a value has the form `x | (e & rest)`, where `x` compares two values and `e` tests whether the same values are
/// equal, returns the op that computes `x`, and `rest`. The operands of `|`, `&` and `e` may have any order.
fn lexicographic(region: &Region, value: ValueId) -> Option<(&Op, ValueId)> {
    let operands = |value, kind| {
        let op = maker(region, value).filter(|op| matches!(op.kind, OpKind::Binary(made) if made == kind))?;
        <[ValueId; 2]>::try_from(&op.operands[..]).ok()
    };
    let swapped = |[p, q]: [ValueId; 2]| [(p, q), (q, p)];
    swapped(operands(value, Binary::Or)?).into_iter().find_map(|(x, both)| {
        let compare = maker(region, x)?;
        let OpKind::Compare { compare_type, .. } = compare.kind else { return None };
        swapped(operands(both, Binary::And)?).into_iter().find_map(|(e, rest)| {
            let e = maker(region, e)?;
            let is_equal = matches!(
                e.kind,
                OpKind::Compare { direction: ComparisonDirection::Eq, compare_type: other } if other == compare_type
            );
            let is_same = e.operands == compare.operands || e.operands.iter().rev().eq(&compare.operands);
            (is_equal && is_same).then_some((compare, rest))
        })
    })
}

/// Maximum number of pairs of values to compare for symmetry. If a comparator exceeds this limit, the sort calls the
/// comparator itself.
const MAX_MIRRORED: usize = 256;

/// Returns whether the ops that compute the first value of `made` from the first argument are the same as the ops that
/// compute the second value from the second argument. `left` is the number of pairs of values that may still be
/// compared.
fn mirrored(region: &Region, made: [ValueId; 2], arguments: [ValueId; 2], left: &mut usize) -> bool {
    if made == arguments {
        return true;
    }
    if made[0] == arguments[1] || made[1] == arguments[0] || *left == 0 {
        return false;
    }
    *left -= 1;
    match made.map(|value| maker(region, value)) {
        // A value from outside the region. Frameworks move constants there.
        [None, None] => made[0] == made[1] && !region.args.contains(&made[0]),
        [Some(x), Some(y)] => {
            let constant = matches!((&x.kind, &y.kind), (OpKind::Constant(p), OpKind::Constant(q)) if p == q);
            let mut pairs = x.operands.iter().zip(&y.operands);
            constant
                || (x.regions.is_empty()
                    && same_elementwise(&x.kind, &y.kind)
                    && x.operands.len() == y.operands.len()
                    && pairs.all(|(&p, &q)| mirrored(region, [p, q], arguments, left)))
        }
        _ => false,
    }
}

fn same_elementwise(x: &OpKind, y: &OpKind) -> bool {
    match (x, y) {
        (OpKind::Unary(p), OpKind::Unary(q)) => p == q,
        (OpKind::Binary(p), OpKind::Binary(q)) => p == q,
        (OpKind::Select, OpKind::Select)
        | (OpKind::Convert, OpKind::Convert)
        | (OpKind::Clamp, OpKind::Clamp)
        | (OpKind::Fma, OpKind::Fma) => true,
        (OpKind::Compare { direction: p, compare_type: s }, OpKind::Compare { direction: q, compare_type: t }) => {
            p == q && s == t
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a comparator that compares `%p` and `%q` compares the keys of its arguments `%x` and `%y`. `%c`
    /// and `%d` are values from outside the comparator.
    fn has_key(body: &str) -> bool {
        let text = format!(
            "func.func @main(%a: tensor<4xf32>, %c: tensor<f32>, %d: tensor<f32>) -> tensor<4xf32> {{
               %0 = \"stablehlo.sort\"(%a) ({{
                 ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                   {body}
                   %r = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
                   stablehlo.return %r : tensor<i1>
               }}) {{dimension = 0 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
               return %0 : tensor<4xf32>
             }}"
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        let region = &module.entry().unwrap().body.ops[0].regions[0];
        let compare = &region.ops[region.ops.len() - 2];
        let made = [compare.operands[0], compare.operands[1]];
        mirrored(region, made, [region.args[0], region.args[1]], &mut { MAX_MIRRORED })
    }

    #[test]
    fn keys_may_use_values_from_outside_the_comparator() {
        let sum = |result: &str, a: &str, b: &str| format!("{result} = stablehlo.add {a}, {b} : tensor<f32>\n");
        let both = |left: (&str, &str), right: (&str, &str)| sum("%p", left.0, left.1) + &sum("%q", right.0, right.1);
        assert!(has_key(&both(("%x", "%c"), ("%y", "%c"))));
        assert!(!has_key(&both(("%x", "%c"), ("%y", "%d"))), "different values");
        assert!(!has_key(&both(("%x", "%x"), ("%y", "%x"))), "the second key uses the first argument");
        assert!(!has_key(&both(("%x", "%c"), ("%x", "%c"))), "both keys use the first argument");
    }

    #[test]
    fn comparators_of_several_keys() {
        let has_several_keys = |equal: &str, result: &str| {
            let text = format!(
                "func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {{
                   %0:2 = \"stablehlo.sort\"(%a, %b) ({{
                     ^bb0(%x: tensor<i32>, %y: tensor<i32>, %p: tensor<i32>, %q: tensor<i32>):
                       %before = stablehlo.compare LT, %x, %y, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
                       %equal = stablehlo.compare {equal} : (tensor<i32>, tensor<i32>) -> tensor<i1>
                       %next = stablehlo.compare LT, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
                       {result}
                       stablehlo.return %r : tensor<i1>
                   }}) {{dimension = 0 : i64}} : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
                   return %0#0 : tensor<4xi32>
                 }}"
            );
            let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
            let region = &module.entry().unwrap().body.ops[0].regions[0];
            let found = lexicographic(region, region.ops.last().unwrap().operands[0]);
            let made = |at: usize| region.ops[at].results[0];
            found.is_some_and(|(compare, rest)| compare.results[0] == made(0) && rest == made(2))
        };
        let usual = "%e = stablehlo.and %equal, %next : tensor<i1>\n %r = stablehlo.or %before, %e : tensor<i1>";
        let swapped = "%e = stablehlo.and %next, %equal : tensor<i1>\n %r = stablehlo.or %e, %before : tensor<i1>";
        let other = "%e = stablehlo.or %equal, %next : tensor<i1>\n %r = stablehlo.and %before, %e : tensor<i1>";
        assert!(has_several_keys("EQ, %x, %y, SIGNED", usual));
        assert!(has_several_keys("EQ, %y, %x, SIGNED", swapped));
        assert!(!has_several_keys("EQ, %x, %y, SIGNED", other));
        assert!(!has_several_keys("NE, %x, %y, SIGNED", usual));
        assert!(!has_several_keys("EQ, %x, %q, SIGNED", usual));
    }
}
