//! Builds the program that each partition runs. Creates its values, constants and collectives.

use std::collections::HashMap;

use stablehlo::ir::{
    Binary, ChannelHandle, ElementType, Literal, LocationId, Op, OpKind, Region, ReplicaGroups, TensorType, Type,
    ValueId, is_sharding,
};

use crate::error::CompileError;
use crate::sharding::grid::{Axis, Grid};

type Result<T> = std::result::Result<T, CompileError>;

/// The channel of collectives between partitions. A positive ID marks a collective as one between partitions.
const CHANNEL: ChannelHandle = ChannelHandle { id: 1, channel_type: 0 };

/// The function under construction.
pub(super) struct Builder<'g> {
    pub(super) grid: &'g Grid,
    pub(super) replicas: usize,
    pub(super) values: Vec<Type>,
    /// Ops of the regions that are being built, innermost last.
    blocks: Vec<Vec<Op>>,
    /// Ops at the start of the function. They create constants and compute the position of this partition.
    prologue: Vec<Op>,
    /// For a list of axes, the index of this partition's part among the parts along these axes.
    coordinates: HashMap<Vec<Axis>, ValueId>,
    numbers: HashMap<u32, ValueId>,
    partition: Option<ValueId>,
    pub(super) location: LocationId,
}

/// Converts an extent to `i64`, the type of extents in the IR. Returns an error if it is too large.
pub(super) fn size(n: usize) -> Result<i64> {
    i64::try_from(n).map_err(|_| CompileError::unsupported(format!("an extent of {n}")))
}

impl<'g> Builder<'g> {
    pub(super) fn new(grid: &'g Grid, replicas: usize) -> Self {
        Self {
            grid,
            replicas: replicas.max(1),
            values: Vec::new(),
            blocks: vec![Vec::new()],
            prologue: Vec::new(),
            coordinates: HashMap::new(),
            numbers: HashMap::new(),
            partition: None,
            location: LocationId::default(),
        }
    }

    pub(super) fn value(&mut self, ty: Type) -> Result<ValueId> {
        let id = u32::try_from(self.values.len()).map_err(|_| CompileError::unsupported("more than 2^32 values"))?;
        self.values.push(ty);
        Ok(ValueId(id))
    }

    pub(super) fn tensor(&self, value: ValueId) -> Result<&TensorType> {
        let ty = self.values.get(value.0 as usize).and_then(Type::as_tensor);
        ty.ok_or_else(|| CompileError::unsupported("splitting a value that is not a tensor"))
    }

    /// Adds an op whose result values already exist.
    pub(super) fn push(&mut self, mut op: Op) {
        // A partitioned program contains no meshes. Parsers reject annotations that refer to a missing mesh.
        op.attributes.retain(|(name, _)| !is_sharding(name));
        if let Some(block) = self.blocks.last_mut() {
            block.push(op);
        }
    }

    pub(super) fn op(&self, kind: OpKind, operands: Vec<ValueId>, results: Vec<ValueId>) -> Op {
        Op { location: self.location, ..Op::new(kind, operands, results) }
    }

    /// Adds an op with one result.
    pub(super) fn add(&mut self, kind: OpKind, operands: &[ValueId], ty: TensorType) -> Result<ValueId> {
        self.add_with(kind, operands, ty, Vec::new())
    }

    fn add_with(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        ty: TensorType,
        regions: Vec<Region>,
    ) -> Result<ValueId> {
        let result = self.value(Type::Tensor(ty))?;
        let mut op = self.op(kind, operands.to_vec(), vec![result]);
        op.regions = regions;
        self.push(op);
        Ok(result)
    }

    pub(super) fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Returns the ops that were added since the matching [`Builder::open`].
    pub(super) fn close(&mut self) -> Vec<Op> {
        self.blocks.pop().unwrap_or_default()
    }

    /// Returns all ops of the function, and the types of its values.
    pub(super) fn finish(mut self) -> (Vec<Op>, Vec<Type>) {
        let body = self.close();
        self.prologue.extend(body);
        (self.prologue, self.values)
    }

    /// Adds an op with a `ui32` scalar as its result at the start of the function, where every region can use the
    /// result.
    fn early(&mut self, kind: OpKind, operands: &[ValueId]) -> Result<ValueId> {
        let result = self.value(Type::Tensor(TensorType::new([], ElementType::Ui32)))?;
        let op = self.op(kind, operands.to_vec(), vec![result]);
        self.prologue.push(op);
        Ok(result)
    }

    /// Returns the constant `n` as a `ui32` scalar.
    pub(super) fn number(&mut self, n: usize) -> Result<ValueId> {
        let n = u32::try_from(n).map_err(|_| CompileError::unsupported(format!("an offset of {n}")))?;
        if let Some(&value) = self.numbers.get(&n) {
            return Ok(value);
        }
        let ty = TensorType::new([], ElementType::Ui32);
        let literal = Literal { ty, data: n.to_le_bytes().to_vec().into(), splat: false };
        let value = self.early(OpKind::Constant(literal), &[])?;
        self.numbers.insert(n, value);
        Ok(value)
    }

    pub(super) fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.early(OpKind::Binary(op), &[a, b])
    }

    /// Returns the position of this partition in the grid.
    fn place(&mut self) -> Result<ValueId> {
        if let Some(place) = self.partition {
            return Ok(place);
        }
        let mut place = self.early(OpKind::PartitionId, &[])?;
        if !self.grid.order.iter().copied().eq(0..self.grid.order.len()) {
            let mut places = vec![0u32; self.grid.order.len()];
            for (at, &partition) in self.grid.order.iter().enumerate() {
                places[partition] = u32::try_from(at).unwrap_or(u32::MAX);
            }
            place = self.lookup(&places, place)?;
        }
        self.partition = Some(place);
        Ok(place)
    }

    /// Looks up this partition's element in a table with one element for each position in the grid. The result is a
    /// `ui32` scalar.
    pub(super) fn at_place(&mut self, table: &[u32]) -> Result<ValueId> {
        let place = self.place()?;
        self.lookup(table, place)
    }

    /// Returns element `at` of a table. Adds the ops to the prologue.
    fn lookup(&mut self, table: &[u32], at: ValueId) -> Result<ValueId> {
        let ty = TensorType::new([size(table.len())?], ElementType::Ui32);
        let data: Vec<u8> = table.iter().flat_map(|n| n.to_le_bytes()).collect();
        let literal = Literal { ty: ty.clone(), data: data.into(), splat: false };
        let table = self.value(Type::Tensor(ty))?;
        let op = self.op(OpKind::Constant(literal), Vec::new(), vec![table]);
        self.prologue.push(op);
        let one = self.value(Type::Tensor(TensorType::new([1], ElementType::Ui32)))?;
        let op = self.op(OpKind::DynamicSlice { slice_sizes: vec![1] }, vec![table, at], vec![one]);
        self.prologue.push(op);
        self.early(OpKind::Reshape, &[one])
    }

    /// Returns the index of this partition's part among the parts along the axes, as a `ui32` scalar.
    pub(super) fn coordinate(&mut self, axes: &[Axis]) -> Result<ValueId> {
        if let Some(&value) = self.coordinates.get(axes) {
            return Ok(value);
        }
        let place = self.place()?;
        let mut total = self.number(0)?;
        for &axis in axes {
            let (stride, extent) = (self.number(self.grid.stride(axis))?, self.grid.sizes[usize::from(axis)]);
            let extent = self.number(extent)?;
            let digit = self.binary(Binary::Divide, place, stride)?;
            let digit = self.binary(Binary::Remainder, digit, extent)?;
            total = self.binary(Binary::Multiply, total, extent)?;
            total = self.binary(Binary::Add, total, digit)?;
        }
        self.coordinates.insert(axes.to_vec(), total);
        Ok(total)
    }

    /// Returns the groups of partitions that differ only along these axes. With `flattened`, returns the groups of
    /// every replica, with flattened IDs.
    fn groups(&self, axes: &[Axis], flattened: bool) -> Result<ReplicaGroups> {
        let groups = self.grid.groups(axes);
        let partitions = self.grid.order.len();
        let replicas = if flattened { self.replicas } else { 1 };
        let of = |replica: usize| groups.iter().map(move |g| g.iter().map(|id| replica * partitions + id).collect());
        replica_groups(&(0..replicas).flat_map(of).collect::<Vec<_>>())
    }

    /// Builds a region that returns `op(a, b)` for scalars.
    fn reducer(&mut self, op: Binary, element: ElementType) -> Result<Region> {
        let scalar = || Type::Tensor(TensorType::new([], element));
        let (a, b, r) = (self.value(scalar())?, self.value(scalar())?, self.value(scalar())?);
        let ops = vec![self.op(OpKind::Binary(op), vec![a, b], vec![r]), self.op(OpKind::Return, vec![r], Vec::new())];
        Ok(Region { args: vec![a, b], ops })
    }

    /// Combines the values of the partitions that differ only along the axes with the binary op `op`.
    pub(super) fn all_reduce(&mut self, value: ValueId, op: Binary, axes: &[Axis]) -> Result<ValueId> {
        let ty = self.tensor(value)?.clone();
        let region = self.reducer(op, ty.element)?;
        let replica_groups = self.groups(axes, true)?;
        let kind = OpKind::AllReduce { channel: CHANNEL, replica_groups, use_global_device_ids: true };
        self.add_with(kind, &[value], ty, vec![region])
    }

    /// Combines a value like [`all_reduce`](Self::all_reduce), but each partition keeps only its part of dimension `d`.
    pub(super) fn reduce_scatter(&mut self, value: ValueId, op: Binary, axes: &[Axis], d: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let region = self.reducer(op, ty.element)?;
        ty.shape[d] /= size(self.grid.parts(axes))?;
        let kind = OpKind::ReduceScatter {
            channel: CHANNEL,
            replica_groups: self.groups(axes, true)?,
            scatter_dimension: d,
            use_global_device_ids: true,
        };
        self.add_with(kind, &[value], ty, vec![region])
    }

    pub(super) fn all_gather(&mut self, value: ValueId, axes: &[Axis], d: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        ty.shape[d] *= size(self.grid.parts(axes))?;
        let kind = OpKind::AllGather {
            all_gather_dim: d,
            channel: CHANNEL,
            replica_groups: self.groups(axes, true)?,
            use_global_device_ids: true,
        };
        self.add(kind, &[value], ty)
    }

    /// Broadcasts a value within each group of partitions that differ only along the axes. The first partition of each
    /// group sends its value.
    pub(super) fn broadcast(&mut self, value: ValueId, axes: &[Axis]) -> Result<ValueId> {
        let ty = self.tensor(value)?.clone();
        self.add(broadcast(self.groups(axes, false)?), &[value], ty)
    }

    /// Broadcasts the value of the given partition to all partitions.
    pub(super) fn broadcast_from(&mut self, value: ValueId, partition: usize) -> Result<ValueId> {
        let ty = self.tensor(value)?.clone();
        let others = (0..self.grid.order.len()).filter(|&other| other != partition);
        let group = std::iter::once(partition).chain(others).collect();
        self.add(broadcast(replica_groups(&[group])?), &[value], ty)
    }

    /// Sends the value of each partition in `from` to the partition at the same index in `to`.
    pub(super) fn permute(&mut self, value: ValueId, from: &[usize], to: &[usize]) -> Result<ValueId> {
        let ty = self.tensor(value)?.clone();
        let pairs = from.iter().zip(to).map(|(&from, &to)| Ok((size(from)?, size(to)?)));
        let source_target_pairs = pairs.collect::<Result<_>>()?;
        self.add(OpKind::CollectivePermute { channel: CHANNEL, source_target_pairs }, &[value], ty)
    }

    /// Returns the value of the partition at the mirrored position along each axis.
    pub(super) fn mirrored(&mut self, value: ValueId, axes: &[Axis]) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(value);
        }
        let opposite = |place: usize| {
            axes.iter().fold(place, |place, &axis| {
                let (size, stride) = (self.grid.sizes[usize::from(axis)], self.grid.stride(axis));
                let digit = place / stride % size;
                place - digit * stride + (size - 1 - digit) * stride
            })
        };
        let to = &self.grid.order;
        let from: Vec<usize> = (0..to.len()).map(|place| to[opposite(place)]).collect();
        self.permute(value, &from, to)
    }

    pub(super) fn all_to_all(&mut self, value: ValueId, axes: &[Axis], split: usize, concat: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let parts = self.grid.parts(axes);
        ty.shape[split] /= size(parts)?;
        ty.shape[concat] *= size(parts)?;
        let kind = OpKind::AllToAll {
            channel: CHANNEL,
            concat_dimension: concat,
            replica_groups: self.groups(axes, false)?,
            split_count: size(parts)?,
            split_dimension: split,
        };
        self.add(kind, &[value], ty)
    }
}

/// Returns an op that broadcasts the value of the first partition of each group.
fn broadcast(replica_groups: ReplicaGroups) -> OpKind {
    OpKind::CollectiveBroadcast { channel: CHANNEL, has_dynamic_root: false, replica_groups }
}

/// Converts groups of IDs to the IR's form.
pub(super) fn replica_groups(groups: &[Vec<usize>]) -> Result<ReplicaGroups> {
    let group = |group: &Vec<usize>| group.iter().map(|&id| size(id)).collect();
    Ok(ReplicaGroups::listed(&groups.iter().map(group).collect::<Result<Vec<Vec<i64>>>>()?))
}
