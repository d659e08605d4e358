//! Converts computations to functions and regions.
//!
//! Tuples are flattened. A value is a list of arrays and tokens, so `tuple` and `get-tuple-element` do not become ops.
//! A computation that is called by name becomes a function. A computation that belongs to an instruction becomes a
//! region of its op. Branches have no arguments in StableHLO, so the ops in the branches of a `conditional` use its
//! operands directly.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::body::{Body, Value, local, op};
use super::proto::{self, Instruction, Shape, decode};
use super::{instruction, legalize, shape};
use crate::attributes::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::limits::MAX_NESTING;

/// Minimum amount in bytes that an instruction subtracts from the [`Budget`].
const OP_WEIGHT: usize = 256;

/// Reads the computations of one module.
pub(super) struct Reader {
    computations: Vec<proto::Computation>,
    by_id: HashMap<i64, usize>,
    /// Symbol name of each called function, by the index of its computation.
    names: HashMap<usize, String>,
    taken: HashSet<String>,
    queue: Vec<usize>,
    pub(super) locations: Vec<Location>,
    budget: Budget,
}

/// An instruction that was converted to an op, without the op's results.
struct Converted {
    kind: OpKind,
    operands: Vec<ValueId>,
    regions: Vec<Region>,
    attributes: Attributes,
}

/// Outcome of [`Body::legalized`].
enum Legalized {
    /// The instruction was replaced with other ops. Contains their result.
    Result(Value),
    /// StableHLO has an op for the instruction. Contains the operands of this op.
    Operands(Vec<ValueId>),
}

/// A computation after conversion.
struct Built {
    region: Region,
    params: Vec<Value>,
    param_attributes: Vec<Attributes>,
    root: Value,
    root_attributes: Vec<Attributes>,
}

impl Reader {
    pub(super) fn new(encoded: Vec<Bytes>, program_bytes: usize) -> Result<Self> {
        let computations = encoded.into_iter().map(decode::<proto::Computation>).collect::<Result<Vec<_>>>()?;
        let mut by_id = HashMap::with_capacity(computations.len());
        for (index, computation) in computations.iter().enumerate() {
            if by_id.insert(computation.id, index).is_some() {
                return Err(Error::new(
                    ErrorKind::Reference,
                    format_args!("two computations have the id {}", computation.id),
                ));
            }
        }
        Ok(Self {
            computations,
            by_id,
            names: HashMap::new(),
            taken: HashSet::new(),
            queue: Vec::new(),
            locations: vec![Location::Unknown],
            budget: Budget::new(program_bytes),
        })
    }

    /// Converts the entry computation to `main`, and then all computations that are called by name.
    pub(super) fn funcs(&mut self, module: &proto::Module) -> Result<Vec<Func>> {
        let entry = self
            .index(module.entry_computation_id)
            .map_err(|_| Error::new(ErrorKind::Reference, "the entry computation is missing"))?;
        self.taken.insert("main".to_owned());
        self.names.insert(entry, "main".to_owned());
        let (mut main, built) = self.func(entry)?;
        donations(module, &mut main, &built)?;
        let mut funcs = vec![main];
        while let Some(next) = self.queue.pop() {
            funcs.push(self.func(next)?.0);
        }
        Ok(funcs)
    }

    fn index(&self, id: i64) -> Result<usize> {
        let found = self.by_id.get(&id).or_else(|| self.by_id.get(&local(id)));
        found.copied().ok_or_else(|| {
            Error::new(ErrorKind::Reference, format_args!("calls computation {id}, which does not exist"))
        })
    }

    /// Returns the symbol name of a computation that is called by name. The first request adds the computation to the
    /// queue.
    fn callee(&mut self, index: usize) -> String {
        if let Some(name) = self.names.get(&index) {
            return name.clone();
        }
        let (stem, id) = (&self.computations[index].name, self.computations[index].id);
        let mut name = if stem.is_empty() { format!("computation.{id}") } else { stem.clone() };
        while !self.taken.insert(name.clone()) {
            name = format!("{name}.{id}");
        }
        self.names.insert(index, name.clone());
        self.queue.push(index);
        name
    }

    fn func(&mut self, index: usize) -> Result<(Func, Built)> {
        let mut values = Vec::new();
        let mut built = self.region(index, &mut values, None, 0)?;
        let results = built.root.ids.iter().map(|id| values[id.0 as usize].clone()).collect();
        let name = self.names.get(&index).cloned().unwrap_or_default();
        let func = Func {
            public: name == "main",
            name,
            arg_attributes: std::mem::take(&mut built.param_attributes),
            results,
            result_attributes: std::mem::take(&mut built.root_attributes),
            attributes: Attributes::new(),
            body: std::mem::take(&mut built.region),
            values: values.into(),
            location: LocationId(0),
        };
        Ok((func, built))
    }

    /// Converts a computation's instructions to ops. If `given` is `None`, the parameters become arguments of the
    /// region. Otherwise, `given` holds the values of the parameters.
    fn region(
        &mut self,
        index: usize,
        values: &mut Vec<Type>,
        given: Option<&[Vec<ValueId>]>,
        depth: usize,
    ) -> Result<Built> {
        let computation = &self.computations[index];
        let name = computation.name.clone();
        if depth > MAX_NESTING {
            return Err(Error::new(
                ErrorKind::Limit,
                format_args!("computations call each other deeper than {MAX_NESTING}"),
            )
            .with_func(&name));
        }
        let (encoded, root_id) = (computation.instructions.clone(), local(computation.root_id));
        self.budget.charge(encoded.len().saturating_mul(size_of::<Bytes>())).map_err(|e| e.with_func(&name))?;
        let count = encoded.len();
        let mut body = Body {
            values,
            given,
            depth,
            defined: HashMap::with_capacity(count),
            params: Vec::new(),
            limit: count,
            ops: Vec::with_capacity(count),
        };
        let mut root_sharding = None;
        let mut last = 0;
        for bytes in encoded {
            let size = bytes.len();
            // Instructions are boxed, because the struct is large and this method is recursive for nested computations.
            let i: Box<Instruction> = decode(bytes).map(Box::new).map_err(|e| e.with_func(&name))?;
            let place = |e: Error| named(e, &i.name, &i.opcode).with_func(&name);
            self.budget.charge(size.saturating_mul(8).saturating_add(OP_WEIGHT)).map_err(place)?;
            let (id, label, opcode) = (local(i.id), i.name.clone(), i.opcode.clone());
            if id == root_id {
                root_sharding = i.sharding.clone();
            }
            let value = self.instruction(&mut body, i).map_err(|e| named(e, &label, &opcode).with_func(&name))?;
            if body.defined.insert(id, value).is_some() {
                let error = Error::new(ErrorKind::Reference, format_args!("another instruction has the id {id}"));
                return Err(named(error, &label, &opcode).with_func(&name));
            }
            last = id;
        }
        let Body { mut defined, params, mut ops, .. } = body;
        let root = defined.remove(&root_id).or_else(|| defined.remove(&last));
        let root = root
            .ok_or_else(|| Error::new(ErrorKind::Encoding, "the computation has no instructions").with_func(&name))?;
        ops.push(op(OpKind::Return, root.ids.clone(), Vec::new()));
        let mut args = Vec::new();
        let (mut own, mut param_attributes) = (Vec::new(), Vec::new());
        for (number, param) in params.into_iter().enumerate() {
            let missing =
                || Error::new(ErrorKind::Reference, format_args!("parameter {number} is missing")).with_func(&name);
            let (value, attributes) = param.ok_or_else(missing)?;
            args.extend(&value.ids);
            own.push(value);
            param_attributes.extend(attributes);
        }
        if given.is_some() {
            args.clear();
        }
        let root_attributes = shardings(root_sharding.as_ref(), root.ids.len());
        Ok(Built { region: Region { args, ops }, params: own, param_attributes, root, root_attributes })
    }

    /// Converts one instruction, appends its ops to `body`, and returns its result.
    fn instruction(&mut self, body: &mut Body<'_>, i: Box<Instruction>) -> Result<Value> {
        let (mut i, shape) = legalize::synchronous(i)?;
        if let Some(value) = self.without_op(body, &mut i, &shape)? {
            return Ok(value);
        }
        let location = self.location(&mut i);
        let operands = match body.legalized(&i, &shape, location)? {
            Legalized::Result(value) => return Ok(value),
            Legalized::Operands(operands) => operands,
        };
        let mut attributes = Attributes::new();
        if let Some(sharding) = &i.sharding {
            attributes.push(sharding_attribute(&sharding.text()));
        }
        attributes.extend(frontend(i.frontend_attributes.take()));
        let converted = match i.opcode.as_str() {
            "call" | "fusion" | "while" | "conditional" => self.control_flow(body, &mut i, operands)?,
            _ => self.operation(body, &mut i, operands, &shape)?,
        };
        attributes.extend(converted.attributes);
        let value = body.fresh(shape)?;
        let (kind, operands, regions) = (converted.kind, converted.operands.into(), converted.regions);
        let results = value.ids.clone().into();
        body.ops.push(Op { kind, operands, results, regions, attributes, location });
        Ok(value)
    }

    /// Returns the value of a parameter, a constant, or an instruction that only passes on its operands. A constant
    /// becomes ops without operands. Returns `None` for other instructions.
    fn without_op(&mut self, body: &mut Body<'_>, i: &mut Instruction, shape: &Shape) -> Result<Option<Value>> {
        let ids = match i.opcode.as_str() {
            "parameter" => return body.parameter(i, shape.clone()).map(Some),
            "constant" => return body.constant(i, shape.clone(), self).map(Some),
            "tuple" => body.operands(i)?,
            "get-tuple-element" => {
                let (start, count) = shape::part(&body.operand(i, 0)?.shape, &[i.tuple_index])?;
                body.operand(i, 0)?.ids[start..start + count].to_vec()
            }
            "copy" | "domain" | "add-dependency" => body.operand(i, 0)?.ids.clone(),
            opcode if legalize::passes_on(opcode) => {
                let started = body.operand(i, 0)?;
                return Ok(Some(Value { ids: started.ids.clone(), shape: started.shape.clone() }));
            }
            _ => return Ok(None),
        };
        body.alias(ids, shape.clone()).map(Some)
    }

    /// Converts a `while`, a `conditional`, or an instruction such as `call` that calls one computation by name.
    fn control_flow(
        &mut self,
        body: &mut Body<'_>,
        i: &mut Instruction,
        mut operands: Vec<ValueId>,
    ) -> Result<Converted> {
        let called = std::mem::take(&mut i.called_computation_ids);
        let mut regions = Vec::new();
        let kind = match i.opcode.as_str() {
            "while" => {
                // In HLO, the body precedes the condition.
                let [inner, condition] = called[..] else {
                    return Err(Error::new(ErrorKind::Encoding, "must call two computations"));
                };
                for id in [condition, inner] {
                    regions.push(self.nested(id, body, None)?);
                }
                OpKind::While
            }
            "conditional" => {
                let branches = i.operand_ids.len().saturating_sub(1);
                if called.len() != branches {
                    return Err(Error::new(
                        ErrorKind::Encoding,
                        format_args!("has {} branches, but {branches} operands for them", called.len()),
                    ));
                }
                for (branch, &id) in called.iter().enumerate() {
                    let given = body.operand(i, branch + 1)?.ids.clone();
                    regions.push(self.nested(id, body, Some(&[given]))?);
                }
                operands = body.operand(i, 0)?.ids.clone();
                let selector = operands.first().map(|id| &body.values[id.0 as usize]);
                match selector {
                    Some(Type::Tensor(ty)) if ty.element == ElementType::Bool => OpKind::If,
                    _ => OpKind::Case,
                }
            }
            _ => {
                let [id] = called[..] else { return Err(Error::new(ErrorKind::Encoding, "must call one computation")) };
                let index = self.index(id)?;
                OpKind::Call { callee: self.callee(index) }
            }
        };
        Ok(Converted { kind, operands, regions, attributes: Attributes::new() })
    }

    /// Converts an instruction that is not a call, a loop or a conditional. The computations that it refers to become
    /// regions of its op, or functions if the instruction is a custom call.
    fn operation(
        &mut self,
        body: &mut Body<'_>,
        i: &mut Instruction,
        mut operands: Vec<ValueId>,
        shape: &Shape,
    ) -> Result<Converted> {
        match i.opcode.as_str() {
            "rng" => operands.push(body.shape_operand(shape)?),
            // The op's attributes include the layout of the result, which is part of the shape.
            "custom-call" => i.shape = Some(shape.clone()),
            _ => {}
        }
        let called = std::mem::take(&mut i.called_computation_ids);
        let (mut kind, mut attributes) = instruction::kind(i)?;
        if let (OpKind::Compare { compare_type, .. }, true) = (&mut kind, i.comparison_type.is_empty()) {
            // If the comparison type is absent, it follows from the comparison order. For element types other than
            // floating-point types, all orders are the same.
            let ty = operands.first().map(|id| &body.values[id.0 as usize]);
            if !matches!(ty, Some(Type::Tensor(ty)) if ty.element.is_float()) {
                *compare_type = ComparisonType::NoType;
            }
        }
        let (mut regions, mut callees) = (Vec::new(), Vec::new());
        for id in called {
            if i.opcode == "custom-call" {
                let index = self.index(id)?;
                callees.push(Attribute::Symbol(self.callee(index)));
            } else {
                regions.push(self.nested(id, body, None)?);
            }
        }
        if !callees.is_empty() {
            attributes.push(("called_computations".to_owned(), Attribute::Array(callees)));
        }
        Ok(Converted { kind, operands, regions, attributes })
    }

    fn nested(&mut self, id: i64, body: &mut Body<'_>, given: Option<&[Vec<ValueId>]>) -> Result<Region> {
        let index = self.index(id)?;
        Ok(self.region(index, body.values, given, body.depth + 1)?.region)
    }

    /// Returns the location of an instruction. It consists of a name and, if it is known, the position in a source
    /// file. The name is the framework's name for the instruction, or else its HLO name.
    fn location(&mut self, i: &mut Instruction) -> LocationId {
        let metadata = i.metadata.take().unwrap_or_default();
        let name = if metadata.op_name.is_empty() { i.name.clone() } else { metadata.op_name };
        let mut push = |location| {
            let id = u32::try_from(self.locations.len()).unwrap_or(0);
            self.locations.push(location);
            LocationId(id)
        };
        let place = if metadata.source_file.is_empty() {
            LocationId(0)
        } else {
            let number = |n: i32| u64::try_from(n).unwrap_or(0);
            let (line, column) = (number(metadata.source_line), number(metadata.source_column));
            push(Location::File { file: metadata.source_file, line, column })
        };
        if name.is_empty() { place } else { push(Location::Name(name, place)) }
    }
}

impl Body<'_> {
    fn parameter(&mut self, i: &Instruction, shape: Shape) -> Result<Value> {
        let number = i.parameter_number;
        let wrong = || {
            Error::new(ErrorKind::Encoding, format_args!("parameter number {number} must be less than {}", self.limit))
        };
        let slot = usize::try_from(number).ok().filter(|&n| n < self.limit).ok_or_else(wrong)?;
        if self.params.get(slot).is_some_and(Option::is_some) {
            return Err(Error::new(ErrorKind::Reference, format_args!("parameter {number} is defined twice")));
        }
        let value = match self.given {
            None => self.fresh(shape)?,
            Some(given) => {
                let ids = given.get(slot).ok_or_else(|| {
                    Error::new(ErrorKind::Reference, format_args!("the caller does not pass parameter {number}"))
                })?;
                self.alias(ids.clone(), shape)?
            }
        };
        if self.params.len() <= slot {
            self.params.resize_with(slot + 1, || None);
        }
        let attributes = shardings(i.sharding.as_ref(), value.ids.len());
        let kept = Value { ids: value.ids.clone(), shape: value.shape.clone() };
        self.params[slot] = Some((kept, attributes));
        Ok(value)
    }

    fn constant(&mut self, i: &mut Instruction, shape: Shape, reader: &mut Reader) -> Result<Value> {
        let location = reader.location(i);
        let mut constants = Vec::new();
        shape::literals(i.literal.take().unwrap_or_default(), 0, &mut constants)?;
        let value = self.fresh(shape)?;
        if constants.len() != value.ids.len() {
            return Err(Error::new(
                ErrorKind::Encoding,
                format_args!("has {} literals, but its shape has {} arrays", constants.len(), value.ids.len()),
            ));
        }
        for (literal, &id) in constants.into_iter().zip(&value.ids) {
            self.ops.push(Op { location, ..op(OpKind::Constant(literal), Vec::new(), vec![id]) });
        }
        Ok(value)
    }

    /// Rewrites an instruction or its operands, if StableHLO has no corresponding form.
    fn legalized(&mut self, i: &Instruction, shape: &Shape, location: LocationId) -> Result<Legalized> {
        let operands = self.operands(i)?;
        Ok(match i.opcode.as_str() {
            "bitcast" => {
                let from = self.operand(i, 0)?.shape.clone();
                let [x] = operands[..] else {
                    return Err(Error::new(ErrorKind::Encoding, "must have one array as its operand"));
                };
                let id = self.bitcast(x, &from, shape, location)?;
                Legalized::Result(Value { ids: vec![id], shape: shape.clone() })
            }
            "all-to-all" if i.dimensions.is_empty() => {
                Legalized::Result(self.exchange(i, operands, shape.clone(), location)?)
            }
            "dynamic-slice" => Legalized::Operands(self.scalar_indices(operands, 1, location)?),
            "dynamic-update-slice" => Legalized::Operands(self.scalar_indices(operands, 2, location)?),
            _ => Legalized::Operands(operands),
        })
    }
}

/// Adds the name of the instruction to the error, unless the error already names an inner instruction.
#[cold]
fn named(error: Error, name: &str, opcode: &str) -> Error {
    if error.op().is_some() {
        return error;
    }
    Error::new(error.kind(), format_args!("instruction `{name}`: {}", error.message())).with_op(opcode)
}

/// Converts XLA's frontend attributes to the attribute `mhlo.frontend_attributes`. Returns `None` if there are no
/// attributes.
pub(super) fn frontend(attributes: Option<proto::FrontendAttributes>) -> Option<(String, Attribute)> {
    let map: BTreeMap<String, String> = attributes?.map;
    let entries = map.into_iter().map(|(name, value)| (name, Attribute::String(value.into_bytes().into())));
    let entries: Attributes = entries.collect();
    (!entries.is_empty()).then(|| ("mhlo.frontend_attributes".to_owned(), Attribute::Dictionary(entries)))
}

fn sharding_attribute(text: &str) -> (String, Attribute) {
    ("mhlo.sharding".to_owned(), Attribute::String(text.as_bytes().to_vec().into()))
}

/// Returns the sharding attributes of each of the `count` arrays and tokens that make up a value. A single sharding
/// applies to all of them.
fn shardings(sharding: Option<&super::sharding::OpSharding>, count: usize) -> Vec<Attributes> {
    let mut list = vec![Attributes::new(); count];
    let Some(sharding) = sharding else { return list };
    let parts = sharding.parts();
    for (i, attributes) in list.iter_mut().enumerate() {
        let part = if parts.len() == count { parts.get(i) } else { parts.first().filter(|_| parts.len() == 1) };
        attributes.extend(part.map(|part| sharding_attribute(&part.text())));
    }
    list
}

/// Adds `input_output_alias` and `buffer_donor` as attributes of the entry function's arguments.
fn donations(module: &proto::Module, main: &mut Func, built: &Built) -> Result<()> {
    let starts: Vec<usize> = built
        .params
        .iter()
        .scan(0, |start, param| {
            let own = *start;
            *start += param.ids.len();
            Some(own)
        })
        .collect();
    let argument = |number: i64, index: &[i64]| {
        let slot = usize::try_from(number).ok().and_then(|n| Some((built.params.get(n)?, starts.get(n)?)));
        let (param, start) = slot.ok_or_else(|| {
            Error::new(ErrorKind::Reference, format_args!("an alias names parameter {number}, which does not exist"))
        })?;
        match shape::part(&param.shape, index)? {
            (offset, 1) => Ok(start + offset),
            _ => Err(Error::new(
                ErrorKind::Encoding,
                format_args!("an alias names parameter {number}, which is a tuple; name one array of it"),
            )),
        }
    };
    for entry in module.input_output_alias.iter().flat_map(|alias| &alias.entries) {
        let argument = argument(entry.parameter_number, &entry.parameter_shape_index)?;
        let (output, 1) = shape::part(&built.root.shape, &entry.output_shape_index)? else {
            return Err(Error::new(
                ErrorKind::Encoding,
                "an alias names a tuple that the program returns; name one array of it",
            ));
        };
        let output = i64::try_from(output).unwrap_or(i64::MAX);
        let attribute = ("tf.aliasing_output".to_owned(), Attribute::Integer(output, ElementType::I32));
        main.arg_attributes[argument].push(attribute);
    }
    for entry in module.buffer_donor.iter().flat_map(|donor| &donor.entries) {
        let argument = argument(entry.parameter_number, &entry.parameter_shape_index)?;
        main.arg_attributes[argument].push(("jax.buffer_donor".to_owned(), Attribute::Bool(true)));
    }
    Ok(())
}
