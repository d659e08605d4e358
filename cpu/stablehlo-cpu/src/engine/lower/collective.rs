//! Lowers collectives: computes the groups of members and the step that the members run.

use std::sync::Arc;

use stablehlo::ir::{ChannelHandle, OpKind, Region, ReplicaGroups};

use super::region::combine;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::{Node, Op, ValueIndex};
use crate::engine::kernels::collective::{AllToAll, Collective, Kind};
use crate::engine::kernels::combine::Body;
use crate::engine::kernels::member_reduction::ReduceScatter;
use crate::engine::view::{View, strides_of};
use crate::error::CompileError;
use crate::sharding::mesh_groups;

/// Flattened IDs of the members of each group. The flattened ID of a member is `replica * partitions + partition`.
type Groups = Vec<Vec<usize>>;

/// Meaning of the IDs in `replica_groups`. The variants have the names that the StableHLO specification uses.
enum Scope {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

impl<'m> LoweringContext<'_, 'm> {
    /// Lowers a collective.
    pub(super) fn collective(&mut self) -> Result<()> {
        match &self.op.kind {
            OpKind::AllReduce { channel, replica_groups, use_global_device_ids } => {
                let (groups, _) = self.groups(replica_groups, *channel, Some(*use_global_device_ids), true)?;
                self.all_reduce(groups)
            }
            OpKind::ReduceScatter { channel, replica_groups, scatter_dimension, use_global_device_ids } => {
                let (groups, size) = self.groups(replica_groups, *channel, Some(*use_global_device_ids), true)?;
                self.even(&groups, size)?;
                self.reduce_scatter(groups, size, *scatter_dimension)
            }
            OpKind::AllGather { all_gather_dim, channel, replica_groups, use_global_device_ids } => {
                let (groups, size) = self.groups(replica_groups, *channel, Some(*use_global_device_ids), true)?;
                self.even(&groups, size)?;
                self.all_gather(groups, size, *all_gather_dim)
            }
            OpKind::AllToAll { channel, concat_dimension, replica_groups, split_count, split_dimension } => {
                let (groups, size) = self.groups(replica_groups, *channel, None, true)?;
                self.even(&groups, size)?;
                let fits = usize::try_from(*split_count) == Ok(size);
                self.ensure(fits, || format!("split_count = {split_count} in groups of {size}"))?;
                self.all_to_all(groups, size, *split_dimension, *concat_dimension)
            }
            OpKind::CollectivePermute { channel, source_target_pairs } => {
                self.collective_permute(*channel, source_target_pairs)
            }
            OpKind::CollectiveBroadcast { channel, has_dynamic_root, replica_groups } => {
                let (operands, root) = self.rooted(*has_dynamic_root)?;
                let (groups, _) = self.groups(replica_groups, *channel, None, false)?;
                let ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).chain(root).collect();
                let kind = Kind::Broadcast { rooted: root.is_some() };
                self.finish_collective(kind, groups, &ins, operands.into_iter().map(|x| x.ty).collect())
            }
            OpKind::CollectiveReduce { channel, has_dynamic_root, replica_groups, use_global_device_ids } => {
                // Unlike in `all_reduce`, the groups of an op with a channel consist of partitions by default.
                let global = use_global_device_ids.then_some(true);
                let (groups, _) = self.groups(replica_groups, *channel, global, false)?;
                self.collective_reduce(groups, *has_dynamic_root)
            }
            _ => Err(self.unsupported()),
        }
    }

    /// Lowers `partition_id` or `replica_id`.
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

    /// Returns the number of IDs in a scope, and a plural noun for error messages. The noun names the things that the
    /// IDs identify.
    fn ids(&self, scope: &Scope) -> (usize, &'static str) {
        match scope {
            Scope::CrossReplica | Scope::CrossReplicaAndPartition => (self.graph.settings.replicas.max(1), "replicas"),
            Scope::CrossPartition => (self.graph.settings.partitions.max(1), "partitions"),
            Scope::FlattenedIds => (self.members(), "members"),
        }
    }

    /// Converts groups of IDs in a scope to groups of flattened IDs.
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

    /// Returns the replica groups of an op with the attribute `channel_id`, and the size of the first group. The
    /// returned groups contain flattened IDs. `channel` is the value of `channel_id`. If the op lists no groups, all
    /// IDs form one group. `global` is the op's `use_global_device_ids`, or `None` if the op does not have this
    /// attribute.
    ///
    /// Groups without a member of the launch are ignored, because programs may also list groups of other launches. If
    /// `covers` is set and every group has one member, each ID without a group gets a group of its own. XLA removes
    /// such collectives, so they may leave out members.
    pub(super) fn groups(
        &self,
        groups: &ReplicaGroups,
        channel: ChannelHandle,
        global: Option<bool>,
        covers: bool,
    ) -> Result<(Groups, usize)> {
        let scope = match (channel.id > 0, global) {
            (true, Some(true)) => Scope::FlattenedIds,
            (true, Some(false)) => Scope::CrossReplicaAndPartition,
            (true, None) => Scope::CrossPartition,
            (false, None | Some(false)) => Scope::CrossReplica,
            (false, Some(true)) => return Err(self.invalid("use_global_device_ids without a channel id")),
        };
        let mut lists = match groups {
            ReplicaGroups::Mesh(text) => mesh_groups(text, self.graph.module)?,
            ids => self.members_of(ids)?,
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

    /// Returns the rows of the attribute `replica_groups`. [`resolve`](Self::resolve) interprets their IDs.
    fn members_of(&self, groups: &ReplicaGroups) -> Result<Groups> {
        let wrong = || self.invalid("attribute `replica_groups` must be a matrix of ids");
        let rows = groups.rows().ok_or_else(wrong)?;
        let row = |row: Vec<i64>| row.into_iter().map(|id| usize::try_from(id).map_err(|_| wrong())).collect();
        rows.into_iter().map(row).collect()
    }

    /// Checks that all groups have `size` members.
    pub(super) fn even(&self, groups: &Groups, size: usize) -> Result<()> {
        self.ensure(groups.iter().all(|g| g.len() == size), || "groups of different sizes".to_owned())
    }

    /// Compiles the reduction body `region` for scalars of type `dtype`. Adds the scalars that the body captures to
    /// `ins`, the inputs of the collective.
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

    fn all_reduce(&mut self, groups: Groups) -> Result<()> {
        let operands = self.operands()?;
        self.ensure(!operands.is_empty(), || "must have an operand".to_owned())?;
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

    fn reduce_scatter(&mut self, groups: Groups, size: usize, d: usize) -> Result<()> {
        let operands = self.operands()?;
        let mut results = Vec::with_capacity(operands.len());
        for x in operands {
            results.extend(self.scattered(x, groups.clone(), size, d)?);
        }
        self.finish(results)
    }

    /// Lowers the `reduce_scatter` of one tensor along dimension `d`, among groups of `size` members.
    fn scattered(&mut self, x: TypedValue, groups: Groups, size: usize, d: usize) -> Result<Vec<TypedValue>> {
        self.has_dimension("scatter_dimension", d, &x.ty)?;
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

    fn all_gather(&mut self, groups: Groups, size: usize, d: usize) -> Result<()> {
        let operands = self.operands()?;
        let (mut chunks, mut types) = (Vec::new(), Vec::new());
        for x in &operands {
            self.has_dimension("all_gather_dim", d, &x.ty)?;
            chunks.push(x.ty.dims[d..].iter().product::<usize>() * x.ty.dtype.size());
            let mut dims = x.ty.dims.to_vec();
            dims[d] = dims[d].checked_mul(size).ok_or_else(|| self.invalid("the result is too large"))?;
            types.push(self.typed(x.ty.dtype, &dims)?);
        }
        let ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).collect();
        self.finish_collective(Kind::AllGather { chunks }, groups, &ins, types)
    }

    fn all_to_all(&mut self, groups: Groups, size: usize, split: usize, concat: usize) -> Result<()> {
        let operands = self.operands()?;
        let (mut parts, mut types) = (Vec::new(), Vec::new());
        for x in &operands {
            self.has_dimension("split_dimension", split, &x.ty)?;
            self.has_dimension("concat_dimension", concat, &x.ty)?;
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

    fn collective_permute(&mut self, channel: ChannelHandle, pairs: &[(i64, i64)]) -> Result<()> {
        let [x] = self.take()?;
        let id = |id: i64| {
            usize::try_from(id).map_err(|_| self.invalid(format!("source_target_pairs contains the id {id}")))
        };
        let pairs: Groups =
            pairs.iter().map(|&(source, target)| Ok(vec![id(source)?, id(target)?])).collect::<Result<_>>()?;
        let scope = if channel.id > 0 { Scope::CrossPartition } else { Scope::CrossReplica };
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

    /// Returns the tensors to exchange. If `has_dynamic_root` is set, also returns the last operand, which contains a
    /// root for each tensor.
    fn rooted(&mut self, has_dynamic_root: bool) -> Result<(Vec<TypedValue>, Option<ValueIndex>)> {
        let mut operands = self.operands()?;
        if !has_dynamic_root {
            return Ok((operands, None));
        }
        let root = operands.pop().ok_or_else(|| self.invalid("must have an operand"))?;
        let fits = root.ty.dtype == DType::I32 && *root.ty.dims == [operands.len()];
        self.ensure(fits, || format!("the root is a {}, but there are {} tensors", root.ty, operands.len()))?;
        Ok((operands, Some(root.value)))
    }

    fn collective_reduce(&mut self, groups: Groups, has_dynamic_root: bool) -> Result<()> {
        let (operands, root) = self.rooted(has_dynamic_root)?;
        let first = operands.first().ok_or_else(|| self.invalid("must have an operand"))?.clone();
        if operands.iter().any(|x| x.ty.dtype != first.ty.dtype) {
            return Err(CompileError::unsupported("collective_reduce of tensors of several element types"));
        }
        let region = self.body()?;
        let mut ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).collect();
        let body = self.reducer(region, first.ty.dtype, &mut ins)?;
        ins.extend(root);
        let sizes = vec![first.ty.dtype.size(); operands.len()];
        let kind = Kind::Reduce { sizes, body, rooted: root.is_some() };
        self.finish_collective(kind, groups, &ins, operands.into_iter().map(|x| x.ty).collect())
    }

    fn has_dimension(&self, name: &str, d: usize, ty: &TensorType) -> Result<()> {
        self.ensure(d < ty.rank(), || format!("{name} = {d} for a {ty}"))
    }
}
