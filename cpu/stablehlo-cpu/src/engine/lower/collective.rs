//! Lowers collectives: computes the groups of members and the step that the members run.

use std::sync::Arc;

use stablehlo::ir::{OpKind, Region};

use super::region::combine;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::{Node, Op, ValueIndex};
use crate::engine::kernels::collective::{AllToAll, Collective, Kind};
use crate::engine::kernels::combine::Body;
use crate::engine::kernels::member_reduction::ReduceScatter;
use crate::engine::view::{View, strides_of};
use crate::error::CompileError;

/// Flattened IDs of the members of each group. The flattened ID of a member is `replica * partitions + partition`.
type Groups = Vec<Vec<usize>>;

impl<'m> LoweringContext<'_, 'm> {
    /// Lowers a collective.
    pub(super) fn collective(&mut self) -> Result<()> {
        match &self.op.kind {
            OpKind::AllReduce { .. } => {
                let (groups, _) = self.groups(&self.op.kind)?;
                self.all_reduce(groups)
            }
            OpKind::ReduceScatter { scatter_dimension, .. } => {
                let (groups, size) = self.groups(&self.op.kind)?;
                self.even(&groups, size)?;
                self.reduce_scatter(groups, size, *scatter_dimension)
            }
            OpKind::AllGather { all_gather_dim, .. } => {
                let (groups, size) = self.groups(&self.op.kind)?;
                self.even(&groups, size)?;
                self.all_gather(groups, size, *all_gather_dim)
            }
            OpKind::AllToAll { concat_dimension, split_count, split_dimension, .. } => {
                let (groups, size) = self.groups(&self.op.kind)?;
                self.even(&groups, size)?;
                let fits = usize::try_from(*split_count) == Ok(size);
                self.ensure(fits, || format!("split_count = {split_count} in groups of {size}"))?;
                self.all_to_all(groups, size, *split_dimension, *concat_dimension)
            }
            OpKind::CollectivePermute { source_target_pairs, .. } => self.collective_permute(source_target_pairs.len()),
            OpKind::CollectiveBroadcast { has_dynamic_root, .. } => {
                let (operands, root) = self.rooted(*has_dynamic_root)?;
                let (groups, _) = self.groups(&self.op.kind)?;
                let ins: Vec<ValueIndex> = operands.iter().map(|x| x.value).chain(root).collect();
                let kind = Kind::Broadcast { rooted: root.is_some() };
                self.finish_collective(kind, groups, &ins, operands.into_iter().map(|x| x.ty).collect())
            }
            OpKind::CollectiveReduce { has_dynamic_root, .. } => {
                let (groups, _) = self.groups(&self.op.kind)?;
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
            group.iter().for_each(|&id| of[id] = Some(group.clone()));
        }
        let meets = !matches!(kind, Kind::PartitionId | Kind::ReplicaId);
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

    /// Returns the replica groups of a collective, and the size of the first group.
    pub(super) fn groups(&self, kind: &OpKind) -> Result<(Groups, usize)> {
        let (replicas, partitions) = (self.graph.settings.replicas, self.graph.settings.partitions);
        let groups = stablehlo_passes::replica_groups(self.graph.module, kind, replicas, partitions);
        let groups = groups.map_err(|error| self.invalid(error.message()))?;
        let size = groups.first().map_or(1, Vec::len);
        Ok((groups, size))
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

    /// Lowers a `collective_permute` with `count` pairs.
    fn collective_permute(&mut self, count: usize) -> Result<()> {
        let [x] = self.take()?;
        let (replicas, partitions) = (self.graph.settings.replicas, self.graph.settings.partitions);
        let pairs = stablehlo_passes::source_target_pairs(&self.op.kind, replicas, partitions);
        let pairs = pairs.map_err(|error| self.invalid(error.message()))?;
        let mut sources = vec![None; self.members()];
        pairs.iter().for_each(|&(source, target)| sources[target] = Some(source));
        // The members of each replica or partition exchange tensors among themselves.
        let named = |pairs: &[(usize, usize)]| {
            let mut named: Vec<usize> = pairs.iter().flat_map(|&(source, target)| [source, target]).collect();
            named.sort_unstable();
            named.dedup();
            named
        };
        let groups = pairs.chunks(count.max(1)).map(named).collect();
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
