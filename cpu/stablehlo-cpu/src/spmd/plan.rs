//! Plans the sharding of every value. Reads the annotations, and propagates them along the ops until nothing changes.

use std::collections::{BTreeMap, HashMap};

use stablehlo::ir::{Func, Literal, Module, Op, OpKind, Region, Type, ValueId};

use super::annotations::{group_of, missing, of_op, of_value, open_dims};
use super::placement::Placement;
use super::role::{Role, role};
use super::rules::{Constants, Mapping, Rule, rule, shape};
use super::state::State;
use crate::error::CompileError;
use crate::op_names::place;
use crate::sharding::attributes::{find, meshes, text};
use crate::sharding::grid::{Axis, AxisSet, Grid, Sharding, Spec};
use crate::sharding::parser::{self, ParsedSharding};

type Result<T> = std::result::Result<T, CompileError>;

/// How to treat an annotation that shards a dimension unevenly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uneven {
    /// The last parts are padded.
    Padded,
    /// The last parts are padded, and axes that make no part smaller are dropped.
    Useful,
    Refused,
}

/// A connection between the [`State`]s of values, along which shardings are propagated.
pub(super) enum Edge {
    Rule { sizes: Vec<usize>, alone: Vec<bool>, tensors: Vec<(usize, Mapping)> },
    ManualBoundary { outer: usize, inner: usize, prefix: Spec },
}

/// The planned shardings of a function's values.
pub(super) struct Plan<'m> {
    pub(super) func: &'m Func,
    pub(super) grid: Grid,
    pub(super) states: Vec<State>,
    /// The boundaries of manual computations. The keys are the results of manual computations and the arguments of
    /// their regions.
    pub(super) boundaries: HashMap<ValueId, ManualBoundary>,
    pub(super) outputs: Vec<State>,
    /// Placements of the arguments whose parts are not on the partitions that the grid specifies.
    pub(super) placements: HashMap<ValueId, Placement>,
    /// The placement to which each result is moved at the end, or `None` if the result is not moved.
    pub(super) output_placements: Vec<Option<Placement>>,
    constants: HashMap<ValueId, &'m Literal>,
    /// The members of each sharding group.
    groups: BTreeMap<i64, Vec<ValueId>>,
}

/// A value that enters or leaves a manual computation.
#[derive(Clone, Debug)]
pub(super) struct ManualBoundary {
    /// Index of the state of the value outside the manual computation.
    pub(super) outer: usize,
    /// Manual axes of each dimension. They precede the dimension's other axes.
    pub(super) prefix: Spec,
}

impl Constants for Plan<'_> {
    fn constant(&self, value: ValueId) -> Option<&Literal> {
        self.constants.get(&value).copied()
    }

    fn wanted_sums(&self, value: ValueId) -> AxisSet {
        let state = self.state(value);
        state.unreduced.union(state.summed)
    }
}

impl<'m> Plan<'m> {
    /// Plans `func` for `partitions` partitions. The function must not contain calls.
    pub(super) fn new(module: &Module, func: &'m Func, partitions: usize) -> Result<Self> {
        let at = |op: &Op| {
            let place = place(module, func, op);
            move |error: CompileError| error.at(|| place)
        };
        // A manual computation requires a mesh of the grid, and earlier annotations take precedence in the grid.
        // Therefore, read the annotations of manual computations first.
        let (mut annotations, mut others) = (Vec::new(), Vec::new());
        for attributes in func.arg_attributes.iter().chain(&func.result_attributes) {
            others.extend(of_value(attributes)?);
        }
        let mut constants = HashMap::new();
        for op in func.body.all_ops() {
            let list = match role(op) {
                Role::ManualComputation | Role::FullToShard | Role::ShardToFull => &mut annotations,
                _ => &mut others,
            };
            list.extend(of_op(op).map_err(|e| at(op)(e))?);
            if let (OpKind::Constant(literal), Some(&result)) = (&op.kind, op.results.first()) {
                constants.insert(result, literal);
            }
        }
        annotations.extend(others);
        let grid = Grid::new(partitions, &meshes(module)?, &annotations)?;
        let states = func.values.iter().map(State::of).collect();
        let mut plan = Self {
            func,
            grid,
            states,
            boundaries: HashMap::new(),
            outputs: Vec::new(),
            placements: HashMap::new(),
            output_placements: Vec::new(),
            constants,
            groups: BTreeMap::new(),
        };
        plan.arguments()?;
        plan.note_wanted_sums(&func.body)?;
        let mut edges = Vec::new();
        plan.region(&func.body, AxisSet::default(), &mut edges, &mut |op, error| at(op)(error))?;
        let outputs = plan.results(&mut edges)?;
        plan.spread(&edges, &plan.group_edges(&outputs));
        plan.outputs = outputs.into_iter().map(|at| plan.states[at].clone()).collect();
        Ok(plan)
    }

    pub(super) fn state(&self, value: ValueId) -> &State {
        &self.states[value.0 as usize]
    }

    pub(super) fn outer(&self, boundary: &ManualBoundary) -> &State {
        &self.states[boundary.outer]
    }

    /// Sets the sharding of state `at` to the sharding of an annotation. `uneven` determines the treatment of a
    /// dimension whose extent is not a multiple of the number of parts.
    fn annotate(&mut self, at: usize, sharding: Sharding, uneven: Uneven) -> Result<()> {
        let state = &mut self.states[at];
        let mut used = sharding.unreduced;
        for (d, axes) in sharding.dims.iter().enumerate() {
            if axes.iter().any(|&axis| used.contains(axis)) {
                return Err(CompileError::invalid("a sharding uses an axis twice"));
            }
            used.add(axes);
            let mut axes = axes.clone();
            let (extent, parts) = (state.extents[d], self.grid.parts(&axes));
            if uneven == Uneven::Refused && !extent.is_multiple_of(parts) {
                return Err(CompileError::unsupported(format!(
                    "dimension {d} of extent {extent} cut into {parts} parts in a manual computation; make it a \
                     multiple of {parts}"
                )));
            }
            while uneven == Uneven::Useful
                && let Some((_, less)) = axes.split_last()
                && self.grid.local(extent, less) == self.grid.local(extent, &axes)
            {
                axes.pop();
            }
            state.dims[d] = axes;
            state.open[d] = sharding.open[d];
        }
        state.manual = state.manual.union(sharding.manual);
        state.unreduced = sharding.unreduced;
        Ok(())
    }

    fn arguments(&mut self) -> Result<()> {
        for (i, &arg) in self.func.args().iter().enumerate() {
            let at = arg.0 as usize;
            let annotation = match self.func.arg_attributes.get(i) {
                Some(attributes) => of_value(attributes)?,
                None => None,
            };
            // An argument without an annotation is replicated, so that a caller need not know its sharding.
            let annotation = annotation.unwrap_or(ParsedSharding::Replicated);
            let sharding = self.grid.sharding(&annotation, self.states[at].dims.len());
            let named = |e: CompileError| e.at(|| format!("argument {i} of function `{}`", self.func.name));
            let sharding = sharding.map_err(named)?;
            let placement = self.grid.placement(&annotation, self.states[at].dims.len()).map_err(named)?;
            self.placements.extend(placement.map(|placement| (arg, placement)));
            let func = self.func;
            self.annotate(at, sharding, Uneven::Padded)
                .map_err(|e| e.at(|| format!("argument {i} of function `{}`", func.name)))?;
            self.states[at].even = true;
        }
        Ok(())
    }

    fn results(&mut self, edges: &mut Vec<Edge>) -> Result<Vec<usize>> {
        let returned = self.func.body.ops.last().map_or(&[][..], |op| &op.operands);
        let mut outputs = Vec::with_capacity(returned.len());
        for (i, &value) in returned.iter().enumerate() {
            let at = self.add(&self.func.values[value.0 as usize]);
            self.states[at].even = true;
            let mut placement = None;
            if let Some(annotation) = self.func.result_attributes.get(i).map_or(Ok(None), of_value)? {
                let (func, rank) = (self.func, self.states[at].dims.len());
                let sharding = self.grid.sharding(&annotation, rank);
                let sharding = sharding.and_then(|s| self.annotate(at, s, Uneven::Padded));
                let placed = sharding.and_then(|()| self.grid.placement(&annotation, rank));
                placement = placed.map_err(|e| e.at(|| format!("result {i} of function `{}`", func.name)))?;
            }
            // If some partitions need an unsharded result, all partitions get the unsharded result.
            self.output_placements.push(placement.filter(|placement| !placement.is_whole()));
            self.link(&[value], Some(at), edges);
            outputs.push(at);
        }
        Ok(outputs)
    }

    /// Returns whether the annotation assigns the value to one device, as frameworks do for calls to the host.
    fn is_one_device(&self, annotation: &ParsedSharding) -> bool {
        match annotation {
            ParsedSharding::Maximal(_) => true,
            ParsedSharding::Axes { mesh, dims, .. } => dims.is_empty() && self.grid.has_no_axes(mesh),
            _ => false,
        }
    }

    /// Adds a state for a value of this type, and returns its index.
    fn add(&mut self, ty: &Type) -> usize {
        self.states.push(State::of(ty));
        self.states.len() - 1
    }

    fn link(&self, values: &[ValueId], also: Option<usize>, edges: &mut Vec<Edge>) {
        let (sizes, mapping) = Rule::link(self.func, values);
        let tensors = values.iter().map(|v| v.0 as usize).chain(also).map(|at| (at, mapping.clone())).collect();
        edges.push(Edge::Rule { alone: vec![true; sizes.len()], sizes, tensors });
    }

    fn add_to_group(&mut self, id: i64, value: ValueId) -> Result<()> {
        let members = self.groups.entry(id).or_default();
        if members.first().is_some_and(|&first| shape(self.func, first) != shape(self.func, value)) {
            return Err(CompileError::invalid(format!("the values of sharding group {id} have different shapes")));
        }
        if !members.contains(&value) {
            members.push(value);
        }
        Ok(())
    }

    /// Returns the edges of all sharding groups. A result that returns a member of a group belongs to the group too,
    /// because the member may be an argument whose sharding is fixed.
    fn group_edges(&self, outputs: &[usize]) -> Vec<Edge> {
        let returned = self.func.body.ops.last().map_or(&[][..], |op| &op.operands);
        let mut edges = Vec::new();
        for members in self.groups.values() {
            self.link(members, None, &mut edges);
            for (_, &at) in returned.iter().zip(outputs).filter(|(value, _)| members.contains(value)) {
                self.link(members, Some(at), &mut edges);
            }
        }
        edges
    }

    fn region(
        &mut self,
        region: &'m Region,
        manual: AxisSet,
        edges: &mut Vec<Edge>,
        at: &mut impl FnMut(&Op, CompileError) -> CompileError,
    ) -> Result<()> {
        for &arg in &region.args {
            let state = &mut self.states[arg.0 as usize];
            state.manual = state.manual.union(manual);
        }
        for op in &region.ops {
            self.op(op, manual, edges, at).map_err(|error| at(op, error))?;
        }
        Ok(())
    }

    fn op(
        &mut self,
        op: &'m Op,
        manual: AxisSet,
        edges: &mut Vec<Edge>,
        at: &mut impl FnMut(&Op, CompileError) -> CompileError,
    ) -> Result<()> {
        // If any operand is device-varying (manual), so is the result.
        let inherited = op.operands.iter().fold(manual, |set, &v| set.union(self.state(v).manual));
        let role = role(op);
        if role != Role::ShardToFull {
            for &result in &op.results {
                self.states[result.0 as usize].manual = match role {
                    Role::ManualComputation => manual,
                    _ => inherited,
                };
            }
        }
        self.pass_sums(op, role);
        if let Some((id, value)) = group_of(op) {
            self.add_to_group(id, value)?;
        }
        match role {
            Role::Constraint | Role::Nothing => self.constraint(op, edges)?,
            Role::FullToShard => self.full_to_shard(op, inherited, edges)?,
            Role::ShardToFull => self.shard_to_full(op, manual, edges)?,
            Role::ManualComputation => self.manual_computation(op, manual, edges, at)?,
            Role::Plain => match op.kind {
                OpKind::While => self.while_loop(op, manual, edges, at)?,
                OpKind::If | OpKind::Case => self.branches(op, inherited, edges, at)?,
                OpKind::Return => {}
                OpKind::PartitionId => self.states[op.results[0].0 as usize].manual = self.grid.all(),
                _ => self.ruled(op, edges)?,
            },
        }
        Ok(())
    }

    /// Links each operand with its result, so that both get the same sharding. Applies the annotation of the op, if
    /// any, to the first result.
    fn constraint(&mut self, op: &Op, edges: &mut Vec<Edge>) -> Result<()> {
        for (&x, &y) in op.operands.iter().zip(&op.results) {
            self.link(&[x, y], None, edges);
        }
        if let (Some(annotation), Some(&result)) = (of_op(op)?.first(), op.results.first()) {
            let result = result.0 as usize;
            let mut sharding = self.grid.sharding(annotation, self.states[result].dims.len())?;
            open_dims(op, &mut sharding);
            self.annotate(result, sharding, Uneven::Useful)?;
        }
        Ok(())
    }

    /// Enters a manual computation of GSPMD. The result is one device's part of the operand.
    fn full_to_shard(&mut self, op: &Op, inherited: AxisSet, edges: &mut Vec<Edge>) -> Result<()> {
        let (&[full], &[shard]) = (&op.operands[..], &op.results[..]) else { return Err(missing("operand")) };
        let annotation = of_op(op)?.pop().ok_or_else(|| missing("mhlo.sharding"))?;
        self.grid.check_manual(&annotation)?;
        let (outer, inner) = (full.0 as usize, shard.0 as usize);
        let set = self.grid.sharding(&annotation, self.states[inner].dims.len())?.manual;
        let prefix = prefix(&self.states[outer].dims, set)?;
        self.states[inner].manual = inherited.union(set);
        self.states[inner].unreduced = self.states[outer].unreduced.difference(set);
        self.states[outer].even = true;
        self.boundaries.insert(shard, ManualBoundary { outer, prefix: prefix.clone() });
        edges.push(Edge::ManualBoundary { outer, inner, prefix });
        Ok(())
    }

    /// Leaves a manual computation of GSPMD. The operand is one device's part of the result.
    fn shard_to_full(&mut self, op: &Op, manual: AxisSet, edges: &mut Vec<Edge>) -> Result<()> {
        let (&[shard], &[full]) = (&op.operands[..], &op.results[..]) else { return Err(missing("operand")) };
        let annotation = of_op(op)?.pop().ok_or_else(|| missing("mhlo.sharding"))?;
        self.grid.check_manual(&annotation)?;
        let outer = full.0 as usize;
        let mut sharding = self.grid.sharding(&annotation, self.states[outer].dims.len())?;
        open_dims(op, &mut sharding);
        let prefix = prefix(&sharding.dims, self.state(shard).manual)?;
        self.states[outer].manual = manual;
        self.annotate(outer, sharding, Uneven::Padded)?;
        self.states[outer].even = true;
        self.boundaries.insert(full, ManualBoundary { outer, prefix: prefix.clone() });
        edges.push(Edge::ManualBoundary { outer, inner: shard.0 as usize, prefix });
        Ok(())
    }

    /// Plans the branches of an `if` or `case`, and links each result with the values that the branches return.
    fn branches(
        &mut self,
        op: &'m Op,
        inherited: AxisSet,
        edges: &mut Vec<Edge>,
        at: &mut impl FnMut(&Op, CompileError) -> CompileError,
    ) -> Result<()> {
        for region in &op.regions {
            self.region(region, inherited, edges, at)?;
        }
        for (i, &result) in op.results.iter().enumerate() {
            let ends = op.regions.iter().filter_map(|r| r.ops.last()?.operands.get(i).copied());
            let all: Vec<ValueId> = ends.chain([result]).collect();
            let set = all.iter().fold(inherited, |set, &v| set.union(self.state(v).manual));
            self.states[result.0 as usize].manual = set;
            self.states[result.0 as usize].unreduced = self.common_sums(&all[..all.len() - 1]);
            self.link(&all, None, edges);
        }
        Ok(())
    }

    /// Adds the edge of the op's rule, and applies the annotations of its results. Ignores annotations that assign a
    /// result to one device.
    fn ruled(&mut self, op: &Op, edges: &mut Vec<Edge>) -> Result<()> {
        let rule = rule(self.func, op, self);
        let of =
            |values: &[ValueId], maps: Vec<Mapping>| values.iter().map(|v| v.0 as usize).zip(maps).collect::<Vec<_>>();
        let mut tensors = of(&op.results, rule.results);
        tensors.extend(of(&op.operands, rule.operands));
        edges.push(Edge::Rule { sizes: rule.sizes, alone: rule.alone, tensors });
        for (annotation, &result) in of_op(op)?.iter().zip(&op.results) {
            if self.is_one_device(annotation) {
                continue;
            }
            let result = result.0 as usize;
            let sharding = self.grid.sharding(annotation, self.states[result].dims.len())?;
            self.annotate(result, sharding, Uneven::Useful)?;
        }
        Ok(())
    }

    fn while_loop(
        &mut self,
        op: &'m Op,
        manual: AxisSet,
        edges: &mut Vec<Edge>,
        at: &mut impl FnMut(&Op, CompileError) -> CompileError,
    ) -> Result<()> {
        let [cond, body] = &op.regions[..] else { return Err(CompileError::invalid("a loop must have two regions")) };
        // The body may make a value device-varying although its initial value is not. Plan the regions again until
        // nothing changes, and keep only the edges of the last round.
        let mut first = edges.len();
        // A value remains unreduced throughout the loop only if it is still unreduced at the end of every iteration.
        let mut sums: Vec<AxisSet> = op.operands.iter().map(|&init| self.state(init).unreduced).collect();
        for round in 0.. {
            edges.truncate(first);
            first = edges.len();
            let mut grown = false;
            for (i, &init) in op.operands.iter().enumerate() {
                let set = self.state(init).manual.union(self.states[op.results[i].0 as usize].manual);
                for &arg in [cond, body].iter().filter_map(|r| r.args.get(i)) {
                    self.states[arg.0 as usize].manual = set;
                    self.states[arg.0 as usize].unreduced = sums[i];
                }
            }
            self.region(cond, manual, edges, at)?;
            self.region(body, manual, edges, at)?;
            for (i, &result) in op.results.iter().enumerate() {
                let end = body.ops.last().and_then(|r| r.operands.get(i)).copied().unwrap_or(result);
                let own = self.state(result).manual;
                let set = own.union(self.state(end).manual).union(self.state(op.operands[i]).manual);
                grown |= set != own;
                self.states[result.0 as usize].manual = set;
                let kept = sums[i].intersection(self.state(end).unreduced);
                grown |= kept != sums[i];
                sums[i] = kept;
                self.states[result.0 as usize].unreduced = kept;
                let args = [cond, body].into_iter().filter_map(|r| r.args.get(i).copied());
                let all: Vec<ValueId> = args.chain([op.operands[i], end, result]).collect();
                self.link(&all, None, edges);
            }
            if !grown || round > 32 {
                break;
            }
        }
        Ok(())
    }

    fn manual_computation(
        &mut self,
        op: &'m Op,
        manual: AxisSet,
        edges: &mut Vec<Edge>,
        at: &mut impl FnMut(&Op, CompileError) -> CompileError,
    ) -> Result<()> {
        let (OpKind::Other { attributes, .. }, [body]) = (&op.kind, &op.regions[..]) else {
            return Err(CompileError::invalid("a manual computation must have one region"));
        };
        let annotation = of_op(op)?;
        if annotation.len() != op.operands.len() + op.results.len() || body.args.len() != op.operands.len() {
            return Err(CompileError::invalid("a manual computation must have a sharding for each operand and result"));
        }
        annotation.iter().try_for_each(|annotation| self.grid.check_manual(annotation))?;
        let (ins, outs) = annotation.split_at(op.operands.len());
        let names = find(attributes, "manual_axes").and_then(text).ok_or_else(|| missing("manual_axes"))?;
        let mut set = AxisSet::default();
        for name in parser::manual_axes(&names)? {
            let mesh = annotation.iter().find_map(|w| match w {
                ParsedSharding::Axes { mesh, .. } => self.grid.axis(mesh, &name),
                _ => None,
            });
            let axes = mesh.ok_or_else(|| CompileError::invalid(format!("no mesh has the manual axis {name:?}")))?;
            set.add(axes);
        }
        let inside = manual.union(set);
        for ((annotation, &operand), &arg) in ins.iter().zip(&op.operands).zip(&body.args) {
            let outer = self.add(&self.func.values[operand.0 as usize]);
            let sharding = self.grid.sharding(annotation, self.states[outer].dims.len())?;
            let prefix = prefix(&sharding.dims, set)?;
            self.annotate(outer, sharding, Uneven::Refused)?;
            self.states[outer].even = true;
            self.states[outer].manual = manual;
            self.states[arg.0 as usize].unreduced = self.states[outer].unreduced.difference(set);
            self.link(&[operand], Some(outer), edges);
            self.boundaries.insert(arg, ManualBoundary { outer, prefix: prefix.clone() });
            edges.push(Edge::ManualBoundary { outer, inner: arg.0 as usize, prefix });
        }
        self.region(body, inside, edges, at)?;
        let ends = body.ops.last().map_or(&[][..], |r| &r.operands);
        for ((annotation, &result), &end) in outs.iter().zip(&op.results).zip(ends) {
            let outer = result.0 as usize;
            let sharding = self.grid.sharding(annotation, self.states[outer].dims.len())?;
            let prefix = prefix(&sharding.dims, set)?;
            self.annotate(outer, sharding, Uneven::Refused)?;
            self.states[outer].even = true;
            self.boundaries.insert(result, ManualBoundary { outer, prefix: prefix.clone() });
            edges.push(Edge::ManualBoundary { outer, inner: end.0 as usize, prefix });
        }
        Ok(())
    }
}

/// Returns the manual axes of each dimension. Returns an error if they are not the major axes of the dimension.
fn prefix(dims: &Spec, manual: AxisSet) -> Result<Spec> {
    let split = |axes: &Vec<Axis>| {
        let count = axes.iter().take_while(|&&a| manual.contains(a)).count();
        let first = axes[count..].iter().all(|&a| !manual.contains(a));
        first.then(|| axes[..count].to_vec())
    };
    dims.iter().map(split).collect::<Option<Spec>>().ok_or_else(|| {
        CompileError::unsupported("a dimension cut along a manual axis inside of one that is not manual")
    })
}

/// Returns the axes along which any operand or result of the op is device-varying.
pub(super) fn manual_of(plan: &Plan<'_>, op: &Op) -> AxisSet {
    op.operands.iter().chain(&op.results).fold(AxisSet::default(), |set, &v| set.union(plan.state(v).manual))
}

/// Returns the extents of one partition's part of a value with this sharding.
pub(super) fn local_shape(grid: &Grid, func: &Func, value: ValueId, spec: &Spec) -> Vec<i64> {
    let cut = |(&extent, axes): (&i64, &Vec<Axis>)| {
        let local = usize::try_from(extent).ok().and_then(|extent| i64::try_from(grid.local(extent, axes)).ok());
        local.unwrap_or(extent)
    };
    shape(func, value).iter().zip(spec).map(cut).collect()
}
