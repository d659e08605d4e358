//! A function under construction: arguments, regions and results. The sibling modules contain the methods that add the
//! ops of StableHLO.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::annotations::{Argument, Output};
use super::state::{At, NewOp, Results, State, Types};
use super::value::{Value, Values};
use crate::attributes::Named;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{self, *};
use crate::op_builder::{UntypedOp, kind};
use crate::ops::Opcode;

/// Builds one function. The methods that add ops have the names of StableHLO's ops in snake case.
///
/// Each of these methods checks its op and infers the types of the results. If the op is not valid, the method returns
/// an error that names the op and the caller's source location. The method also records the caller's source location as
/// the location of the op. If a function of yours has the attribute `#[track_caller]`, the ops that it adds get the
/// location of its caller.
///
/// The methods take `&self`, so calls can be nested. The closures that build regions can use the builder and the values
/// from outside the region.
///
/// ```
/// use stablehlo::builder::ModuleBuilder;
/// use stablehlo::ir::{ElementType, TensorType};
///
/// let module = ModuleBuilder::new("example");
/// module.function("main", |f| {
///     let x = f.argument(TensorType::new([2, 3], ElementType::F32))?;
///     let half = f.splat(0.5f32, &[2, 3])?;
///     let y = f.tanh(f.multiply(x, half)?)?;
///     // The sum of each row.
///     f.reduce(y, f.constant(0f32)?, &[1], |a, b| f.add(a, b))
/// })?;
/// let module = module.build()?;
/// assert_eq!(module.funcs[0].results[0].to_string(), "tensor<2xf32>");
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// [`ModuleBuilder::function`](super::ModuleBuilder::function) creates a builder, passes it to a closure and adds the
/// finished function. A framework that records ops one at a time can own the builder instead. Create the builder with
/// [`Self::new`], and pass the [`FinishedFunction`] from [`Self::finish`] to
/// [`ModuleBuilder::add`](super::ModuleBuilder::add).
#[derive(Debug)]
pub struct FunctionBuilder {
    name: String,
    state: RefCell<State>,
    outputs: RefCell<Vec<Attributes>>,
    public: Cell<bool>,
    numpy: Cell<bool>,
    /// Whether ops and errors have the places of the Rust code that adds the ops.
    pub(super) is_placed: bool,
}

/// A finished function, which [`ModuleBuilder::add`](super::ModuleBuilder::add) adds to a module.
#[derive(Clone, Debug)]
pub struct FinishedFunction {
    pub(super) func: Func,
    pub(super) locations: Vec<ir::Location>,
    pub(super) is_placed: bool,
}

/// Id of the next function builder in this process. No function has the id 0.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl FunctionBuilder {
    /// Creates a public function with this symbol name.
    #[track_caller]
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            state: RefCell::new(State::new(number, name.clone(), Location::caller())),
            name,
            outputs: RefCell::new(Vec::new()),
            public: Cell::new(true),
            numpy: Cell::new(false),
            is_placed: true,
        }
    }

    /// Returns the symbol name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the function private, so that only other functions of the module can call it.
    pub fn private(&self) -> &Self {
        self.public.set(false);
        self
    }

    /// Enables or disables NumPy-style broadcasting of elementwise ops, `compare`, `select`, `clamp` and
    /// `fma`. If broadcasting is enabled, these ops broadcast operands of different shapes as
    /// [`Self::broadcast_shapes`] does. It is disabled by default, as in StableHLO.
    pub fn numpy_broadcasting(&self, on: bool) -> &Self {
        self.numpy.set(on);
        self
    }

    #[cfg(feature = "text")]
    pub(super) fn state(&self) -> &RefCell<State> {
        &self.state
    }

    /// Returns whether NumPy-style broadcasting is enabled.
    pub(super) fn broadcasts(&self) -> bool {
        self.numpy.get()
    }

    /// Adds an argument. Pass a type, or an [`Argument`] with attributes such as donation and sharding.
    ///
    /// # Errors
    ///
    /// Returns an error if the type is not valid, for example because an extent is negative.
    #[track_caller]
    pub fn argument(&self, argument: impl Into<Argument>) -> Result<Value> {
        let (ty, attributes) = argument.into().into_parts();
        let at = Location::caller();
        self.state.borrow_mut().argument(ty, attributes).map_err(|e| self.place(e, "func.func", at))
    }

    /// Sets the attributes of the result with this index, such as its sharding.
    pub fn output(&self, index: usize, output: Output) -> &Self {
        let mut outputs = self.outputs.borrow_mut();
        if outputs.len() <= index {
            outputs.resize(index + 1, Attributes::new());
        }
        outputs[index] = output.into_attributes();
        self
    }

    /// Returns the type of a value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value belongs to another function or is not in scope.
    #[track_caller]
    pub fn ty(&self, value: Value) -> Result<Arc<Type>> {
        let at = Location::caller();
        self.state.borrow().ty(value).cloned().map_err(|e| self.place(e, "type", at))
    }

    /// Returns the type of a value that is a tensor.
    ///
    /// # Errors
    ///
    /// Returns an error if the value belongs to another function or is not in scope, or if it is not a tensor of an
    /// [`ElementType`](ir::ElementType).
    #[track_caller]
    pub fn tensor_type(&self, value: Value) -> Result<TensorType> {
        self.tensor_of("type", Location::caller(), value)
    }

    /// Returns the type of `value`, which must be a tensor. Errors name the op `op`, which is about to be added, and
    /// the caller's source location `at`.
    pub(super) fn tensor_of(&self, op: &str, at: At, value: Value) -> Result<TensorType> {
        let state = self.state.borrow();
        let ty = state.ty(value).and_then(|ty| match &**ty {
            Type::Tensor(tensor) => Ok(tensor.clone()),
            other => Err(Error::new(ErrorKind::Type, format_args!("the operand must be a tensor, not {other}"))),
        });
        ty.map_err(|e| self.place(e, op, at))
    }

    /// Returns the types of `values`. Errors name the op `op`, which is about to be added, and the caller's source
    /// location `at`.
    pub(super) fn types_of(&self, op: &str, at: At, values: &[Value]) -> Result<Vec<Type>> {
        let state = self.state.borrow();
        let ids = state.resolve(values).map_err(|e| self.place(e, op, at))?;
        Ok(ids.iter().map(|&id| state.func.ty(id).clone()).collect())
    }

    /// Adds a name to the source locations of the ops that the closure adds. The names of nested scopes are joined with
    /// `/`.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error.
    pub fn named<R>(&self, name: &str, body: impl FnOnce() -> Result<R>) -> Result<R> {
        self.state.borrow_mut().enter(name);
        let guard = Guard { state: &self.state, depth: None };
        let result = body();
        drop(guard);
        result
    }

    /// Sets an attribute of the op that produced a value, such as `mhlo.frontend_attributes` or `result_accuracy`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is an argument, belongs to another function or is not in scope, or if the op does
    /// not allow the attribute.
    #[track_caller]
    pub fn set_attribute(&self, value: Value, name: &str, attribute: Attribute) -> Result<()> {
        let at = Location::caller();
        self.state.borrow_mut().set_attribute(value, name, attribute).map_err(|e| self.place(e, "set_attribute", at))
    }

    /// Adds an op, given its kind, operands and result types. Use this method for an op of another dialect, or to set
    /// result types that differ from the inferred types.
    ///
    /// # Errors
    ///
    /// Returns an error if the op violates the specification.
    #[track_caller]
    pub fn op(&self, kind: OpKind, operands: &[Value], results: impl IntoIterator<Item = Type>) -> Result<Vec<Value>> {
        let types = Types::Stated(results.into_iter().collect());
        let new = NewOp { kind, regions: Vec::new(), attributes: Attributes::new(), types };
        Ok(self.push_op(Location::caller(), operands, new)?.into_vec())
    }

    /// Finishes the function with these results.
    ///
    /// # Errors
    ///
    /// Returns an error if a result belongs to another function or is not in scope, or if [`Self::output`] was called
    /// for a result that does not exist.
    #[track_caller]
    pub fn finish(self, results: impl Values) -> Result<FinishedFunction> {
        let at = Location::caller();
        let results = results.to_values();
        let (name, public, is_placed) = (self.name, self.public.get(), self.is_placed);
        let outputs = self.outputs.into_inner();
        if outputs.len() > results.len() {
            let error = Error::new(
                ErrorKind::Structure,
                format_args!(
                    "`output` sets attributes of result {}, but the function returns {} values",
                    outputs.len() - 1,
                    results.len()
                ),
            );
            return Err(placed(error, "func.return", &name, is_placed.then_some(at)));
        }
        let finished = self.state.into_inner().finish(at, &results, outputs);
        let (mut func, locations) = finished.map_err(|e| placed(e, "func.return", &name, is_placed.then_some(at)))?;
        func.public = public;
        Ok(FinishedFunction { func, locations, is_placed })
    }

    /// Adds the op, its function and the caller's location to an error, unless they are already set.
    pub(super) fn place(&self, error: Error, op: &str, at: At) -> Error {
        placed(error, op, &self.name, self.is_placed.then_some(at))
    }

    /// Creates an error for the StableHLO op `op`, which is about to be added. `at` is the caller's source location.
    #[cold]
    pub(super) fn error(&self, kind: ErrorKind, op: &str, at: At, message: impl std::fmt::Display) -> Error {
        self.place(Error::new(kind, message), &format!("stablehlo.{op}"), at)
    }

    /// Adds an op to the innermost open region, and returns its results.
    pub(super) fn push_op(&self, at: At, operands: &[Value], new: NewOp) -> Result<Results> {
        self.state.borrow_mut().add(at, operands, new).map_err(|e| self.place(e, "op", at))
    }

    /// Adds an elementwise op. `bit` is the bit of the op in [`State`]'s sets of valid elementwise ops.
    pub(super) fn add_elementwise(&self, at: At, operands: &[Value], kind: OpKind, bit: usize) -> Result<Value> {
        let results = self.state.borrow_mut().elementwise(at, operands, kind, bit);
        results.map(|results| results[0]).map_err(|e| self.place(e, "op", at))
    }

    /// Adds an op that has no regions, and returns its first result. Returns an error if the op has no result.
    pub(super) fn one(&self, at: At, kind: OpKind, operands: &[Value], types: Types) -> Result<Value> {
        let new = NewOp { kind, regions: Vec::new(), attributes: Attributes::new(), types };
        self.single(at, operands, new)
    }

    /// Adds an op, and returns its first result. Returns an error if the op has no result.
    pub(super) fn single(&self, at: At, operands: &[Value], new: NewOp) -> Result<Value> {
        let results = self.push_op(at, operands, new)?;
        results
            .first()
            .copied()
            .ok_or_else(|| self.place(Error::new(ErrorKind::Structure, "the op has no result"), "op", at))
    }

    /// Creates the [`OpKind`] of the op `op`. `attributes` lists the attributes under their names in portable
    /// artifacts. Absent attributes get the same defaults as in the readers, because this method calls the same
    /// function.
    pub(super) fn kind(
        &self,
        at: At,
        op: &str,
        attributes: &[(&str, Attribute)],
        operands: &[Value],
    ) -> Result<OpKind> {
        let name = format!("stablehlo.{op}");
        let state = self.state.borrow();
        let ids = state.resolve(operands).map_err(|e| self.place(e, &name, at))?;
        let named: Vec<(&str, &Attribute)> = attributes.iter().map(|(name, value)| (*name, value)).collect();
        let values = &state.func.values;
        let raw =
            UntypedOp { code: Opcode::from_name(op), name: &name, attributes: Named(&named), operands: &ids, values };
        kind(&raw).map(|(kind, _)| kind).map_err(|e| self.place(e, &name, at))
    }

    /// Builds a region with arguments of these types. The closure returns the values that the region returns, and an
    /// additional result that this method passes on to its caller.
    pub(super) fn region<R>(
        &self,
        op: &str,
        at: At,
        args: Vec<Type>,
        body: impl FnOnce(Vec<Value>) -> Result<(Vec<Value>, R)>,
    ) -> Result<(Region, R)> {
        let placed = |error| self.place(error, op, at);
        let opened = self.state.borrow_mut().open(args);
        let (depth, values) = opened.map_err(placed)?;
        let _guard = Guard { state: &self.state, depth: Some(depth) };
        let (returned, rest) = body(values)?;
        let region = self.state.borrow_mut().end(at, &returned).map_err(placed)?;
        Ok((region, rest))
    }
}

fn placed(error: Error, op: &str, function: &str, at: Option<At>) -> Error {
    let error = error.with_op(op).with_func(function);
    match at {
        Some(at) => error.with_location(at.to_string()),
        None => error,
    }
}

/// Closes the regions that a closure opened, or leaves the name scope that [`FunctionBuilder::named`] entered. The
/// guard does so even if the closure fails or panics.
struct Guard<'a> {
    state: &'a RefCell<State>,
    /// Number of regions that stay open, or `None` if the guard leaves a name scope.
    depth: Option<usize>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.try_borrow_mut() {
            match self.depth {
                Some(depth) => state.close(depth),
                None => state.leave(),
            }
        }
    }
}
