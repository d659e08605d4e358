//! Rewrites a program, as planned by [`Plan`], to the program that each partition runs.

use std::collections::HashMap;

use stablehlo::ir::{
    Attributes, Binary, Dims, ElementType, Func, Literal, Module, Op, OpKind, Region, ReplicaGroups, TensorType, Type,
    ValueId, is_sharding,
};

use super::build::{Builder, replica_groups};
use super::plan::{ManualBoundary, Plan, local_shape, manual_of};
use super::role::{Role, is_cross_partition, role};
use super::rules::{Constants, Mapping, Rule, reducer, rule, shape};
use super::spread::{join, project};
use crate::error::CompileError;
use crate::op_names::place;
use crate::sharding::grid::{Axis, AxisSet, Grid, Spec};

type Result<T> = std::result::Result<T, CompileError>;

/// A value of the new program and its sharding. The value represents a value of the old program.
#[derive(Clone)]
pub(super) struct ShardedValue {
    pub(super) value: ValueId,
    pub(super) spec: Spec,
    /// Axes along which the partitions hold summands.
    pub(super) partial: AxisSet,
}

impl ShardedValue {
    pub(super) fn new(value: ValueId, spec: Spec) -> Self {
        Self { value, spec, partial: AxisSet::default() }
    }
}

pub(super) struct Splitter<'p, 'm> {
    module: &'p Module,
    pub(super) plan: &'p Plan<'m>,
    pub(super) grid: &'p Grid,
    pub(super) build: Builder<'p>,
    /// For each old value, the new value with the sharding that the rewritten op produces.
    pub(super) forms: Vec<Option<ShardedValue>>,
    /// The old values in other shardings. There is one map per open region of the new program, with the innermost
    /// region last.
    pub(super) scopes: Vec<HashMap<(ValueId, Spec, AxisSet), ValueId>>,
    /// Number of manual computations around the current op.
    pub(super) manual: usize,
}

/// Builds the function that each partition runs. `replicas` is the number of replicas of the program.
pub(super) fn split(module: &Module, plan: &Plan<'_>, replicas: usize) -> Result<Func> {
    let func = plan.func;
    let mut splitter = Splitter {
        module,
        plan,
        grid: &plan.grid,
        build: Builder::new(&plan.grid, replicas),
        forms: vec![None; func.values.len()],
        scopes: vec![HashMap::new()],
        manual: 0,
    };
    let mut args = Vec::with_capacity(func.args().len());
    for &arg in func.args() {
        let parameter = splitter.declare_as(arg, plan.state(arg).dims.clone(), plan.state(arg).unreduced)?;
        if let Some(placement) = plan.placements.get(&arg) {
            let local = &mut splitter.build.values[parameter.0 as usize];
            *local = placement.local_type(&func.values[arg.0 as usize], local.clone())?;
        }
        args.push(parameter);
    }
    for (&arg, &parameter) in func.args().iter().zip(&args) {
        if let (Some(placement), Some(form)) = (plan.placements.get(&arg), &mut splitter.forms[arg.0 as usize]) {
            form.value = splitter.build.rearrange_as_grid(parameter, placement, shape(func, arg))?;
        }
    }
    let (last, ops) = func.body.ops.split_last().ok_or_else(|| CompileError::invalid("a function without ops"))?;
    splitter.ops(ops)?;
    let mut operands = Vec::with_capacity(last.operands.len());
    let mut results = Vec::with_capacity(last.operands.len());
    for (i, (&value, output)) in last.operands.iter().zip(&plan.outputs).enumerate() {
        if !plan.state(value).manual.is_empty() {
            return Err(CompileError::unsupported(format!(
                "result {i} of function `{}` differs between devices; give it a sharding by leaving the manual part",
                func.name
            )));
        }
        let mut new = splitter.get_as(value, &output.dims, output.unreduced)?;
        if let Some(placement) = &plan.output_placements[i] {
            new = splitter.build.out_of_grid(new, placement)?;
        }
        results.push(splitter.build.values[new.0 as usize].clone());
        operands.push(new);
    }
    let ret = splitter.build.op(OpKind::Return, operands, Vec::new());
    splitter.build.push(ret);
    let (ops, values) = splitter.build.finish();
    let plain = |attributes: &Attributes| -> Attributes {
        attributes.iter().filter(|(name, _)| !is_sharding(name)).cloned().collect()
    };
    Ok(Func {
        arg_attributes: func.arg_attributes.iter().map(plain).collect(),
        result_attributes: func.result_attributes.iter().map(plain).collect(),
        results,
        body: Region { args, ops },
        values: values.into(),
        ..func.clone()
    })
}

impl<'m> Splitter<'_, 'm> {
    pub(super) fn func(&self) -> &'m Func {
        self.plan.func
    }

    /// Declares a new value that represents `old` in the sharding `spec`. The caller adds the op that produces the new
    /// value.
    pub(super) fn declare(&mut self, old: ValueId, spec: Spec) -> Result<ValueId> {
        self.declare_as(old, spec, AxisSet::default())
    }

    /// Declares a new value like [`declare`](Self::declare), but each partition holds a summand of the value along the
    /// axes `partial`.
    pub(super) fn declare_as(&mut self, old: ValueId, spec: Spec, partial: AxisSet) -> Result<ValueId> {
        let ty = self.local_type(old, &spec);
        let value = self.build.value(ty)?;
        self.forms[old.0 as usize] = Some(ShardedValue { value, spec, partial });
        Ok(value)
    }

    pub(super) fn local_type(&self, old: ValueId, spec: &Spec) -> Type {
        match &self.func().values[old.0 as usize] {
            Type::Tensor(ty) => {
                let shape = local_shape(self.grid, self.func(), old, spec);
                Type::Tensor(TensorType { shape, element: ty.element })
            }
            other => other.clone(),
        }
    }

    pub(super) fn form(&self, old: ValueId) -> Result<&ShardedValue> {
        let form = self.forms.get(old.0 as usize).and_then(Option::as_ref);
        form.ok_or_else(|| CompileError::invalid(format!("value {} is used before it is defined", old.0)))
    }

    /// Returns a new value that represents `old` in the sharding `spec`. Adds ops that reshard the value if necessary.
    pub(super) fn get(&mut self, old: ValueId, spec: &Spec) -> Result<ValueId> {
        self.get_as(old, spec, AxisSet::default())
    }

    /// Returns a new value that represents `old` in the sharding `spec`, like [`get`](Self::get). Each partition holds
    /// a summand of the new value along the axes `partial`.
    pub(super) fn get_as(&mut self, old: ValueId, spec: &Spec, partial: AxisSet) -> Result<ValueId> {
        let form = self.form(old)?.clone();
        if form.spec == *spec && form.partial == partial {
            return Ok(form.value);
        }
        let key = (old, spec.clone(), partial);
        if let Some(&value) = self.scopes.iter().rev().find_map(|scope| scope.get(&key)) {
            return Ok(value);
        }
        let extents = &self.plan.state(old).extents;
        let value = self.build.convert(form.value, extents, (&form.spec, form.partial), (spec, partial))?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, value);
        }
        Ok(value)
    }

    pub(super) fn whole(&self, old: ValueId) -> Result<Spec> {
        Ok(vec![Vec::new(); self.form(old)?.spec.len()])
    }

    pub(super) fn ops(&mut self, ops: &'m [Op]) -> Result<()> {
        for op in ops {
            self.build.location = op.location;
            self.op(op).map_err(|error| error.at(|| place(self.module, self.func(), op)))?;
        }
        Ok(())
    }

    fn op(&mut self, op: &'m Op) -> Result<()> {
        match role(op) {
            Role::Constraint => {
                for (&x, &y) in op.operands.iter().zip(&op.results) {
                    let (spec, partial) = (self.plan.state(y).dims.clone(), self.plan.state(y).unreduced);
                    let value = self.get_as(x, &spec, partial)?;
                    self.forms[y.0 as usize] = Some(ShardedValue { value, spec, partial });
                }
                Ok(())
            }
            Role::Nothing => {
                for (&x, &y) in op.operands.iter().zip(&op.results) {
                    self.forms[y.0 as usize] = Some(self.form(x)?.clone());
                }
                Ok(())
            }
            Role::FullToShard => self.enter(op.operands[0], op.results[0]),
            Role::ShardToFull => self.leave(op.operands[0], op.results[0]),
            Role::ManualComputation => {
                let body = &op.regions[0];
                for (&operand, &arg) in op.operands.iter().zip(&body.args) {
                    self.enter(operand, arg)?;
                }
                let (last, ops) = body.ops.split_last().ok_or_else(|| CompileError::invalid("a region without ops"))?;
                self.manual += 1;
                self.ops(ops)?;
                self.manual -= 1;
                for (&end, &result) in last.operands.iter().zip(&op.results) {
                    self.leave(end, result)?;
                }
                Ok(())
            }
            Role::Plain => self.plain(op),
        }
    }

    /// Binds the argument of a manual computation to this partition's part of the operand.
    fn enter(&mut self, operand: ValueId, arg: ValueId) -> Result<()> {
        let boundary =
            self.plan.boundaries.get(&arg).ok_or_else(|| CompileError::invalid("a boundary without a plan"))?;
        let outer = self.plan.outer(boundary).dims.clone();
        self.check_boundary(boundary, &outer)?;
        let sums = self.plan.outer(boundary).unreduced;
        let value = self.get_as(operand, &outer, sums)?;
        let free = outer.iter().zip(&boundary.prefix).map(|(axes, prefix)| axes[prefix.len()..].to_vec()).collect();
        // Along a manual axis, each device's summand becomes its own value.
        self.same(value, arg, free, sums.difference(self.plan.state(arg).manual))
    }

    fn leave(&mut self, end: ValueId, result: ValueId) -> Result<()> {
        let boundary =
            self.plan.boundaries.get(&result).ok_or_else(|| CompileError::invalid("a boundary without a plan"))?;
        let outer = self.plan.outer(boundary).dims.clone();
        self.check_boundary(boundary, &outer)?;
        let free = outer.iter().zip(&boundary.prefix).map(|(axes, prefix)| axes[prefix.len()..].to_vec()).collect();
        let sums = self.plan.outer(boundary).unreduced;
        let value = self.get_as(end, &free, sums.difference(self.plan.state(end).manual))?;
        self.same(value, result, outer, sums)
    }

    /// Checks that each dimension that is sharded along both manual and other axes is sharded evenly. Otherwise, the
    /// padding of the dimension would differ from the padding of its manual parts.
    fn check_boundary(&self, boundary: &ManualBoundary, outer: &Spec) -> Result<()> {
        let extents = &self.plan.outer(boundary).extents;
        for (d, (axes, prefix)) in outer.iter().zip(&boundary.prefix).enumerate() {
            let mixed = !prefix.is_empty() && prefix.len() < axes.len();
            if mixed && !extents[d].is_multiple_of(self.grid.parts(axes)) {
                let (extent, parts) = (extents[d], self.grid.parts(axes));
                return Err(CompileError::unsupported(format!(
                    "dimension {d} of extent {extent} cut into {parts} parts along axes of which only some are manual; \
                     make it a multiple of {parts}"
                )));
            }
        }
        Ok(())
    }

    /// Binds `old` to the new `value`. The value has the sharding `spec`, and is unreduced along the axes `partial`.
    /// Returns an error if the value does not have the local type of `old`.
    fn same(&mut self, value: ValueId, old: ValueId, spec: Spec, partial: AxisSet) -> Result<()> {
        let (want, got) = (self.local_type(old, &spec), &self.build.values[value.0 as usize]);
        if want != *got {
            return Err(CompileError::invalid(format!(
                "each device computes a {got}, but the program declares a {want}"
            )));
        }
        self.forms[old.0 as usize] = Some(ShardedValue { value, spec, partial });
        Ok(())
    }

    fn plain(&mut self, op: &'m Op) -> Result<()> {
        match &op.kind {
            OpKind::While => self.while_loop(op),
            OpKind::If | OpKind::Case => self.branches(op),
            OpKind::Tuple | OpKind::GetTupleElement { .. } => {
                Err(CompileError::unsupported("a tuple in a program that is split over partitions"))
            }
            OpKind::Other { name, .. } if name == "sdy.sharding_group" => Ok(()),
            OpKind::Other { name, .. } if name.starts_with("sdy.") => {
                Err(CompileError::unsupported(format!("{name} in a program that is split over partitions")))
            }
            _ if is_cross_partition(op) && self.manual == 0 && manual_of(self.plan, op).is_empty() => {
                self.collective_outside(op)
            }
            OpKind::CustomCall { call_target_name, .. }
                if call_target_name == "ragged_all_to_all" && manual_of(self.plan, op).is_empty() =>
            {
                self.collective_outside(op)
            }
            OpKind::CustomCall { has_side_effect: true, .. } if self.is_for_all(op)? => self.once(op),
            OpKind::Constant(literal) => self.constant(op, literal),
            OpKind::Iota { iota_dimension } => self.iota(op, *iota_dimension),
            OpKind::GetDimensionSize { dimension } => {
                let size = self.func().ty(op.operands[0]).as_tensor().and_then(|ty| ty.shape.get(*dimension).copied());
                let size = size.and_then(|size| i32::try_from(size).ok());
                let size = size.ok_or_else(|| CompileError::unsupported("the extent of a dimension"))?;
                let ty = TensorType::new([], ElementType::I32);
                let literal = Literal { ty: ty.clone(), data: size.to_le_bytes().to_vec().into(), splat: false };
                let value = self.build.add(OpKind::Constant(literal), &[], ty)?;
                self.forms[op.results[0].0 as usize] = Some(ShardedValue::new(value, Vec::new()));
                Ok(())
            }
            _ => self.generic(op),
        }
    }

    /// Chooses the axes of each factor of the op's sharding rule. Prefers the axes along which the most bytes of
    /// operands and results are already sharded, so that fewer bytes are moved. Does not choose manual axes or the axes
    /// `sums`, along which the result is unreduced.
    fn choose(&self, op: &Op, rule: &Rule, sums: AxisSet) -> Result<Vec<Vec<Axis>>> {
        let taken = manual_of(self.plan, op).union(sums);
        let mut candidates: Vec<(usize, Vec<Axis>, usize)> = Vec::new();
        let mut weigh = |mapping: &Mapping, spec: &Spec, bytes: usize| {
            for (axes, factors) in spec.iter().zip(mapping) {
                for (factor, axes) in project(self.grid, axes, factors, &rule.sizes, &rule.alone) {
                    match candidates.iter_mut().find(|c| c.0 == factor && c.1 == axes) {
                        _ if axes.is_empty() => {}
                        Some(known) => known.2 = known.2.saturating_add(bytes),
                        None => candidates.push((factor, axes, bytes)),
                    }
                }
            }
        };
        let bytes = |value: ValueId| {
            let ty = self.func().values.get(value.0 as usize).and_then(Type::as_tensor);
            ty.and_then(TensorType::byte_size).unwrap_or(1).max(1)
        };
        for (mapping, &value) in rule.operands.iter().zip(&op.operands) {
            weigh(mapping, &self.form(value)?.spec, bytes(value));
        }
        for (mapping, &value) in rule.results.iter().zip(&op.results) {
            weigh(mapping, &self.plan.state(value).dims, bytes(value));
        }
        // Sort by weight, heaviest first. The sort is stable, so every run makes the same choice.
        candidates.sort_by_key(|c| std::cmp::Reverse(c.2));
        let mut cut: Vec<Vec<Axis>> = vec![Vec::new(); rule.sizes.len()];
        let mut used = taken;
        for (factor, axes, _) in candidates {
            let free = axes.iter().take_while(|&&a| !used.contains(a)).count();
            if cut[factor].is_empty() && free > 0 {
                cut[factor] = axes[..free].to_vec();
                used.add(&axes[..free]);
            }
        }
        // A minor factor can be sharded only if the major factors of its dimension are divided into single indices.
        loop {
            let mut dropped = false;
            for factors in rule.operands.iter().chain(&rule.results).flatten() {
                let mut open = true;
                for &factor in factors {
                    if !open && !cut[factor].is_empty() {
                        cut[factor].clear();
                        dropped = true;
                    }
                    open &= self.grid.parts(&cut[factor]) == rule.sizes[factor];
                }
            }
            if !dropped {
                return Ok(cut);
            }
        }
    }

    pub(super) fn spec(&self, rule: &Rule, mapping: &Mapping, cut: &[Vec<Axis>]) -> Spec {
        mapping.iter().map(|factors| join(self.grid, factors, &rule.sizes, cut)).collect()
    }

    /// Rewrites an op that each partition runs on its parts.
    fn generic(&mut self, op: &'m Op) -> Result<()> {
        let rule = rule(self.func(), op, self.plan);
        let mut sums = self.sums(op)?;
        let cut = self.choose(op, &rule, sums.partial)?;
        let summed = AxisSet::of(&rule.reduced_axes(&cut));
        sums.leave_to(&cut, summed);
        let mut operands = Vec::with_capacity(op.operands.len());
        for (i, (mapping, &value)) in rule.operands.iter().zip(&op.operands).enumerate() {
            let spec = self.spec(&rule, mapping, &cut);
            let partial = sums.of(i);
            operands.push(self.get_as(value, &spec, partial)?);
        }
        self.mask(op, &rule, &cut, &mut operands)?;
        let mut results = Vec::with_capacity(op.results.len());
        let mut specs = Vec::with_capacity(op.results.len());
        for (mapping, &value) in rule.results.iter().zip(&op.results) {
            let spec = self.spec(&rule, mapping, &cut);
            results.push(self.declare_as(value, spec.clone(), sums.partial)?);
            specs.push(spec);
        }
        let kind = self.localized(op, &operands, &results)?;
        let regions = op.regions.iter().map(|r| self.scalar_region(r)).collect::<Result<_>>()?;
        let new = Op { kind, operands: operands.into(), results: results.clone().into(), regions, ..op.clone() };
        self.build.push(new);
        if let (OpKind::Reverse { dimensions }, &[old], &[new], [spec]) =
            (&op.kind, &op.results[..], &results[..], &specs[..])
        {
            let axes: Vec<Axis> = dimensions.iter().filter_map(|&d| spec.get(d)).flatten().copied().collect();
            let value = self.build.mirrored(new, &axes)?;
            self.forms[old.0 as usize] = Some(ShardedValue { value, spec: spec.clone(), partial: sums.partial });
        }
        if summed.is_empty() {
            return Ok(());
        }
        let binary = match op.kind {
            OpKind::Reduce { .. } => reducer(op).ok_or_else(|| CompileError::invalid("a reducer of several ops"))?,
            _ => Binary::Add,
        };
        for ((&old, new), spec) in op.results.iter().zip(results).zip(specs) {
            let kept = match binary {
                Binary::Add => summed.intersection(self.plan.wanted_sums(old)),
                _ => AxisSet::default(),
            };
            let mut axes = rule.reduced_axes(&cut);
            axes.retain(|&axis| !kept.contains(axis));
            let mut form = ShardedValue::new(new, spec);
            if !axes.is_empty() {
                form = self.reduced(old, form, binary, &axes)?;
            }
            form.partial = sums.partial.union(kept);
            self.forms[old.0 as usize] = Some(form);
        }
        Ok(())
    }

    /// Overwrites the padding of the dimensions that the op reduces. Otherwise, the padding would change the result.
    fn mask(&mut self, op: &Op, rule: &Rule, cut: &[Vec<Axis>], operands: &mut [ValueId]) -> Result<()> {
        for (i, mapping) in rule.operands.iter().enumerate() {
            for (d, factors) in mapping.iter().enumerate() {
                let &[factor] = &factors[..] else { continue };
                let (extent, axes) = (rule.sizes[factor], &cut[factor]);
                if !rule.reduced[factor] || extent.is_multiple_of(self.grid.parts(axes)) {
                    continue;
                }
                let fill = match (&op.kind, &operands[..]) {
                    // A reduction is sharded only if its initial value may be combined any number of times.
                    (OpKind::Reduce { .. }, &[_, init]) => init,
                    (OpKind::Reduce { .. }, _) => {
                        return Err(CompileError::invalid("a reduction of several operands that is cut"));
                    }
                    _ => {
                        let element = self.build.tensor(operands[i])?.element;
                        self.build.zero(element)?
                    }
                };
                operands[i] = self.build.masked(operands[i], d, extent, axes, fill)?;
            }
        }
        Ok(())
    }

    /// Combines the partial results of the partitions that differ only along `axes` with the binary op `op`. Each
    /// partition gets the combined result, or only its part of it if the plan shards the result along `axes`.
    fn reduced(&mut self, old: ValueId, form: ShardedValue, op: Binary, axes: &[Axis]) -> Result<ShardedValue> {
        let ShardedValue { value: new, spec, .. } = form;
        let (wanted, extents) = (&self.plan.state(old).dims, &self.plan.state(old).extents);
        let scattered = |d: &usize| {
            wanted[*d].strip_prefix(&spec[*d][..]).is_some_and(|rest| rest.starts_with(axes))
                && self.grid.nests(extents[*d], &spec[*d], axes)
        };
        if let Some(d) = (0..spec.len()).find(scattered) {
            let value = self.build.reduce_scatter(new, op, axes, d)?;
            let mut spec = spec;
            spec[d].extend(axes);
            return Ok(ShardedValue::new(value, spec));
        }
        Ok(ShardedValue::new(self.build.all_reduce(new, op, axes)?, spec))
    }

    /// Returns the kind of an op with attributes that match the extents of the parts.
    pub(super) fn localized(&self, op: &Op, operands: &[ValueId], results: &[ValueId]) -> Result<OpKind> {
        let global = |i: usize| self.func().ty(op.operands[i]).as_tensor().map_or(&[][..], |ty| &ty.shape[..]);
        Ok(match &op.kind {
            OpKind::Slice { start_indices, limit_indices, strides } => {
                // A sharded dimension is never sliced, so its limit is the extent of the part.
                let (x, local) = (global(0), &self.build.tensor(operands[0])?.shape);
                let limits = limit_indices.iter().enumerate();
                let limits = limits.map(|(d, &limit)| if x[d] == local[d] { limit } else { local[d] });
                OpKind::Slice {
                    start_indices: start_indices.clone(),
                    limit_indices: limits.collect(),
                    strides: strides.clone(),
                }
            }
            OpKind::DynamicSlice { .. } => {
                OpKind::DynamicSlice { slice_sizes: self.build.tensor(results[0])?.shape.clone() }
            }
            OpKind::Gather { dimensions, slice_sizes, indices_are_sorted } => {
                let (x, local) = (global(0), &self.build.tensor(operands[0])?.shape);
                let sizes = slice_sizes.iter().enumerate();
                let batching = |d| dimensions.operand_batching_dims.contains(&d);
                let sizes = sizes.map(|(d, &size)| if x[d] == local[d] || batching(d) { size } else { local[d] });
                OpKind::Gather {
                    dimensions: dimensions.clone(),
                    slice_sizes: sizes.collect(),
                    indices_are_sorted: *indices_are_sorted,
                }
            }
            kind => {
                let mut kind = kind.clone();
                // The new program contains no meshes, so write the groups as lists of IDs.
                if let Some(groups) = kind.replica_groups_mut()
                    && let ReplicaGroups::Mesh(text) = groups
                {
                    *groups = replica_groups(&stablehlo_passes::__private::mesh_groups(text, self.module)?)?;
                }
                kind
            }
        })
    }

    fn constant(&mut self, op: &'m Op, literal: &Literal) -> Result<()> {
        let result = op.results[0];
        let spec = if literal.splat { self.plan.state(result).dims.clone() } else { self.whole_of(result) };
        let new = self.declare(result, spec)?;
        let mut literal = literal.clone();
        literal.ty = self.build.tensor(new)?.clone();
        // The IR does not mark a literal of one element as a splat.
        literal.splat &= literal.ty.num_elements() != Some(1);
        let op = self.build.op(OpKind::Constant(literal), Vec::new(), vec![new]);
        self.build.push(op);
        Ok(())
    }

    pub(super) fn whole_of(&self, old: ValueId) -> Spec {
        vec![Vec::new(); self.plan.state(old).dims.len()]
    }

    /// Rewrites an iota. If its dimension is sharded, the indices start at this partition's offset.
    fn iota(&mut self, op: &'m Op, dimension: usize) -> Result<()> {
        let result = op.results[0];
        let spec = self.plan.state(result).dims.clone();
        let new = self.declare(result, spec.clone())?;
        let axes = spec.get(dimension).cloned().unwrap_or_default();
        let kind = OpKind::Iota { iota_dimension: dimension };
        if axes.is_empty() {
            let op = self.build.op(kind, Vec::new(), vec![new]);
            self.build.push(op);
            return Ok(());
        }
        let ty = self.build.tensor(new)?.clone();
        let wide = TensorType::new(ty.shape.clone(), ElementType::I64);
        let scalar = TensorType::new([], ElementType::I64);
        let extent = usize::try_from(ty.shape[dimension]).unwrap_or(0);
        let numbers = self.build.add(kind, &[], wide.clone())?;
        let (coordinate, extent) = (self.build.coordinate(&axes)?, self.build.number(extent)?);
        let unsigned = TensorType::new([], ElementType::Ui32);
        let start = self.build.add(OpKind::Binary(Binary::Multiply), &[coordinate, extent], unsigned)?;
        let start = self.build.add(OpKind::Convert, &[start], scalar)?;
        let everywhere = OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() };
        let start = self.build.add(everywhere, &[start], wide.clone())?;
        let sum = self.build.add(OpKind::Binary(Binary::Add), &[numbers, start], wide)?;
        let op = self.build.op(OpKind::Convert, vec![sum], vec![new]);
        self.build.push(op);
        Ok(())
    }
}
