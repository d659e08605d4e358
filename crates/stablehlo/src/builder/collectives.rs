//! Collectives: ops in which several devices take part.

use std::panic::Location;

use super::function::FunctionBuilder;
use super::options::{Collective, matrix};
use super::state::{At, NewOp, Types};
use super::value::{Value, Values};
use crate::attributes::int;
use crate::error::Result;
use crate::ir::*;

/// The attributes of an op, by name.
type Named = Vec<(&'static str, Attribute)>;

impl FunctionBuilder {
    /// Joins the operands of a group's devices along a dimension. If the number of devices cannot be inferred from the
    /// groups, state the types of the results with [`Self::all_gather_to`].
    ///
    /// # Errors
    ///
    /// If the groups are not valid, or if the result types cannot be inferred.
    #[track_caller]
    pub fn all_gather<V: Values>(&self, operands: V, dimension: usize, collective: Collective) -> Result<V> {
        self.gathered(Location::caller(), operands, dimension, collective, Types::Inferred)
    }

    /// [`Self::all_gather`] with results of these types.
    ///
    /// # Errors
    ///
    /// If the groups are not valid, or if the types do not fit the operands.
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
        let mut attributes = self.collective("all_gather", at, &collective, true)?;
        attributes.push(Self::dimension_attribute("all_gather_dim", dimension));
        self.collective_op("all_gather", at, operands, &attributes, (Vec::new(), types))
    }

    /// Combines the operands of a group's devices. The closure combines two scalars.
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
    /// Those of the closure; if the groups are not valid.
    #[track_caller]
    pub fn all_reduce<V: Values>(
        &self,
        operands: V,
        collective: Collective,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        self.reduced("all_reduce", Location::caller(), operands, &collective, body)
    }

    /// Combines the operands of a group's devices, and cuts the result along a dimension into one part for each device.
    /// If the number of devices cannot be inferred from the groups, state the types of the results with
    /// [`Self::reduce_scatter_to`].
    ///
    /// # Errors
    ///
    /// Those of the closure; if the groups are not valid, if the extent is not a multiple of the number of devices, or
    /// if the result types cannot be inferred.
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

    /// [`Self::reduce_scatter`] with results of these types.
    ///
    /// # Errors
    ///
    /// Those of the closure; if the groups are not valid, or if the types do not fit the operands.
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
        let mut attributes = self.collective("reduce_scatter", at, &collective, true)?;
        attributes.push(Self::dimension_attribute("scatter_dimension", dimension));
        let region = self.common_reducer("reduce_scatter", at, &operands, body)?;
        self.collective_op("reduce_scatter", at, operands, &attributes, (vec![region], types))
    }

    /// Cuts the operands along a dimension into `split_count` parts, sends a part to each device of the group, and joins
    /// the received parts along another dimension.
    ///
    /// # Errors
    ///
    /// If the groups do not have `split_count` devices each, or if the extent is not a multiple of it.
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
        let mut attributes = self.collective("all_to_all", at, &collective, false)?;
        attributes.push(Self::dimension_attribute("split_dimension", split_dimension));
        attributes.push(Self::dimension_attribute("concat_dimension", concat_dimension));
        attributes.push(("split_count", int(split_count)));
        self.collective_op("all_to_all", at, operands, &attributes, (Vec::new(), Types::Inferred))
    }

    /// Sends the operand from the source to the target of each pair of devices. Devices that receive nothing get zeros.
    /// The channel id is positive if partitions communicate, and otherwise 0.
    ///
    /// # Errors
    ///
    /// If a device occurs twice as a source or as a target.
    #[track_caller]
    pub fn collective_permute<V: Values>(&self, operands: V, pairs: &[[i64; 2]], channel_id: i64) -> Result<V> {
        let at = Location::caller();
        let pairs = matrix(pairs).map_err(|e| self.place(e, "stablehlo.collective_permute", at))?;
        let attributes = [("source_target_pairs", pairs), ("channel_id", int(channel_id))];
        self.collective_op("collective_permute", at, operands, &attributes, (Vec::new(), Types::Inferred))
    }

    /// Sends the operand of the first device of each group to the others.
    ///
    /// # Errors
    ///
    /// If the groups are not valid.
    #[track_caller]
    pub fn collective_broadcast<V: Values>(&self, operands: V, collective: Collective) -> Result<V> {
        let at = Location::caller();
        let attributes = self.collective("collective_broadcast", at, &collective, false)?;
        self.collective_op("collective_broadcast", at, operands, &attributes, (Vec::new(), Types::Inferred))
    }

    /// Combines the operands of a group's devices on the first device of the group.
    ///
    /// # Errors
    ///
    /// Those of the closure; if the groups are not valid.
    #[track_caller]
    pub fn collective_reduce<V: Values>(
        &self,
        operands: V,
        collective: Collective,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        self.reduced("collective_reduce", Location::caller(), operands, &collective, body)
    }

    /// An op that combines the operands of a group's devices and keeps their types.
    fn reduced<V: Values>(
        &self,
        op: &str,
        at: At,
        operands: V,
        collective: &Collective,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<V> {
        let attributes = self.collective(op, at, collective, true)?;
        let region = self.common_reducer(op, at, &operands, body)?;
        self.collective_op(op, at, operands, &attributes, (vec![region], Types::Inferred))
    }

    fn collective(&self, op: &str, at: At, collective: &Collective, global: bool) -> Result<Named> {
        let mut attributes = collective.attributes().map_err(|e| self.place(e, &format!("stablehlo.{op}"), at))?;
        if global {
            attributes.push(("use_global_device_ids", Attribute::Bool(collective.use_global_device_ids)));
        } else if collective.use_global_device_ids {
            return Err(self.error(op, at, "the op does not have the attribute `use_global_device_ids`"));
        }
        Ok(attributes)
    }

    /// A reducer that is used for all operands. It takes two scalars of the first operand's type.
    fn common_reducer<V: Values>(
        &self,
        op: &str,
        at: At,
        operands: &V,
        body: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<Region> {
        match operands.to_values().first() {
            Some(first) => self.reducer(&format!("stablehlo.{op}"), at, first, first, body),
            None => Err(self.error(op, at, "must have at least one operand")),
        }
    }

    fn collective_op<V: Values>(
        &self,
        op: &str,
        at: At,
        operands: V,
        attributes: &[(&str, Attribute)],
        (regions, types): (Vec<Region>, Types),
    ) -> Result<V> {
        let values = operands.to_values();
        let kind = self.kind(at, op, attributes, &values)?;
        let new = NewOp { kind, regions, attributes: Attributes::new(), types };
        self.structured(op, at, values, new, &operands)
    }
}
