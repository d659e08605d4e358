//! Regions that compute scalars from scalars: reducers, scatter updates and comparators.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Func, OpKind, Region, ValueId};

use super::scalar_steps::{compile_steps, has_collective};
use super::{Binding, Frame, GraphBuilder, LoweringContext, Result, TypedValue, tensor_type, type_of};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::elementwise as loops;
use crate::error::CompileError;

use crate::engine::graph::{BlockGraph, Node, Op, Value, ValueIndex};
use crate::engine::group_compiler::{Compiled, compile_group};
use crate::engine::half_precision::round_in_f32;
use crate::engine::program::Select;
use crate::engine::scalar_fn::{Combine, ScalarFn};
use crate::engine::schedule::Group;

/// Recognizes regions that return their second argument, or the result of a commutative op on their two arguments.
/// Returns `None` for other regions.
pub(crate) fn combine(region: &Region) -> Option<Combine> {
    let &[a, b] = &region.args[..] else {
        return None;
    };
    match &region.ops[..] {
        [ret] if ret.operands[..] == [b] => Some(Combine::Second),
        [op, ret] if ret.operands == op.results && (op.operands[..] == [a, b] || op.operands[..] == [b, a]) => {
            match op.kind {
                OpKind::Binary(
                    op @ (Binary::Add
                    | Binary::Multiply
                    | Binary::Maximum
                    | Binary::Minimum
                    | Binary::And
                    | Binary::Or
                    | Binary::Xor),
                ) => Some(Combine::Op(op)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Recognizes the region of `jnp.argmax` (`true`) and `jnp.argmin` (`false`): of two elements and their positions, it
/// returns the element that is larger (smaller) or NaN, and of equal elements the one with the smaller position.
pub(crate) fn arg_reducer(region: &Region) -> Option<bool> {
    use ComparisonDirection::{Eq, Gt, Lt, Ne};
    let &[x, at, y, other] = &region.args[..] else { return None };
    let op = |v: ValueId| region.ops.iter().find(|op| op.results[..] == [v]);
    let selects = |v: ValueId, yes, no| match (&op(v)?.kind, &op(v)?.operands[..]) {
        (OpKind::Select, &[picks, a, b]) if [a, b] == [yes, no] => Some(picks),
        _ => None,
    };
    let either = |v: ValueId, kind: Binary| match (&op(v)?.kind, &op(v)?.operands[..]) {
        (OpKind::Binary(binary), &[a, b]) if *binary == kind => Some([a, b]),
        _ => None,
    };
    let compares = |v: ValueId, direction: ComparisonDirection, a, b| {
        op(v).is_some_and(|op| match op.kind {
            OpKind::Compare { direction: found, compare_type } => {
                let partial = !matches!(compare_type, ComparisonType::TotalOrder | ComparisonType::WeakOrder);
                found == direction && op.operands[..] == [a, b] && partial
            }
            _ => false,
        })
    };
    let [end] = &region.ops.iter().filter(|op| matches!(op.kind, OpKind::Return)).collect::<Vec<_>>()[..] else {
        return None;
    };
    let &[element, position] = &end.operands[..] else { return None };
    let (picks, picks_position) = (selects(element, x, y)?, selects(position, at, other)?);
    let [before, nan] = either(picks, Binary::Or)?;
    let [same_pick, tie] = either(picks_position, Binary::Or)?;
    let [equal, smaller] = either(tie, Binary::And)?;
    let is_arg =
        same_pick == picks && compares(nan, Ne, x, x) && compares(equal, Eq, x, y) && compares(smaller, Lt, at, other);
    match (compares(before, Gt, x, y), compares(before, Lt, x, y)) {
        _ if !is_arg => None,
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

impl<'m> LoweringContext<'_, 'm> {
    /// Compiles a region whose arguments are scalars of the given types.
    pub(super) fn scalar_fn(&mut self, region: &'m Region, types: &[TensorType]) -> Result<ScalarFn> {
        self.ensure(region.args.len() == types.len(), || {
            format!("a region takes {} arguments, but must take {}", region.args.len(), types.len())
        })?;
        let mut args = Vec::with_capacity(types.len());
        for (ty, &id) in types.iter().zip(&region.args) {
            let declared = tensor_type(type_of(self.frame.func, id)?)?;
            self.ensure(declared == *ty, || {
                format!("a region's argument has type {declared}, but must have type {ty}")
            })?;
            args.push(TypedValue { value: self.graph.value(ty), ty: ty.clone() });
        }
        let mut nodes = Vec::new();
        let binds = args.iter().cloned().map(Binding::Tensor).collect();
        let results = self.graph.region(self.frame, region, binds, &mut nodes)?;
        self.compiled(&args, nodes, results)
    }

    /// Compiles a function whose arguments are scalars of the given types.
    pub(super) fn scalar_func(&mut self, func: &'m Func, types: &[TensorType]) -> Result<ScalarFn> {
        let mut frame = Frame { func, env: vec![None; func.values.len()] };
        LoweringContext { graph: self.graph, frame: &mut frame, out: self.out, op: self.op }
            .scalar_fn(&func.body, types)
    }

    /// Compiles the part of a region that computes `wanted` from the argument `from` alone. Returns `None` if `wanted`
    /// depends on another argument.
    pub(super) fn scalar_cone(
        &mut self,
        region: &'m Region,
        from: ValueId,
        wanted: ValueId,
        ty: &TensorType,
    ) -> Result<Option<ScalarFn>> {
        let arg = TypedValue { value: self.graph.value(ty), ty: ty.clone() };
        self.frame.bind(from, Binding::Tensor(arg.clone()))?;
        let mut needed = vec![wanted];
        let mut ops = Vec::new();
        for op in region.ops.iter().rev() {
            if op.results.iter().any(|r| needed.contains(r)) {
                needed.extend(&op.operands);
                ops.push(op);
            }
        }
        if needed.iter().any(|v| *v != from && region.args.contains(v)) {
            return Ok(None);
        }
        let mut nodes = Vec::new();
        for op in ops.into_iter().rev() {
            LoweringContext { graph: self.graph, frame: self.frame, out: &mut nodes, op }.lower()?;
        }
        let result = self.frame.get(wanted)?;
        self.compiled(&[arg], nodes, vec![result]).map(Some)
    }

    /// Replaces each branch node by the nodes of all its branches and a selection of the results. All branches may run,
    /// because the ops in them have no side effects.
    fn without_branches(&mut self, nodes: Vec<Node>) -> Result<Vec<Node>> {
        if !nodes.iter().any(|n| matches!(n.op, Op::Case { .. })) {
            return Ok(nodes);
        }
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Op::Case { select, branches } = node.op else {
                flat.push(node);
                continue;
            };
            let mut results = Vec::with_capacity(branches.len());
            for branch in branches {
                flat.extend(self.without_branches(branch.nodes)?);
                results.push(branch.results);
            }
            let Some(mut chosen) = results.pop() else { continue };
            while let Some(others) = results.pop() {
                // An index out of range selects the last branch.
                let takes = match select {
                    Select::Pred => node.ins[0],
                    Select::Index => {
                        let at = i32::try_from(results.len()).unwrap_or(i32::MAX);
                        let at = self.graph.splat_value(&at.to_ne_bytes(), 1);
                        let equal = loops::compare(ComparisonDirection::Eq, ComparisonType::Signed, DType::I32);
                        let equal = equal.ok_or_else(|| self.unsupported())?;
                        let pred = self.graph.value(&self.typed(DType::Bool, &[])?);
                        flat.push(Node { op: Op::Map(equal), ins: vec![node.ins[0], at], outs: vec![pred] });
                        pred
                    }
                };
                let last = results.is_empty();
                let mut next = Vec::with_capacity(chosen.len());
                for (i, (&yes, &no)) in others.iter().zip(&chosen).enumerate() {
                    let size = self.graph.values[yes as usize].size;
                    let out =
                        if last { node.outs[i] } else { self.graph.new_value(Value { size, n: 1, constant: None }) };
                    let op = Op::Map(loops::select(usize::from(size)));
                    flat.push(Node { op, ins: vec![takes, yes, no], outs: vec![out] });
                    next.push(out);
                }
                chosen = next;
            }
        }
        Ok(flat)
    }

    fn compiled(&mut self, args: &[TypedValue], nodes: Vec<Node>, results: Vec<Binding>) -> Result<ScalarFn> {
        let mut wanted = Vec::with_capacity(results.len());
        let mut kinds = Vec::with_capacity(results.len());
        for result in results {
            let Binding::Tensor(tv) = result else {
                return Err(self.invalid("a region returns a token"));
            };
            self.ensure(tv.ty.elements() == 1, || format!("a region returns a {}", tv.ty))?;
            wanted.push(tv.value);
            kinds.push(tv.ty);
        }
        let fixed: Vec<ValueIndex> = args.iter().map(|a| a.value).collect();
        if has_collective(&nodes) {
            return Err(CompileError::unsupported("a collective in a region that is run for each element"));
        }
        let mut block = BlockGraph { nodes, results: wanted.clone() };
        block.remove_dead(&mut vec![false; self.graph.values.len()]);
        if !self.is_straight(&block.nodes) {
            let GraphBuilder { values, pool, settings, .. } = &*self.graph;
            let (steps, captured) = compile_steps(block, &fixed, values, pool, settings)?;
            return Ok(ScalarFn::steps(steps, captured, kinds));
        }
        let mut nodes = self.without_branches(block.nodes)?;
        round_in_f32(&mut nodes, &self.graph.values, |v| wanted.contains(&v));
        let mut block = BlockGraph { nodes, results: wanted.clone() };
        block.remove_dead(&mut vec![false; self.graph.values.len()]);
        let group = Group { n: 1, nodes: block.nodes };
        let Compiled { program, ins, .. } = compile_group(&group, &fixed, &wanted, &self.graph.values);
        Ok(ScalarFn::vectors(program, ins[fixed.len()..].to_vec(), kinds))
    }

    /// Returns whether all nodes are elementwise ops on scalars, or branches of such ops.
    fn is_straight(&self, nodes: &[Node]) -> bool {
        nodes.iter().all(|n| match &n.op {
            Op::Map(_) | Op::Copy => self.graph.values[n.outs[0] as usize].n == 1,
            Op::Case { branches, .. } => {
                let scalars = n.outs.iter().all(|&v| self.graph.values[v as usize].n == 1);
                scalars && branches.iter().all(|b| self.is_straight(&b.nodes))
            }
            _ => false,
        })
    }
}
