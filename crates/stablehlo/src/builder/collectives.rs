//! Collectives: ops in which several devices communicate.

use std::panic::Location;

use super::function::FunctionBuilder;
use super::options::Collective;
use super::state::{At, NewOp, Types};
use super::value::{Value, Values};
use crate::error::{ErrorKind, Result};
use crate::ir::*;

impl FunctionBuilder {
    /// Concatenates the values of an operand from all devices of a group along `dimension`. If the number of devices in
    /// a group cannot be inferred, use [`Self::all_gather_to`] and pass the types of the results.
    ///
    /// # Errors
    ///
    /// Returns an error if the groups are not valid, or if the result types cannot be inferred.
    #[track_caller]
    pub fn all_gather<V: Values>(&self, operands: V, dimension: usize, collective: Collective) -> Result<V> {
        self.gathered(Location::caller(), operands, dimension, collective, Types::Inferred)
    }

    /// Works like [`Self::all_gather`], but takes the types of the results instead of inferring them.
    ///
    /// # Errors
    ///
    /// Returns an error if the groups are not valid, or if the types do not fit the operands.
    #[track_caller]
    pub fn all_gather_to<V: Values>(
        &self,
        operands: V,
        dimension: usize,
        collective: Collective,
        results: impl IntoIterator<Item = Type>,
    ) -> Result<V> {
        let types = Types::Stated(results.into_iter().collect());
        self.gathered(Location::caller(), operands, dimension, collective, types)
    }

    fn gathered<V: Values>(
        &self,
        at: At,
        operands: V,
        dimension: usize,
        collective: Collective,
        types: Types,
    ) -> Result<V> {
        let kind = OpKind::AllGather {
            all_gather_dim: dimension,
            channel: collective.channel(),
            replica_groups: collective.replica_groups(),
            use_global_device_ids: collective.use_global_device_ids,
        };
        self.collective_op(at, operands, kind, (Vec::new(), types))
    }

    /// Combines the operands of all devices in a group elementwise. The closure adds the ops that combine two scalars.
    ///
    /// ```
    /// use stablehlo::builder::{Collective, ModuleBuilder};
    /// use stablehlo::ir::{ElementType, TensorType};
    ///
    /// let module = ModuleBuilder::new("sum_of_gradients");
    /// module.replicas(2).partitions(1);
    /// module.function("main", |f| {
    ///     let gradient = f.argument(TensorType::new([4], ElementType::F32))?;
    ///     f.all_reduce(gradient, Collective::groups([[0, 1]]), |a, b| f.add(a, b))
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, or if the groups are not valid.
    #[track_caller]
    pub fn all_reduce<V: Values>(
        &self,
        operands: V,
        collective: Collective,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        let kind = OpKind::AllReduce {
            channel: collective.channel(),
            replica_groups: collective.replica_groups(),
            use_global_device_ids: collective.use_global_device_ids,
        };
        self.reduced(Location::caller(), operands, kind, Types::Inferred, body)
    }

    /// Combines the operands of all devices in a group elementwise, and splits the result along a dimension into one
    /// slice for each device. If the number of devices in a group cannot be inferred, use [`Self::reduce_scatter_to`]
    /// and pass the types of the results.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, if the groups are not valid, if the extent of `dimension` is
    /// not a multiple of the number of devices in a group, or if the result types cannot be inferred.
    #[track_caller]
    pub fn reduce_scatter<V: Values>(
        &self,
        operands: V,
        dimension: usize,
        collective: Collective,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        self.scattered(Location::caller(), operands, dimension, collective, Types::Inferred, body)
    }

    /// Works like [`Self::reduce_scatter`], but takes the types of the results instead of inferring them.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, if the groups are not valid, or if the types do not fit the
    /// operands.
    #[track_caller]
    pub fn reduce_scatter_to<V: Values>(
        &self,
        operands: V,
        dimension: usize,
        collective: Collective,
        results: impl IntoIterator<Item = Type>,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        let types = Types::Stated(results.into_iter().collect());
        self.scattered(Location::caller(), operands, dimension, collective, types, body)
    }

    fn scattered<V: Values>(
        &self,
        at: At,
        operands: V,
        dimension: usize,
        collective: Collective,
        types: Types,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        let kind = OpKind::ReduceScatter {
            channel: collective.channel(),
            replica_groups: collective.replica_groups(),
            scatter_dimension: dimension,
            use_global_device_ids: collective.use_global_device_ids,
        };
        self.reduced(at, operands, kind, types, body)
    }

    /// Splits the operands along a dimension into `split_count` slices, sends one slice to each device of the group,
    /// and concatenates the received slices along `concat_dimension`.
    ///
    /// # Errors
    ///
    /// Returns an error if the groups do not have `split_count` devices each, if the extent of the split dimension is
    /// not a multiple of `split_count`, or if `collective` uses global device ids.
    #[track_caller]
    pub fn all_to_all<V: Values>(
        &self,
        operands: V,
        split_dimension: usize,
        concat_dimension: usize,
        split_count: i64,
        collective: Collective,
    ) -> Result<V> {
        let at = Location::caller();
        self.without_global_ids("all_to_all", at, &collective)?;
        let (channel, replica_groups) = (collective.channel(), collective.replica_groups());
        let kind = OpKind::AllToAll { channel, concat_dimension, replica_groups, split_count, split_dimension };
        self.collective_op(at, operands, kind, (Vec::new(), Types::Inferred))
    }

    /// Sends the operand from the source to the target of each pair of devices. On a device that is not a target, the
    /// result is zero. Pass a positive channel id if the pairs contain partition ids, and 0 if the pairs contain
    /// replica ids.
    ///
    /// # Errors
    ///
    /// Returns an error if a device occurs twice as a source or twice as a target.
    #[track_caller]
    pub fn collective_permute<V: Values>(&self, operands: V, pairs: &[[i64; 2]], channel_id: i64) -> Result<V> {
        let source_target_pairs = pairs.iter().map(|&[source, target]| (source, target)).collect();
        let kind = OpKind::CollectivePermute { channel: ChannelHandle::new(channel_id), source_target_pairs };
        self.collective_op(Location::caller(), operands, kind, (Vec::new(), Types::Inferred))
    }

    /// Sends the operand of the first device of each group to the other devices of the group.
    ///
    /// # Errors
    ///
    /// Returns an error if the groups are not valid, or if `collective` uses global device ids.
    #[track_caller]
    pub fn collective_broadcast<V: Values>(&self, operands: V, collective: Collective) -> Result<V> {
        let at = Location::caller();
        self.without_global_ids("collective_broadcast", at, &collective)?;
        let (channel, replica_groups) = (collective.channel(), collective.replica_groups());
        let kind = OpKind::CollectiveBroadcast { channel, has_dynamic_root: false, replica_groups };
        self.collective_op(at, operands, kind, (Vec::new(), Types::Inferred))
    }

    /// Combines the operands of all devices in a group elementwise. Only the first device of the group gets the result.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, or if the groups are not valid.
    #[track_caller]
    pub fn collective_reduce<V: Values>(
        &self,
        operands: V,
        collective: Collective,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        let kind = OpKind::CollectiveReduce {
            channel: collective.channel(),
            has_dynamic_root: false,
            replica_groups: collective.replica_groups(),
            use_global_device_ids: collective.use_global_device_ids,
        };
        self.reduced(Location::caller(), operands, kind, Types::Inferred, body)
    }

    /// Adds an op that combines the operands of all devices in a group. All operands share one reducer, which takes two
    /// scalars of the first operand's element type.
    fn reduced<V: Values>(
        &self,
        at: At,
        operands: V,
        kind: OpKind,
        types: Types,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        let region = match operands.to_values().first() {
            Some(first) => self.reducer(&kind.name(), at, first, first, body)?,
            None => {
                return Err(self.error(ErrorKind::Structure, kind.base_name(), at, "must have at least one operand"));
            }
        };
        self.collective_op(at, operands, kind, (vec![region], types))
    }

    fn without_global_ids(&self, op: &str, at: At, collective: &Collective) -> Result<()> {
        if collective.use_global_device_ids {
            return Err(self.error(
                ErrorKind::Attribute,
                op,
                at,
                "the op does not have the attribute `use_global_device_ids`",
            ));
        }
        Ok(())
    }

    fn collective_op<V: Values>(
        &self,
        at: At,
        operands: V,
        kind: OpKind,
        (regions, types): (Vec<Region>, Types),
    ) -> Result<V> {
        let name = kind.base_name();
        let new = NewOp { kind, regions, attributes: Attributes::new(), types };
        self.structured(name, at, operands.to_values(), new, &operands)
    }
}
