//! Calls, loops, branches, tuples, and ops that are the identity on one device.

use stablehlo::ir::Region;

use super::{Binding, LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::{BlockGraph, Node, Op, ValueIndex};
use crate::engine::program::Select;
use crate::error::CompileError;

impl<'m> LoweringContext<'_, 'm> {
    fn binds(&self) -> Result<Vec<Binding>> {
        self.op.operands.iter().map(|&id| self.frame.get(id)).collect()
    }

    fn bind_all(&mut self, binds: Vec<Binding>) -> Result<()> {
        let (want, got) = (self.op.results.len(), binds.len());
        self.ensure(want == got, || format!("makes {got} results, {want} are declared"))?;
        for (i, bind) in binds.into_iter().enumerate() {
            if let Binding::Tensor(tv) = &bind {
                self.declared(i, &tv.ty)?;
            }
            self.bind(i, bind)?;
        }
        Ok(())
    }

    pub(super) fn call(&mut self, callee: &str) -> Result<()> {
        let func = self.graph.module.func(callee);
        let func = func.ok_or_else(|| self.invalid(format!("no function is named `{callee}`")))?;
        let args = self.binds()?;
        let results = self.graph.inline(func, args, self.out)?;
        self.bind_all(results)
    }

    /// Binds the results to the operands.
    pub(super) fn pass_through(&mut self) -> Result<()> {
        let binds = self.binds()?;
        self.bind_all(binds)
    }

    pub(super) fn tuple(&mut self) -> Result<()> {
        let binds = self.binds()?;
        self.bind(0, Binding::Tuple(binds))
    }

    pub(super) fn get_tuple_element(&mut self, index: usize) -> Result<()> {
        match self.binds()?.pop() {
            Some(Binding::Tuple(mut elements)) if index < elements.len() => {
                let element = elements.swap_remove(index);
                self.bind_all(vec![element])
            }
            _ => Err(self.invalid(format!("the operand must be a tuple with an element {index}"))),
        }
    }

    fn nested(&mut self, region: &'m Region, args: Vec<Binding>) -> Result<(BlockGraph, Vec<Binding>)> {
        let mut nodes = Vec::new();
        let results = self.graph.region(self.frame, region, args, &mut nodes)?;
        let mut block = BlockGraph { nodes, results: Vec::new() };
        for result in &results {
            if let Binding::Tensor(tv) = result {
                block.results.push(self.graph.materialized(tv.value, &mut block.nodes));
            }
        }
        Ok((block, results))
    }

    fn regions<const N: usize>(&self) -> Result<[&'m Region; N]> {
        let regions: Vec<&'m Region> = self.op.regions.iter().collect();
        let got = regions.len();
        regions.try_into().map_err(|_| self.invalid(format!("takes {N} regions, not {got}")))
    }

    pub(super) fn while_loop(&mut self) -> Result<()> {
        let [cond, body] = self.regions()?;
        let inits = self.binds()?;
        let mut ins: Vec<ValueIndex> = Vec::new();
        let mut carried: Vec<ValueIndex> = Vec::new();
        let mut args: Vec<Binding> = Vec::new();
        let end = body.ops.last().map_or(&[][..], |end| &end.operands[..]);
        // A loop that changes nothing has no end. Carry its values, so that it is not removed as unused.
        let has_end = end != &body.args[..];
        // For each tensor, whether an iteration can change it.
        let mut changes: Vec<bool> = Vec::new();
        for (i, init) in inits.iter().enumerate() {
            args.push(match init {
                // No iteration changes this value, so both regions read the initial value itself.
                Binding::Tensor(_) if has_end && end.get(i) == body.args.get(i) => {
                    changes.push(false);
                    init.clone()
                }
                Binding::Tensor(tv) => {
                    changes.push(true);
                    ins.push(self.graph.materialized(tv.value, self.out));
                    let v = self.graph.value(&tv.ty);
                    carried.push(v);
                    Binding::Tensor(TypedValue { value: v, ty: tv.ty.clone() })
                }
                Binding::Token => Binding::Token,
                Binding::Tuple(_) => return Err(self.unsupported()),
            });
        }
        let (cond, preds) = self.nested(cond, args.clone())?;
        let scalar = TensorType { dtype: DType::Bool, dims: [].into() };
        let fits = matches!(&preds[..], [Binding::Tensor(tv)] if tv.ty == scalar);
        self.ensure(fits, || format!("the condition must be a {scalar}"))?;
        let (mut nodes, results) = self.nested(body, args.clone())?;
        self.same_types(&inits, &results)?;
        let mut change = changes.iter();
        nodes.results.retain(|_| change.next() == Some(&true));
        let body = self.graph.hoist(nodes, &carried, self.out);
        let mut outs: Vec<ValueIndex> = Vec::with_capacity(carried.len());
        let mut change = changes.iter();
        let binds = args
            .into_iter()
            .map(|arg| match arg {
                Binding::Tensor(tv) if change.next() == Some(&true) => {
                    let value = self.graph.value(&tv.ty);
                    outs.push(value);
                    Binding::Tensor(TypedValue { value, ty: tv.ty })
                }
                other => other,
            })
            .collect();
        self.out.push(Node { op: Op::While { carried, cond, body }, ins, outs });
        self.bind_all(binds)
    }

    /// Returns the index of the branch that a constant selects, or `None` if `index` is not constant. Only the selected
    /// branch is compiled, because the other branches may be written for other platforms or shapes.
    fn known_branch(&self, index: ValueIndex, select: Select, count: usize) -> Option<usize> {
        let bytes = self.known(index)?;
        Some(match select {
            Select::Pred => usize::from(bytes.first() != Some(&1)),
            Select::Index => {
                let index = i32::from_ne_bytes(*bytes.first_chunk()?);
                usize::try_from(index).unwrap_or(count - 1).min(count - 1)
            }
        })
    }

    fn same_types(&self, a: &[Binding], b: &[Binding]) -> Result<()> {
        let same = a.len() == b.len()
            && a.iter().zip(b).all(|pair| match pair {
                (Binding::Tensor(x), Binding::Tensor(y)) => x.ty == y.ty,
                (Binding::Token, Binding::Token) => true,
                _ => false,
            });
        self.ensure(same, || format!("values of different types meet: {:?} and {:?}", a, b))
    }

    pub(super) fn branches(&mut self, select: Select) -> Result<()> {
        let [index] = self.take()?;
        let dtype = match select {
            Select::Pred => DType::Bool,
            Select::Index => DType::I32,
        };
        self.ensure(index.ty.rank() == 0 && index.ty.dtype == dtype, || format!("an index of type {}", index.ty))?;
        let regions = &self.op.regions;
        let enough = if matches!(select, Select::Pred) { regions.len() == 2 } else { !regions.is_empty() };
        self.ensure(enough, || format!("{} branches", regions.len()))?;
        if let Some(only) = self.known_branch(index.value, select, regions.len()) {
            let results = self.graph.region(self.frame, &self.op.regions[only], Vec::new(), self.out)?;
            return self.bind_all(results);
        }
        let mut branches = Vec::with_capacity(regions.len());
        let mut first: Option<Vec<Binding>> = None;
        for region in regions {
            let (block, results) = self.nested(region, Vec::new())?;
            match &first {
                Some(first) => self.same_types(first, &results)?,
                None => first = Some(results),
            }
            branches.push(block);
        }
        let first = first.unwrap_or_default();
        let mut outs = Vec::new();
        let mut binds = Vec::new();
        for result in first {
            binds.push(match result {
                Binding::Tensor(tv) => {
                    let v = self.graph.value(&tv.ty);
                    outs.push(v);
                    Binding::Tensor(TypedValue { value: v, ty: tv.ty })
                }
                Binding::Token => Binding::Token,
                Binding::Tuple(_) => {
                    return Err(CompileError::unsupported("a tuple as a branch's result"));
                }
            });
        }
        self.out.push(Node { op: Op::Case { select, branches }, ins: vec![index.value], outs });
        self.bind_all(binds)
    }
}
