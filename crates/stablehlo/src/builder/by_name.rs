//! Ops by their names, with attributes and types as text, for bindings of other languages.

use super::annotations::Argument;
use super::function::FunctionBuilder;
use super::state::{NewOp, Types};
use super::value::Value;
use crate::attributes::Named;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::op_builder::{UntypedOp, kind};
use crate::ops::Opcode;
use crate::text::{op_attributes, whole_dictionary, whole_type};

/// A region that [`FunctionBuilder::end_region`] ended, for the op that gets it.
#[derive(Debug)]
pub struct EndedRegion(Region);

/// An op by its name, for [`FunctionBuilder::op_by_name`].
#[derive(Debug, Default)]
pub struct NamedOp<'a> {
    /// The name, such as `stablehlo.concatenate`, or `func.call`.
    pub name: &'a str,
    /// The attributes as in MLIR's generic form, such as `{dimension = 0 : i64}`. Empty if there are none.
    pub attributes: &'a str,
    /// The regions, in order.
    pub regions: Vec<EndedRegion>,
    /// The types of the results, such as `tensor<2xf32>`. `None` if they follow from the operands.
    pub results: Option<Vec<Type>>,
    /// The place in the program that builds the function, such as `train.cc:12`. Empty if it is not known.
    pub location: &'a str,
}

/// Ops by their names, for bindings of other languages. In Rust, use the method of each op.
///
/// ```
/// use stablehlo::builder::{ModuleBuilder, NamedOp};
/// use stablehlo::ir::Type;
///
/// let module = ModuleBuilder::new("by_name");
/// module.function("main", |f| {
///     let x = f.argument("tensor<2x3xf32>".parse::<Type>()?)?;
///     let zero = f.splat(0f32, &[])?;
///     let scalar: Type = "tensor<f32>".parse()?;
///     let args = f.begin_region(vec![scalar.clone(), scalar])?;
///     let sum = f.op_by_name(&args, NamedOp { name: "stablehlo.add", ..NamedOp::default() })?;
///     let sums = NamedOp {
///         name: "stablehlo.reduce",
///         attributes: "{dimensions = array<i64: 1>}",
///         regions: vec![f.end_region(&sum)?],
///         ..NamedOp::default()
///     };
///     f.op_by_name(&[x, zero], sums)
/// })?;
/// assert_eq!(module.build()?.funcs[0].results[0].to_string(), "tensor<2xf32>");
/// # Ok::<(), stablehlo::Error>(())
/// ```
impl FunctionBuilder {
    /// Creates a function like [`Self::new`]. Its ops and errors do not name places in Rust code, but only those of
    /// [`NamedOp::location`].
    #[must_use]
    pub fn without_places(name: impl Into<String>) -> Self {
        let mut builder = Self::new(name);
        builder.is_placed = false;
        builder.state().borrow_mut().ignore_rust();
        builder
    }

    /// Adds an op to the innermost open region, and returns its results.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such op, if the attributes are not valid, or if the op violates the
    /// specification.
    pub fn op_by_name(&self, operands: &[Value], op: NamedOp<'_>) -> Result<Vec<Value>> {
        let NamedOp { name, attributes, regions, results, location } = op;
        let name = if name == "func.call" { "stablehlo.call" } else { name };
        let named = |error: Error| {
            let error = error.with_op(name).with_func(self.name());
            if location.is_empty() { error } else { error.with_location(location.to_owned()) }
        };
        let base = name.strip_prefix("stablehlo.").filter(|base| Opcode::from_name(base) != Opcode::Other);
        let Some(base) = base else {
            let message = format_args!("StableHLO has no op {name:?}; write one such as stablehlo.add");
            return Err(named(Error::new(ErrorKind::Reference, message)));
        };
        let build = || {
            let (own, discardable) = op_attributes(name, attributes)?;
            let mut state = self.state().borrow_mut();
            let ids = state.resolve(operands)?;
            let listed: Vec<(&str, &Attribute)> = own.iter().map(|(name, value)| (name.as_str(), value)).collect();
            let code = Opcode::from_name(base);
            let raw = UntypedOp { code, name, attributes: Named(&listed), operands: &ids, values: &state.func.values };
            let (kind, mut extra) = kind(&raw)?;
            extra.extend(discardable);
            let types = match results {
                Some(types) => Types::Stated(types.into()),
                None => Types::Inferred,
            };
            let regions = regions.into_iter().map(|region| region.0).collect();
            let at = state.place(location);
            state.add_at(at, operands, NewOp { kind, regions, attributes: extra, types })
        };
        Ok(build().map_err(named)?.into_vec())
    }

    /// Begins a region with arguments of these types, and returns the arguments. The following ops are added to the
    /// region until [`Self::end_region`] ends it.
    ///
    /// # Errors
    ///
    /// Returns an error if a type is not valid.
    pub fn begin_region(&self, arguments: Vec<Type>) -> Result<Vec<Value>> {
        let begun = self.state().borrow_mut().open(arguments);
        begun.map(|(_, values)| values).map_err(|error| error.with_func(self.name()))
    }

    /// Ends the innermost region, which returns `values`.
    ///
    /// # Errors
    ///
    /// Returns an error if no region was begun, or if a value is not in scope.
    pub fn end_region(&self, values: &[Value]) -> Result<EndedRegion> {
        let mut state = self.state().borrow_mut();
        let depth = state.depth();
        if depth == 0 {
            let error = Error::new(ErrorKind::Structure, "no region was begun, so none can be ended");
            return Err(error.with_func(self.name()));
        }
        let region = state.end(None, values).map_err(|error| error.with_func(self.name()))?;
        state.close(depth);
        Ok(EndedRegion(region))
    }
}

impl Argument {
    /// Parses the type and the attributes of an argument, such as `{tf.aliasing_output = 0 : i32}`.
    ///
    /// # Errors
    ///
    /// Returns an error if the texts are not a type and a dictionary of attributes.
    pub fn parse(ty: &str, attributes: &str) -> Result<Self> {
        let mut argument = Self::new(ty.parse::<Type>()?);
        for (name, value) in whole_dictionary(attributes)? {
            argument = argument.attribute(&name, value);
        }
        Ok(argument)
    }
}

impl Value {
    /// Returns the id of the function, and the number of the value in it, for [`Self::from_parts`].
    #[must_use]
    pub fn into_parts(self) -> (u64, u32) {
        (self.function, self.id.0)
    }

    /// Creates a value from the parts of another value. A wrong value is an error of the op that gets it.
    #[must_use]
    pub fn from_parts(function: u64, number: u32) -> Self {
        Self { function, id: ValueId(number) }
    }
}

/// Parses the text of a type, such as `tensor<2x3xf32>` or `!stablehlo.token`.
impl std::str::FromStr for Type {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        whole_type(text).map(crate::types::Ty::into_type).ok_or_else(|| {
            Error::new(ErrorKind::Syntax, format_args!("{text:?} is not a type; write one such as tensor<2x3xf32>"))
        })
    }
}
