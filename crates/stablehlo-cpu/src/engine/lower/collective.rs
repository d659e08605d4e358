//! Lowers collectives: computes the groups of members and the step that they run.

use std::sync::Arc;

use stablehlo::ir::{Attribute, Attributes, Region};

use super::region::combine;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::{Node, Op, ValueIndex};
use crate::engine::kernels::collective::{AllToAll, Collective, Kind, ReduceScatter};
use crate::engine::kernels::combine::Body;
use crate::engine::view::{View, strides_of};
use crate::error::CompileError;
use crate::op_names::op_name;
use crate::sharding::mesh_groups;

/// Flattened IDs of the members of each group.
type Groups = Vec<Vec<usize>>;

/// The interpretation of the numbers in `replica_groups`, under the specification's names.
enum Scope {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

impl<'m> LoweringContext<'_, 'm> {
    /// Lowers an op by its name. Returns `None` if it is not a collective.
    pub(super) fn collective(&mut self, op: &str, attributes: &'m Attributes) -> Option<Result<()>> {
        let a = Named { cx: op_name(&self.op.kind), attributes };
        Some(match op {
            "stablehlo.all_reduce" => self.all_reduce(&a),
            "stablehlo.reduce_scatter" => self.reduce_scatter(&a),
            "stablehlo.all_gather" => self.all_gather(&a),
            "stablehlo.all_to_all" => self.all_to_all(&a),
            "stablehlo.collective_permute" => self.collective_permute(&a),
            "stablehlo.collective_broadcast" => self.collective_broadcast(&a),
            "stablehlo.collective_reduce" => self.collective_reduce(&a),
            _ => return None,
        })
    }

    /// `partition_id` and `replica_id`.
    pub(super) fn member_id(&mut self, partition: bool) -> Result<()> {
        let members = if partition { self.graph.settings.partitions } else { self.graph.settings.replicas };
        if members <= 1 {
            return self.zero();
        }
        let ty = self.result_type(0)?;
        self.ensure(ty.dtype == DType::U32 && ty.rank() == 0, || format!("makes a ui32, a {ty} is declared"))?;
        let kind = if partition { Kind::PartitionId } else { Kind::ReplicaId };
        self.finish_collective(kind, Vec::new(), &[], vec![ty])
    }

    pub(super) fn finish_collective(
        &mut self,
        kind: Kind,
        groups: Groups,
        ins: &[ValueIndex],
        types: Vec<TensorType>,
    ) -> Result<()> {
        let results = self.add_collective(kind, groups, ins, types)?;
        self.finish(results)
    }

    fn add_collective(
        &mut self,
        kind: Kind,
        groups: Groups,
        ins: &[ValueIndex],
        types: Vec<TensorType>,
    ) -> Result<Vec<TypedValue>> {
        let mut of: Vec<Option<Arc<[usize]>>> = vec![None; self.members()];
        for group in groups {
            let group: Arc<[usize]> = group.into();
            for &id in group.iter() {
                let place = of.get_mut(id).filter(|place| place.is_none());
                let fits = place.map(|place| *place = Some(group.clone())).is_some();
                self.ensure(fits, || format!("member {id} is in two groups, or not in the launch"))?;
            }
        }
        let alone = of.iter().position(Option::is_none);
        let meets = !matches!(kind, Kind::PartitionId | Kind::ReplicaId);
        if meets && !matches!(kind, Kind::Permute { .. } | Kind::Broadcast { .. } | Kind::Reduce { .. }) {
            self.ensure(alone.is_none(), || {
                let members = self.members();
                format!("member {} of the launch's {members} is in no group", alone.unwrap_or_default())
            })?;
        }
        let id = self.graph.collectives;
        self.graph.collectives += u32::from(meets);
        let ins = ins.iter().map(|&v| self.graph.materialized(v, self.out)).collect();
        let outs: Vec<ValueIndex> = types.iter().map(|ty| self.graph.value(ty)).collect();
        let collective = Box::new(Collective { id, groups: of, kind });
        self.out.push(Node { op: Op::Collective(collective), ins, outs: outs.clone() });
        Ok(outs.into_iter().zip(types).map(|(v, ty)| TypedValue { value: v, ty }).collect())
    }

    fn members(&self) -> usize {
        self.graph.settings.replicas.max(1).saturating_mul(self.graph.settings.partitions.max(1))
    }

    /// The number of IDs in a scope, and the noun for what the IDs refer to.
    fn ids(&self, scope: &Scope) -> (usize, &'static str) {
        match scope {
            Scope::CrossReplica | Scope::CrossReplicaAndPartition => (self.graph.settings.replicas.max(1), "replicas"),
            Scope::CrossPartition => (self.graph.settings.partitions.max(1), "partitions"),
            Scope::FlattenedIds => (self.members(), "members"),
        }
    }

    /// Converts lists of numbers to groups of flattened IDs.
    fn resolve(&self, lists: &Groups, scope: &Scope) -> Result<Groups> {
        let (replicas, partitions) = (self.graph.settings.replicas.max(1), self.graph.settings.partitions.max(1));
        let (count, what) = self.ids(scope);
        for &id in lists.iter().flatten() {
            if id >= count {
                return Err(self.invalid(format!("a group contains {id}, but the launch has only {count} {what}")));
            }
        }
        let flat = |r: usize, p: usize| r * partitions + p;
        Ok(match scope {
            Scope::CrossReplica => (0..partitions)
                .flat_map(|p| lists.iter().map(move |g| g.iter().map(|&r| flat(r, p)).collect()))
                .collect(),
            Scope::CrossPartition => {
                (0..replicas).flat_map(|r| lists.iter().map(move |g| g.iter().map(|&p| flat(r, p)).collect())).collect()
            }
            Scope::CrossReplicaAndPartition => lists
                .iter()
                .map(|g| (0..partitions).flat_map(|p| g.iter().map(move |&r| flat(r, p))).collect())
                .collect(),
            Scope::FlattenedIds => lists.clone(),
        })
    }

    /// The groups of an op that has `channel_id`. If `global` is set, the op also has `use_global_device_ids`.
    ///
    /// Groups without a member of the launch are ignored, because programs may also list groups of other launches. If
    /// every group has one member, members without a group get a group of their own, because XLA removes such
    /// collectives.
    pub(super) fn groups(&self, a: &Named<'_>, global: bool, covers: bool) -> Result<(Groups, usize)> {
        let channel = a.int("channel_id")? > 0;
        let scope = match (channel, global && a.int("use_global_device_ids")? != 0) {
            (true, true) => Scope::FlattenedIds,
            (true, false) if global => Scope::CrossReplicaAndPartition,
            (true, false) => Scope::CrossPartition,
            (false, false) => Scope::CrossReplica,
            (false, true) => return Err(self.invalid("use_global_device_ids without a channel id")),
        };
        let mut lists = match a.find("replica_groups") {
            Some(Attribute::Other(text)) => mesh_groups(text, self.graph.module)?,
            _ => a.matrix("replica_groups")?,
        };
        if lists.iter().all(Vec::is_empty) {
            lists = vec![(0..self.ids(&scope).0).collect()];
        }
        lists.retain(|list| !list.is_empty());
        let (count, single) = (self.ids(&scope).0, lists.iter().all(|list| list.len() == 1));
        lists.retain(|list| list.iter().any(|&id| id < count));
        if single && covers {
            let others: Groups =
                (0..count).filter(|id| !lists.iter().flatten().any(|x| x == id)).map(|id| vec![id]).collect();
            lists.extend(others);
        }
        let groups = self.resolve(&lists, &scope)?;
        let size = groups.first().map_or(1, Vec::len);
        Ok((groups, size))
    }

    /// Checks that all groups have `size` members.
    pub(super) fn even(&self, groups: &Groups, size: usize) -> Result<()> {
        self.ensure(groups.iter().all(|g| g.len() == size), || "groups of different sizes".to_owned())
    }

    /// Compiles a reduction of scalars of one type. The scalars that its body captures become inputs.
    fn reducer(&mut self, region: &'m Region, dtype: DType, ins: &mut Vec<ValueIndex>) -> Result<Body> {
        if let Some(fast) = combine(region).and_then(|c| Body::fast(c, dtype)) {
            return Ok(fast);
        }
        let scalar = self.typed(dtype, &[])?;
        let body = self.scalar_fn(region, &[scalar.clone(), scalar.clone()])?;
        self.ensure(body.results == [scalar], || format!("the body returns {:?}", body.results))?;
        ins.extend(&body.captured);
        Ok(Body::Any(body))
    }

    fn all_reduce(&mut self, a: &Named<'_>) -> Result<()> {
        let operands = self.operands()?;
        self.ensure(!operands.is_empty(), || "must have an operand".to_owned())?;
        let (groups, _) = self.groups(a, true, true)?;
        let region = self.body()?;
        let mixed = operands.iter().any(|x| x.ty.dtype != operands[0].ty.dtype);
        if mixed && combine(region).is_none() {
            return Err(CompileError::unsupported(
                "all_reduce of tensors of several element types by a function other than one sum, product, maximum, \
                 minimum or bitwise operation",
            ));
        }
        // Emit one collective for all tensors of an element type.
        let mut results: Vec<Option<TypedValue>> = vec![None; operands.len()];
        while let Some(first) = results.iter().position(Option::is_none) {
            let dtype = operands[first].ty.dtype;
            let chosen: Vec<usize> = (first..operands.len()).filter(|&i| operands[i].ty.dtype == dtype).collect();
            let mut ins: Vec<ValueIndex> = chosen.iter().map(|&i| operands[i].value).collect();
            let body = self.reducer(region, dtype, &mut ins)?;
            let sizes = vec![dtype.size(); chosen.len()];
            let types = chosen.iter().map(|&i| operands[i].ty.clone()).collect();
            let met = self.add_collective(Kind::AllReduce { sizes, body }, groups.clone(), &ins, types)?;
            chosen.into_iter().zip(met).for_each(|(i, tv)| results[i] = Some(tv));
        }
        self.finish(results.into_iter().flatten().collect())
    }

    fn reduce_scatter(&mut self, a: &Named<'_>) -> Result<()> {
        let operands = self.operands()?;
        let (groups, size) = self.groups(a, true, true)?;
        self.even(&groups, size)?;
        let mut results = Vec::with_capacity(operands.len());
        for x in operands {
            results.extend(self.scattered(a, x, groups.clone(), size)?);
        }
        self.finish(results)
    }

    /// Lowers one of the tensors of a `reduce_scatter`.
    fn scattered(&mut self, a: &Named<'_>, x: TypedValue, groups: Groups, size: usize) -> Result<Vec<TypedValue>> {
        let d = self.dimension(a, "scatter_dimension", &x.ty)?;
        self.ensure(x.ty.dims[d].is_multiple_of(size), || format!("dimension {d} of {} among {size} members", x.ty))?;
        let mut dims = x.ty.dims.to_vec();
        dims[d] /= size;
        let ty = self.typed(x.ty.dtype, &dims)?;
        let region = self.body()?;
        let mut ins = vec![x.value];
        let body = self.reducer(region, x.ty.dtype, &mut ins)?;
        let kind = Kind::ReduceScatter(ReduceScatter {
            outer: dims[..d].iter().product(),
            chunk: dims[d..].iter().product(),
            size: x.ty.dtype.size(),
            body,
        });
        self.add_collective(kind, groups, &ins, vec![ty])
    }

    fn all_gather(&mut self, a: &Named<'_>) -> Result<()> {
        let operands = self.operands()?;
        let (groups, size) = self.groups(a, true, true)?;
        self.even(&groups, size)?;
        let (mut chunks, mut types) = (Vec::new(), Vec::new());
        for x in &operands {
            let d = self.dimension(a, "all_gather_dim", &x.ty)?;
            chunks.push(x.ty.dims[d..].iter().product::<usize>() * x.ty.dtype.size());
            let mut dims = x.ty.dims.to_vec();
            dims[d] = dims[d].checked_mul(size).ok_or_else(|| self.invalid("the result is too large"))?;
            types.push(self.typed(x.ty.dtype, &dims)?);
        }
        let ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).collect();
        self.finish_collective(Kind::AllGather { chunks }, groups, &ins, types)
    }

    fn all_to_all(&mut self, a: &Named<'_>) -> Result<()> {
        let operands = self.operands()?;
        let (groups, size) = self.groups(a, false, true)?;
        self.even(&groups, size)?;
        let count = a.int("split_count")?;
        self.ensure(usize::try_from(count) == Ok(size), || format!("split_count = {count} in groups of {size}"))?;
        let (mut parts, mut types) = (Vec::new(), Vec::new());
        for x in &operands {
            let split = self.dimension(a, "split_dimension", &x.ty)?;
            let concat = self.dimension(a, "concat_dimension", &x.ty)?;
            let even = x.ty.dims[split] % size == 0;
            self.ensure(even, || format!("dimension {split} of {} in {size} parts", x.ty))?;
            let mut part = x.ty.dims.to_vec();
            part[split] /= size;
            let mut dims = part.clone();
            dims[concat] = dims[concat].checked_mul(size).ok_or_else(|| self.invalid("the result is too large"))?;
            let (own, made) = (strides_of(&x.ty.dims), strides_of(&dims));
            let step = |stride: isize, extent: usize| usize::try_from(stride).unwrap_or(0) * extent;
            parts.push(AllToAll {
                from: View::new(&part, &own, 0),
                from_step: step(own[split], part[split]),
                to: View::new(&part, &made, 0),
                to_step: step(made[concat], part[concat]),
                size: x.ty.dtype.size(),
            });
            types.push(self.typed(x.ty.dtype, &dims)?);
        }
        let ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).collect();
        self.finish_collective(Kind::AllToAll(parts), groups, &ins, types)
    }

    fn collective_permute(&mut self, a: &Named<'_>) -> Result<()> {
        let [x] = self.take()?;
        let pairs = a.matrix("source_target_pairs")?;
        self.ensure(pairs.iter().all(|p| p.len() == 2), || "source_target_pairs must be pairs".to_owned())?;
        let scope = if a.int("channel_id")? > 0 { Scope::CrossPartition } else { Scope::CrossReplica };
        let ends = |end: usize| pairs.iter().map(|p| p[end]).collect::<Vec<_>>();
        let repeats = |list: Vec<usize>| list.iter().enumerate().any(|(i, x)| list[..i].contains(x));
        self.ensure(!repeats(ends(0)) && !repeats(ends(1)), || "a source or a target is named twice".to_owned())?;
        let mut named: Vec<usize> = pairs.iter().flatten().copied().collect();
        named.sort_unstable();
        named.dedup();
        let groups = if named.is_empty() { Vec::new() } else { self.resolve(&vec![named], &scope)? };
        let mut sources = vec![None; self.members()];
        for pair in self.resolve(&pairs, &scope)? {
            if let [source, target] = pair[..] {
                sources[target] = Some(source);
            }
        }
        let ty = x.ty;
        self.finish_collective(Kind::Permute { sources }, groups, &[x.value], vec![ty])
    }

    /// The operands without the last one. If `has_dynamic_root` is set, the last operand holds a root for each of the
    /// others.
    fn rooted(&mut self, a: &Named<'_>) -> Result<(Vec<TypedValue>, Option<ValueIndex>)> {
        let mut operands = self.operands()?;
        if a.find("has_dynamic_root").is_none() || a.int("has_dynamic_root")? == 0 {
            return Ok((operands, None));
        }
        let root = operands.pop().ok_or_else(|| self.invalid("must have an operand"))?;
        let fits = root.ty.dtype == DType::I32 && *root.ty.dims == [operands.len()];
        self.ensure(fits, || format!("the root is a {}, but there are {} tensors", root.ty, operands.len()))?;
        Ok((operands, Some(root.value)))
    }

    fn collective_broadcast(&mut self, a: &Named<'_>) -> Result<()> {
        let (operands, root) = self.rooted(a)?;
        let (groups, _) = self.groups(a, false, false)?;
        let ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).chain(root).collect();
        let kind = Kind::Broadcast { rooted: root.is_some() };
        self.finish_collective(kind, groups, &ins, operands.into_iter().map(|x| x.ty).collect())
    }

    fn collective_reduce(&mut self, a: &Named<'_>) -> Result<()> {
        let (operands, root) = self.rooted(a)?;
        let first = operands.first().ok_or_else(|| self.invalid("must have an operand"))?.clone();
        if operands.iter().any(|x| x.ty.dtype != first.ty.dtype) {
            return Err(CompileError::unsupported("collective_reduce of tensors of several element types"));
        }
        // Unlike for `all_reduce`, groups with a channel consist of partitions by default.
        let (groups, _) = self.groups(a, a.int("use_global_device_ids")? != 0, false)?;
        let region = self.body()?;
        let mut ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).collect();
        let body = self.reducer(region, first.ty.dtype, &mut ins)?;
        ins.extend(root);
        let sizes = vec![first.ty.dtype.size(); operands.len()];
        let kind = Kind::Reduce { sizes, body, rooted: root.is_some() };
        self.finish_collective(kind, groups, &ins, operands.into_iter().map(|x| x.ty).collect())
    }

    fn dimension(&self, a: &Named<'_>, name: &str, ty: &TensorType) -> Result<usize> {
        let d = usize::try_from(a.int(name)?).unwrap_or(usize::MAX);
        self.ensure(d < ty.rank(), || format!("{name} = {d} for a {ty}"))?;
        Ok(d)
    }
}

/// The raw attributes of a collective.
pub(super) struct Named<'m> {
    pub(super) cx: String,
    pub(super) attributes: &'m Attributes,
}

impl<'m> Named<'m> {
    fn find(&self, name: &str) -> Option<&'m Attribute> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    fn wrong(&self, name: &str, what: &str) -> CompileError {
        CompileError::invalid(format!("{}: attribute `{name}` must be {what}", self.cx))
    }

    fn int(&self, name: &str) -> Result<i64> {
        match self.find(name) {
            Some(Attribute::Integer(value, _)) => Ok(*value),
            Some(Attribute::Bool(value)) => Ok(i64::from(*value)),
            Some(Attribute::Unit) => Ok(1),
            None if matches!(name, "channel_id" | "use_global_device_ids") => Ok(0),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    /// A matrix of IDs. Short rows are padded with -1.
    fn matrix(&self, name: &str) -> Result<Groups> {
        let wrong = || self.wrong(name, "a matrix of ids");
        let Some(Attribute::Tensor(literal)) = self.find(name) else { return Err(wrong()) };
        let &[rows, columns] = &literal.ty.shape[..] else { return Err(wrong()) };
        let (Ok(rows), Ok(columns)) = (usize::try_from(rows), usize::try_from(columns)) else { return Err(wrong()) };
        if rows == 0 || columns == 0 {
            return Ok(Vec::new());
        }
        let numbers = literal.integers().ok_or_else(wrong)?;
        let row = |row: &[i64]| {
            row.iter().filter(|&&id| id != -1).map(|&id| usize::try_from(id).map_err(|_| wrong())).collect()
        };
        // A splat stores only one element, so it cannot be divided into rows.
        let numbers = if numbers.len() == rows * columns {
            numbers
        } else {
            vec![*numbers.first().ok_or_else(wrong)?; rows * columns]
        };
        numbers.chunks_exact(columns).map(row).collect()
    }
}
