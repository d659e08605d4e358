//! Modules, functions, regions and ops.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use super::attribute::{Attribute, Attributes, is_sharding};
use super::locations::{LocationId, Locations};
use super::ops::OpKind;
use super::types::Type;
use super::values::{ValueId, ValueIds, ValueTypes};
use crate::error::{Error, ErrorKind, Result};

/// A StableHLO program: functions, other top-level ops, and attributes.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Symbol name, such as `jit_step`.
    pub name: Option<String>,
    /// Module attributes, such as `mhlo.num_partitions`.
    pub attributes: Attributes,
    /// Functions that have a body, in program order. The entry function is usually named `main`. See [`Module::entry`].
    pub funcs: Vec<Func>,
    /// Top-level ops other than functions with a body, such as meshes and function declarations. Each element is the
    /// op's name and its raw attributes.
    pub symbols: Vec<(String, Attributes)>,
    /// Location table. Use [`Module::location`] to format a location.
    pub locations: Locations,
    /// Version of the portable artifact, if the program was read from one.
    pub version: Option<Version>,
}

/// A StableHLO version, `major.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// A function.
#[derive(Clone, Debug)]
pub struct Func {
    /// Symbol name.
    pub name: String,
    /// Whether the function is public, which is the default. Otherwise the function is private, or nested if
    /// `attributes` declares `sym_visibility` as `nested`.
    pub public: bool,
    /// Attributes of each argument, such as `tf.aliasing_output`. The length is the number of arguments.
    pub arg_attributes: Vec<Attributes>,
    /// Result types.
    pub results: Vec<Type>,
    /// Attributes of each result. The length is the number of results.
    pub result_attributes: Vec<Attributes>,
    /// Discardable attributes, and `sym_visibility` if it is declared as `public` or `nested`.
    pub attributes: Attributes,
    /// Body. Its block arguments are the function's arguments, and its last op is [`OpKind::Return`].
    pub body: Region,
    /// Type of each value of the function, indexed by [`ValueId`]. Includes the values of nested regions.
    pub values: ValueTypes,
    /// Source location.
    pub location: LocationId,
}

/// A region: the arguments and ops of its single block. StableHLO has no regions with several blocks.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Block arguments.
    pub args: Vec<ValueId>,
    /// Ops in program order. The last op is an [`OpKind::Return`].
    pub ops: Vec<Op>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// Operation that the op performs, including the inherent attributes that have a field.
    pub kind: OpKind,
    /// Operands in the specification's order.
    pub operands: ValueIds,
    /// Results.
    pub results: ValueIds,
    /// Regions in the specification's order (`while`: cond, body).
    pub regions: Vec<Region>,
    /// Discardable attributes, and inherent attributes for which `kind` has no field.
    pub attributes: Attributes,
    /// Source location.
    pub location: LocationId,
}

impl Region {
    /// Creates a region with these block arguments and ops.
    #[must_use]
    pub fn new(args: Vec<ValueId>, ops: Vec<Op>) -> Self {
        Self { args, ops }
    }

    /// Iterates over the ops of the region, and over the ops in an op's regions after the op itself.
    pub fn all_ops(&self) -> impl Iterator<Item = &Op> {
        // A stack instead of recursion, because the nesting of a program that is not verified is not limited.
        let mut open = vec![self.ops.iter()];
        std::iter::from_fn(move || {
            loop {
                match open.last_mut()?.next() {
                    Some(op) => {
                        open.extend(op.regions.iter().rev().map(|region| region.ops.iter()));
                        return Some(op);
                    }
                    None => _ = open.pop(),
                }
            }
        })
    }
}

impl Op {
    /// Creates an op without regions, discardable attributes or a location.
    #[must_use]
    pub fn new(kind: OpKind, operands: impl Into<ValueIds>, results: impl Into<ValueIds>) -> Self {
        Self {
            kind,
            operands: operands.into(),
            results: results.into(),
            regions: Vec::new(),
            attributes: Attributes::new(),
            location: LocationId::default(),
        }
    }

    /// Returns the op with other operands, results and regions.
    #[must_use]
    pub fn copied(&self, operands: ValueIds, results: ValueIds, regions: Vec<Region>) -> Self {
        Self {
            kind: self.kind.clone(),
            operands,
            results,
            regions,
            attributes: self.attributes.clone(),
            location: self.location,
        }
    }

    /// Returns the types of the operands and the results for messages, such as `(tensor<2xi1>) -> (tensor<i1>)`. If the
    /// op has a sharding, the text also contains the sharding.
    #[must_use]
    pub fn signature(&self, types: &ValueTypes) -> String {
        let list = |values: &[ValueId]| {
            let text = |value: &ValueId| types.get(value.0 as usize).map_or_else(|| "?".to_owned(), Type::to_string);
            values.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("({}) -> ({})", list(&self.operands), list(&self.results));
        for (name, sharding) in self.attributes.iter().filter(|(name, _)| is_sharding(name)) {
            let _ = write!(text, " with {name} = {sharding}");
        }
        text
    }

    /// Returns the values that the op's regions use but do not define, each once, in the order of their first uses.
    #[must_use]
    pub fn captures(&self) -> Vec<ValueId> {
        if self.regions.is_empty() {
            return Vec::new();
        }
        let inner: Vec<&Self> = self.regions.iter().flat_map(Region::all_ops).collect();
        let args = self.regions.iter().chain(inner.iter().flat_map(|op| &op.regions)).flat_map(|region| &region.args);
        // The values that are not to be listed (again).
        let mut seen: HashSet<ValueId> = args.chain(inner.iter().flat_map(|op| &op.results)).copied().collect();
        inner.iter().flat_map(|op| &op.operands).copied().filter(|value| seen.insert(*value)).collect()
    }
}

impl Error {
    /// Sets the op, its types and its sharding, the function, and the location of the op, unless those of an inner op
    /// are already set.
    #[cold]
    #[must_use]
    pub fn of_op(self, op: &Op, func: &Func, module: &Module) -> Self {
        self.with_op(&op.kind.name())
            .with_signature(|| op.signature(&func.values))
            .with_func(&func.name)
            .with_location(module.location(op.location))
    }
}

impl Module {
    /// Returns the module with other functions.
    #[must_use]
    pub fn with_funcs(&self, funcs: Vec<Func>) -> Self {
        Self {
            name: self.name.clone(),
            attributes: self.attributes.clone(),
            funcs,
            symbols: self.symbols.clone(),
            locations: self.locations.clone(),
            version: self.version,
        }
    }

    /// Returns the entry function, which is the function named `main` or else the only public function.
    #[must_use]
    pub fn entry(&self) -> Option<&Func> {
        self.func("main").or_else(|| {
            let mut public = self.funcs.iter().filter(|f| f.public);
            public.next().filter(|_| public.next().is_none())
        })
    }

    /// Returns the function with this symbol name.
    #[must_use]
    pub fn func(&self, name: &str) -> Option<&Func> {
        self.funcs.iter().find(|f| f.name == name)
    }

    /// Moves the attribute `sym_name` to the field `name`. Text and old artifacts may store the name as an attribute.
    /// An invalid or second `sym_name` stays an attribute, so that the verifier rejects it.
    pub(crate) fn name_from_attributes(&mut self) {
        let is_name = |(name, value): &(String, Attribute)| name == "sym_name" && value.as_str().is_some();
        if self.name.is_none()
            && let Some(at) = self.attributes.iter().position(is_name)
        {
            self.name = self.attributes.remove(at).1.as_str().map(str::to_owned);
        }
    }
}

impl Func {
    /// Creates a public function without attributes. `values` holds the types of all values of the body.
    #[must_use]
    pub fn new(name: impl Into<String>, body: Region, values: ValueTypes, results: Vec<Type>) -> Self {
        Self {
            name: name.into(),
            public: true,
            arg_attributes: vec![Attributes::new(); body.args.len()],
            result_attributes: vec![Attributes::new(); results.len()],
            results,
            attributes: Attributes::new(),
            body,
            values,
            location: LocationId::default(),
        }
    }

    /// Returns an attribute of an argument, such as `tf.aliasing_output`.
    #[must_use]
    pub fn arg_attribute(&self, index: usize, name: &str) -> Option<&Attribute> {
        self.arg_attributes.get(index)?.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Returns the result whose memory an argument shares (`tf.aliasing_output`).
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute is not the index of a result.
    pub fn aliased_result(&self, argument: usize) -> Result<Option<usize>> {
        let Some(attribute) = self.arg_attribute(argument, "tf.aliasing_output") else { return Ok(None) };
        let index = attribute.as_integer().and_then(|index| usize::try_from(index).ok());
        let result = index.filter(|index| *index < self.results.len());
        result.map(Some).ok_or_else(|| {
            let message = format_args!(
                "argument {argument} has tf.aliasing_output = {attribute}, but the function has {} results; write the \
                 index of a result, such as 0 : i32",
                self.results.len()
            );
            Error::new(ErrorKind::Attribute, message).with_func(&self.name)
        })
    }

    /// Returns an attribute of a result, such as `jax.result_info`.
    #[must_use]
    pub fn result_attribute(&self, index: usize, name: &str) -> Option<&Attribute> {
        self.result_attributes.get(index)?.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Returns the arguments.
    #[must_use]
    pub fn args(&self) -> &[ValueId] {
        &self.body.args
    }

    /// Returns the type of a value.
    #[must_use]
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value.0 as usize]
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}
