//! Ops with regions. Closures build the regions.

use std::panic::Location;

use super::function::FunctionBuilder;
use super::options::{Scatter, WindowOptions};
use super::state::{At, NewOp, Types};
use super::value::{Value, Values};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Returns the type of a scalar that has the element type of the tensor type `ty`. Returns an error if `ty` is not a
/// tensor type.
fn scalar_of(ty: &Type) -> Result<Type> {
    match ty {
        Type::Tensor(tensor) => Ok(TensorType::new([], tensor.element).into()),
        Type::Other(text) if text.starts_with("tensor<") => {
            let start = text.find('!').unwrap_or("tensor<".len());
            Ok(Type::Other(format!("tensor<{}", &text[start..])))
        }
        other => Err(Error::new(ErrorKind::Type, format_args!("operands must be tensors, not {other}"))),
    }
}

fn new_op(kind: OpKind, regions: Vec<Region>) -> NewOp {
    NewOp { kind, regions, attributes: Attributes::new(), types: Types::Inferred }
}

impl FunctionBuilder {
    /// Reduces tensors along these dimensions. The closure combines two scalars for each input. `init` contains a
    /// scalar initial value for each input. The op accumulates in the type of the initial value.
    ///
    /// ```
    /// use stablehlo::builder::ModuleBuilder;
    /// use stablehlo::ir::{ElementType, TensorType};
    ///
    /// let module = ModuleBuilder::new("sums");
    /// module.function("main", |f| {
    ///     let x = f.argument(TensorType::new([2, 3], ElementType::F32))?;
    ///     let zero = f.constant(0f32)?;
    ///     let sum = f.reduce(x, zero, &[1], |a, b| f.add(a, b))?;
    ///     // Several inputs: the sums of `x` and of its squares.
    ///     let squares = f.multiply(x, x)?;
    ///     let sums = f.reduce([x, squares], [zero, zero], &[0, 1], |a, b| {
    ///         Ok([f.add(a[0], b[0])?, f.add(a[1], b[1])?])
    ///     })?;
    ///     Ok((sum, sums))
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, or if the types of the inputs, the initial values and the
    /// closure's results do not match.
    #[track_caller]
    pub fn reduce<V: Values>(
        &self,
        inputs: V,
        init: V,
        dimensions: &[usize],
        body: impl FnOnce(V, V) -> Result<V>,
    ) -> Result<V> {
        let at = Location::caller();
        let region = self.reducer("stablehlo.reduce", at, &init, &init, body)?;
        let new = new_op(OpKind::Reduce { dimensions: dimensions.into() }, vec![region]);
        self.structured("stablehlo.reduce", at, [inputs.to_values(), init.to_values()].concat(), new, &inputs)
    }

    /// Reduces the elements at each position of a sliding window. See [`Self::reduce`].
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Self::reduce`], and if the window does not fit the inputs.
    #[track_caller]
    pub fn reduce_window<V: Values>(
        &self,
        inputs: V,
        init: V,
        window: WindowOptions,
        body: impl FnOnce(V, V) -> Result<V>,
    ) -> Result<V> {
        let at = Location::caller();
        let region = self.reducer("stablehlo.reduce_window", at, &init, &init, body)?;
        let new = new_op(OpKind::ReduceWindow { window: Box::new(window.window) }, vec![region]);
        self.structured("stablehlo.reduce_window", at, [inputs.to_values(), init.to_values()].concat(), new, &inputs)
    }

    /// Applies the closure to the elements of tensors of the same shape. The closure takes a scalar for each operand.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, or if the shapes of the operands differ.
    #[track_caller]
    pub fn map<V: Values>(&self, operands: V, body: impl FnOnce(V) -> Result<Value>) -> Result<Value> {
        let at = Location::caller();
        let values = operands.to_values();
        let types = self.types_of("stablehlo.map", at, &values)?;
        let rank = types.first().and_then(Type::as_tensor).map_or(0, TensorType::rank);
        let scalars = self.scalars("stablehlo.map", at, &types)?;
        let region = self.region("stablehlo.map", at, scalars, |args| {
            let args = self.rebuilt("stablehlo.map", at, &operands, args)?;
            Ok((vec![body(args)?], ()))
        })?;
        let kind = OpKind::Map { dimensions: (0..rank).collect() };
        self.single(at, &values, new_op(kind, vec![region.0]))
    }

    /// Sorts tensors along a dimension. The closure compares two positions. It takes the scalars of all operands at the
    /// first position and at the second position, and returns whether the first position sorts before the second.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error or does not return a boolean, or if the shapes of the operands
    /// differ.
    #[track_caller]
    pub fn sort<V: Values>(
        &self,
        operands: V,
        dimension: usize,
        is_stable: bool,
        comparator: impl FnOnce(V, V) -> Result<Value>,
    ) -> Result<V> {
        let at = Location::caller();
        let values = operands.to_values();
        let types = self.types_of("stablehlo.sort", at, &values)?;
        let scalars = self.scalars("stablehlo.sort", at, &types)?;
        // The comparator takes the two scalars of an operand as adjacent arguments.
        let pairs = scalars.into_iter().flat_map(|ty| [ty.clone(), ty]).collect();
        let region = self.region("stablehlo.sort", at, pairs, |args| {
            let (first, second) = (args.iter().step_by(2), args.iter().skip(1).step_by(2));
            let first = self.rebuilt("stablehlo.sort", at, &operands, first.copied().collect())?;
            let second = self.rebuilt("stablehlo.sort", at, &operands, second.copied().collect())?;
            Ok((vec![comparator(first, second)?], ()))
        })?;
        let new = new_op(OpKind::Sort { dimension, is_stable }, vec![region.0]);
        self.structured("stablehlo.sort", at, values, new, &operands)
    }

    /// Combines windows of the inputs with updates. For each input, the closure takes the current scalar of the input
    /// and a scalar of the update, and returns the new scalar.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, or if the dimension numbers do not fit the inputs, indices and
    /// updates.
    #[track_caller]
    pub fn scatter<V: Values>(
        &self,
        inputs: V,
        indices: Value,
        updates: V,
        options: Scatter,
        body: impl FnOnce(V, V) -> Result<V>,
    ) -> Result<V> {
        let at = Location::caller();
        let region = self.reducer("stablehlo.scatter", at, &inputs, &updates, body)?;
        let kind = OpKind::Scatter {
            dimensions: Box::new(options.dimensions),
            indices_are_sorted: options.indices_are_sorted,
            unique_indices: options.unique_indices,
        };
        let operands = [inputs.to_values(), vec![indices], updates.to_values()].concat();
        self.structured("stablehlo.scatter", at, operands, new_op(kind, vec![region]), &inputs)
    }

    /// Selects one element of each window of `operand`. Combines the element of `source` for this window with the
    /// result's element at the selected position. `select` takes two elements and returns whether to keep the first.
    /// `scatter` combines the current element of the result, which is initially `init`, with an element of `source`.
    ///
    /// # Errors
    ///
    /// Returns an error if a closure returns an error, or if `source` does not have one element for each position of
    /// the window.
    #[track_caller]
    pub fn select_and_scatter(
        &self,
        operand: Value,
        source: Value,
        init: Value,
        window: WindowOptions,
        select: impl FnOnce(Value, Value) -> Result<Value>,
        scatter: impl FnOnce(Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let (at, name) = (Location::caller(), "stablehlo.select_and_scatter");
        let select = self.reducer(name, at, &operand, &operand, select)?;
        let scatter = self.reducer(name, at, &init, &init, scatter)?;
        let new = new_op(OpKind::SelectAndScatter { window: Box::new(window.window) }, vec![select, scatter]);
        self.single(at, &[operand, source, init], new)
    }

    /// Repeats `body` while `condition` returns true. Both closures take the loop-carried values, which are initially
    /// `init`. `body` returns their next values.
    ///
    /// ```
    /// use stablehlo::builder::ModuleBuilder;
    /// use stablehlo::ir::{ComparisonDirection, ElementType, TensorType};
    ///
    /// let module = ModuleBuilder::new("power");
    /// module.function("main", |f| {
    ///     let x = f.argument(TensorType::new([], ElementType::F32))?;
    ///     let ten = f.constant(10i32)?;
    ///     let (_, result) = f.while_(
    ///         (f.constant(0i32)?, f.constant(1f32)?),
    ///         |(i, _)| f.compare(i, ComparisonDirection::Lt, ten),
    ///         |(i, power)| Ok((f.add(i, f.constant(1i32)?)?, f.multiply(power, x)?)),
    ///     )?;
    ///     Ok(result)
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a closure returns an error, if `condition` does not return a boolean, or if the values that
    /// `body` returns do not have the types of `init`.
    #[track_caller]
    pub fn while_<V: Values>(
        &self,
        init: V,
        condition: impl FnOnce(V) -> Result<Value>,
        body: impl FnOnce(V) -> Result<V>,
    ) -> Result<V> {
        let (at, name) = (Location::caller(), "stablehlo.while");
        let values = init.to_values();
        let types = self.types_of(name, at, &values)?;
        let (condition, ()) = self
            .region(name, at, types.clone(), |args| Ok((vec![condition(self.rebuilt(name, at, &init, args)?)?], ())))?;
        let (body, ()) =
            self.region(name, at, types, |args| Ok((body(self.rebuilt(name, at, &init, args)?)?.to_values(), ())))?;
        self.structured(name, at, values, new_op(OpKind::While, vec![condition, body]), &init)
    }

    /// Executes one of two branches. Both branches return values of the same types.
    ///
    /// # Errors
    ///
    /// Returns an error if a closure returns an error, if the predicate is not a boolean scalar, or if the branches
    /// return different types.
    #[track_caller]
    pub fn if_<V: Values>(
        &self,
        predicate: Value,
        on_true: impl FnOnce() -> Result<V>,
        on_false: impl FnOnce() -> Result<V>,
    ) -> Result<V> {
        let (at, name) = (Location::caller(), "stablehlo.if");
        let branch = |values: V| (values.to_values(), values);
        let (first, form) = self.region(name, at, Vec::new(), |_| on_true().map(branch))?;
        let (second, _) = self.region(name, at, Vec::new(), |_| on_false().map(branch))?;
        self.structured(name, at, vec![predicate], new_op(OpKind::If, vec![first, second]), &form)
    }

    /// Executes one of `branches` branches. `index` is a scalar of type `i32` that selects the branch. If it is out of
    /// range, the last branch is executed. The closure receives the index of a branch and builds that branch.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, if `branches` is 0, or if the branches return different types.
    #[track_caller]
    pub fn case<V: Values>(
        &self,
        index: Value,
        branches: usize,
        mut branch: impl FnMut(usize) -> Result<V>,
    ) -> Result<V> {
        let (at, name) = (Location::caller(), "stablehlo.case");
        let mut regions = Vec::with_capacity(branches);
        let mut form = None;
        for number in 0..branches {
            let (region, values) = self.region(name, at, Vec::new(), |_| {
                let values = branch(number)?;
                Ok((values.to_values(), values))
            })?;
            regions.push(region);
            form.get_or_insert(values);
        }
        let Some(form) = form else {
            return Err(self.error(ErrorKind::Structure, "case", at, "must have at least one branch"));
        };
        self.structured(name, at, vec![index], new_op(OpKind::Case, regions), &form)
    }

    /// Starts an asynchronous op, which is a collective or a slice that the closure adds. Returns a future, which is
    /// the operand of [`Self::async_done`].
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, or if it does not add exactly one collective or slice.
    #[track_caller]
    pub fn async_start<V: Values>(&self, operands: V, body: impl FnOnce(V) -> Result<V>) -> Result<Value> {
        let (at, name) = (Location::caller(), "stablehlo.async_start");
        let values = operands.to_values();
        let types = self.types_of(name, at, &values)?;
        let (region, types) = self.region(name, at, types, |args| {
            let returned = body(self.rebuilt(name, at, &operands, args)?)?.to_values();
            let types = self.types_of(name, at, &returned)?;
            Ok((returned, types))
        })?;
        let future = Type::Other(format!("!stablehlo.future<{}>", crate::compatible::list(&types)));
        let types = Types::one(future);
        let new = NewOp { kind: OpKind::AsyncStart, regions: vec![region], attributes: Attributes::new(), types };
        self.single(at, &values, new)
    }

    /// Waits for an asynchronous op, and returns its results.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand is not a future.
    #[track_caller]
    pub fn async_done(&self, future: Value) -> Result<Vec<Value>> {
        let at = Location::caller();
        let new = new_op(OpKind::AsyncDone, Vec::new());
        Ok(self.push_op(at, &[future], new)?.into_vec())
    }

    /// Builds a region that takes one scalar for each tensor in `first`, and then one scalar for each tensor in
    /// `second`.
    pub(super) fn reducer<V: Values, R: Values>(
        &self,
        op: &str,
        at: At,
        first: &V,
        second: &V,
        body: impl FnOnce(V, V) -> Result<R>,
    ) -> Result<Region> {
        let (lhs, rhs) = (first.to_values(), second.to_values());
        let both = self.types_of(op, at, &[&lhs[..], &rhs].concat())?;
        let scalars = self.scalars(op, at, &both)?;
        let (region, ()) = self.region(op, at, scalars, |mut args| {
            let second_half = args.split_off(lhs.len().min(args.len()));
            let (lhs, rhs) = (self.rebuilt(op, at, first, args)?, self.rebuilt(op, at, second, second_half)?);
            Ok((body(lhs, rhs)?.to_values(), ()))
        })?;
        Ok(region)
    }

    pub(super) fn scalars(&self, op: &str, at: At, types: &[Type]) -> Result<Vec<Type>> {
        types.iter().map(scalar_of).collect::<Result<_>>().map_err(|e| self.place(e, op, at))
    }

    /// Creates a structure of the same form as `form` from these values. An implementation of [`Values`] that is not
    /// consistent causes an error.
    pub(super) fn rebuilt<V: Values>(&self, op: &str, at: At, form: &V, values: Vec<Value>) -> Result<V> {
        form.rebuild(&mut values.into_iter()).ok_or_else(|| {
            let error = Error::new(
                ErrorKind::Structure,
                "`Values::rebuild` must accept as many values as `Values::flatten` returns",
            );
            self.place(error, op, at)
        })
    }

    /// Adds an op, and returns its results as a structure of the same form as `form`.
    pub(super) fn structured<V: Values>(
        &self,
        op: &str,
        at: At,
        operands: Vec<Value>,
        new: NewOp,
        form: &V,
    ) -> Result<V> {
        let results = self.push_op(at, &operands, new)?;
        self.rebuilt(op, at, form, results.into_vec())
    }
}
