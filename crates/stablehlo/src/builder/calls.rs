//! Calls, composites, custom calls, sharding constraints, tuples, tokens, transfers, and ops on the extent of a
//! dimension.

use std::panic::Location;

use super::annotations::Sharding;
use super::function::FunctionBuilder;
use super::module::Callee;
use super::options::{Channel, CustomCall};
use super::state::{At, NewOp, Types};
use super::value::{Value, Values};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

impl FunctionBuilder {
    /// Calls a function of the same module.
    ///
    /// # Errors
    ///
    /// Returns an error if the operands do not have the types of the function's arguments.
    #[track_caller]
    pub fn call(&self, callee: &Callee, operands: impl Values) -> Result<Vec<Value>> {
        let at = Location::caller();
        let operands = operands.to_values();
        self.expect_arguments("stablehlo.call", at, callee, &operands)?;
        let kind = OpKind::Call { callee: callee.name().to_owned() };
        self.many(at, kind, &operands, callee.results())
    }

    /// Adds a composite, which represents an op of another library, such as `chlo.erf` or `my.attention`. The
    /// decomposition is a function that computes the same results from the same operands. Devices that do not support
    /// the op call the decomposition instead. `attributes` are the attributes of the op, and `version` is its version.
    ///
    /// ```
    /// use stablehlo::builder::ModuleBuilder;
    /// use stablehlo::ir::{ElementType, TensorType};
    ///
    /// let module = ModuleBuilder::new("activation");
    /// let ty = TensorType::new([8], ElementType::F32);
    /// let decomposition = module.function("my.silu.impl", |f| {
    ///     let x = f.private().argument(&ty)?;
    ///     f.multiply(x, f.logistic(x)?)
    /// })?;
    /// module.function("main", |f| {
    ///     let x = f.argument(&ty)?;
    ///     f.composite("my.silu", &decomposition, [x], Vec::new(), 0)
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the operands do not have the types of the decomposition's arguments, or if the name is not
    /// of the form `namespace.op`.
    #[track_caller]
    pub fn composite(
        &self,
        name: &str,
        decomposition: &Callee,
        operands: impl Values,
        attributes: Attributes,
        version: i32,
    ) -> Result<Vec<Value>> {
        let at = Location::caller();
        let operands = operands.to_values();
        self.expect_arguments("stablehlo.composite", at, decomposition, &operands)?;
        let kind = OpKind::Composite {
            name: name.to_owned(),
            decomposition: decomposition.name().to_owned(),
            composite_attributes: attributes,
        };
        let version = Attribute::Integer(version.into(), ElementType::I32);
        let attributes =
            if version.as_integer() == Some(0) { Vec::new() } else { vec![("version".to_owned(), version)] };
        let types = Types::Stated(decomposition.results().iter().cloned().collect());
        Ok(self.push_op(at, &operands, NewOp { kind, regions: Vec::new(), attributes, types })?.into_vec())
    }

    /// Calls a custom-call target of the device. `results` contains the types of the results.
    ///
    /// # Errors
    ///
    /// Returns an error if the attributes do not fit the operands and results.
    #[track_caller]
    pub fn custom_call(
        &self,
        call: CustomCall,
        operands: impl Values,
        results: impl IntoIterator<Item = Type>,
    ) -> Result<Vec<Value>> {
        let kind = OpKind::CustomCall {
            call_target_name: call.target,
            has_side_effect: call.has_side_effect,
            backend_config: call.backend_config,
            api_version: call.api_version,
        };
        let types = Types::Stated(results.into_iter().collect());
        let new = NewOp { kind, regions: Vec::new(), attributes: call.attributes, types };
        Ok(self.push_op(Location::caller(), &operands.to_values(), new)?.into_vec())
    }

    /// Requests a sharding for a value, and returns the constrained value. Adds the op `sdy.sharding_constraint` for a
    /// sharding in Shardy's form, and a custom call of `Sharding` for a sharding in GSPMD's form.
    ///
    /// # Errors
    ///
    /// Returns an error if the value belongs to another function or is not in scope.
    #[track_caller]
    pub fn sharding_constraint(&self, x: Value, sharding: &Sharding) -> Result<Value> {
        let at = Location::caller();
        let ty = self.types_of("sdy.sharding_constraint", at, &[x])?.remove(0);
        if sharding.is_shardy() {
            let kind = OpKind::Other {
                name: "sdy.sharding_constraint".to_owned(),
                attributes: vec![("sharding".to_owned(), sharding.attribute())],
            };
            return self.one(at, kind, &[x], Types::one(ty));
        }
        let call = CustomCall::new("Sharding");
        let kind = OpKind::CustomCall {
            call_target_name: call.target,
            has_side_effect: false,
            backend_config: call.backend_config,
            api_version: call.api_version,
        };
        let attributes = vec![(sharding.name().to_owned(), sharding.attribute())];
        self.single(at, &[x], NewOp { kind, regions: Vec::new(), attributes, types: Types::one(ty) })
    }

    /// Returns the operands unchanged, and prevents the compiler from moving ops across the barrier.
    ///
    /// # Errors
    ///
    /// Returns an error if an operand belongs to another function or is not in scope.
    #[track_caller]
    pub fn optimization_barrier<V: Values>(&self, operands: V) -> Result<V> {
        let at = Location::caller();
        let new = NewOp {
            kind: OpKind::OptimizationBarrier,
            regions: Vec::new(),
            attributes: Attributes::new(),
            types: Types::Inferred,
        };
        self.structured("stablehlo.optimization_barrier", at, operands.to_values(), new, &operands)
    }

    /// Creates a tuple of the operands.
    ///
    /// # Errors
    ///
    /// Returns an error if an operand belongs to another function or is not in scope.
    #[track_caller]
    pub fn tuple(&self, operands: impl Values) -> Result<Value> {
        self.one(Location::caller(), OpKind::Tuple, &operands.to_values(), Types::Inferred)
    }

    /// Returns the element of `tuple` at position `index`.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand is not a tuple, or if the tuple has at most `index` elements.
    #[track_caller]
    pub fn get_tuple_element(&self, tuple: Value, index: usize) -> Result<Value> {
        self.one(Location::caller(), OpKind::GetTupleElement { index }, &[tuple], Types::Inferred)
    }

    /// Creates a token. Tokens define the order of ops with side effects. `after_all` without operands also creates a
    /// token.
    ///
    /// # Errors
    ///
    /// Returns an error if the function has too many values.
    #[track_caller]
    pub fn create_token(&self) -> Result<Value> {
        self.one(Location::caller(), OpKind::CreateToken, &[], Types::Inferred)
    }

    /// Combines tokens into one token. An op that takes the new token runs after the ops that produced the operands.
    ///
    /// # Errors
    ///
    /// Returns an error if an operand is not of type [`Type::Token`].
    #[track_caller]
    pub fn after_all(&self, tokens: &[Value]) -> Result<Value> {
        self.one(Location::caller(), OpKind::AfterAll, tokens, Types::Inferred)
    }

    /// Receives tensors of these types from the host. Returns the tensors and a token. The device defines the meaning
    /// of `infeed_config`.
    ///
    /// # Errors
    ///
    /// Returns an error if `token` is not of type [`Type::Token`].
    #[track_caller]
    pub fn infeed(
        &self,
        token: Value,
        types: impl IntoIterator<Item = Type>,
        infeed_config: &str,
    ) -> Result<(Vec<Value>, Value)> {
        let at = Location::caller();
        let config = infeed_config.as_bytes().to_vec().into();
        let kind = OpKind::Infeed { infeed_config: config, layout: Vec::new() };
        self.with_token("infeed", at, kind, token, types)
    }

    /// Sends tensors to the host. Returns a token. The device defines the meaning of `outfeed_config`.
    ///
    /// # Errors
    ///
    /// Returns an error if `token` is not of type [`Type::Token`].
    #[track_caller]
    pub fn outfeed(&self, operands: impl Values, token: Value, outfeed_config: &str) -> Result<Value> {
        let at = Location::caller();
        let operands = [operands.to_values(), vec![token]].concat();
        let kind = OpKind::Outfeed { outfeed_config: outfeed_config.as_bytes().to_vec().into() };
        self.one(at, kind, &operands, Types::one(Type::Token))
    }

    /// Sends tensors over a channel. Returns a token.
    ///
    /// # Errors
    ///
    /// Returns an error if `token` is not of type [`Type::Token`].
    #[track_caller]
    pub fn send(&self, operands: impl Values, token: Value, channel: &Channel) -> Result<Value> {
        let at = Location::caller();
        let operands = [operands.to_values(), vec![token]].concat();
        let (is_host_transfer, source_target_pairs) = (channel.host, channel.pairs());
        let kind = OpKind::Send { channel: channel.handle(2), is_host_transfer, source_target_pairs };
        self.one(at, kind, &operands, Types::one(Type::Token))
    }

    /// Receives tensors of these types over a channel. Returns the tensors and a token.
    ///
    /// # Errors
    ///
    /// Returns an error if `token` is not of type [`Type::Token`].
    #[track_caller]
    pub fn recv(
        &self,
        token: Value,
        types: impl IntoIterator<Item = Type>,
        channel: &Channel,
    ) -> Result<(Vec<Value>, Value)> {
        let at = Location::caller();
        let (is_host_transfer, source_target_pairs) = (channel.host, channel.pairs());
        let kind = OpKind::Recv { channel: channel.handle(3), is_host_transfer, source_target_pairs };
        self.with_token("recv", at, kind, token, types)
    }

    fn with_token(
        &self,
        op: &str,
        at: At,
        kind: OpKind,
        token: Value,
        types: impl IntoIterator<Item = Type>,
    ) -> Result<(Vec<Value>, Value)> {
        let types: Vec<Type> = types.into_iter().chain([Type::Token]).collect();
        let mut results = self.many(at, kind, &[token], &types)?;
        let token =
            results.pop().ok_or_else(|| self.error(ErrorKind::Structure, op, at, "must have a token as its result"))?;
        Ok((results, token))
    }

    fn many(&self, at: At, kind: OpKind, operands: &[Value], types: &[Type]) -> Result<Vec<Value>> {
        let types = Types::Stated(types.iter().cloned().collect());
        let new = NewOp { kind, regions: Vec::new(), attributes: Attributes::new(), types };
        Ok(self.push_op(at, operands, new)?.into_vec())
    }

    fn expect_arguments(&self, op: &str, at: At, callee: &Callee, operands: &[Value]) -> Result<()> {
        let types = self.types_of(op, at, operands)?;
        if crate::compatible::all_compatible(&types, callee.arguments()) {
            return Ok(());
        }
        let (given, taken) = (crate::compatible::list(&types), crate::compatible::list(callee.arguments()));
        let error =
            Error::new(ErrorKind::Type, format_args!("passes ({given}) to @{}, which takes ({taken})", callee.name()));
        Err(self.place(error, op, at))
    }

    /// Returns the extent of a dimension, as a scalar of type `i32`.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand does not have this dimension.
    #[track_caller]
    pub fn get_dimension_size(&self, x: Value, dimension: usize) -> Result<Value> {
        self.one(Location::caller(), OpKind::GetDimensionSize { dimension }, &[x], Types::Inferred)
    }

    /// Sets the extent of a dimension to a scalar that is computed at run time. The current extent becomes the bound of
    /// the dimension, so the scalar must not exceed it.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand does not have the dimension, or if `size` is not an integer scalar.
    #[track_caller]
    pub fn set_dimension_size(&self, x: Value, size: Value, dimension: usize) -> Result<Value> {
        let at = Location::caller();
        self.one(at, OpKind::SetDimensionSize { dimension }, &[x, size], Types::Inferred)
    }
}
