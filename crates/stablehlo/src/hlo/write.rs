//! Writes programs as `HloModuleProto`. This is the inverse of the modules `computation` and `module`.
//!
//! Each function and each region becomes a computation. A computation cannot use values that are defined outside of it.
//! Therefore the regions of a loop or a conditional receive such values as elements of their tuple argument. Constants
//! are copied into each computation that uses them.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use prost::Message;

use super::fields::{self, long, longs, opcode};
use super::proto::{self, Instruction, Shape};
use super::shape;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::limits::MAX_NESTING;

/// Writes a module as a serialized `HloModuleProto`.
pub(crate) fn write(module: &Module) -> Result<Vec<u8>> {
    let Some(main) = module.entry() else {
        return Err(Error::new(ErrorKind::Reference, "the program has no function named main"));
    };
    let mut writer = Writer { module, next: 0, computations: Vec::new(), funcs: HashMap::new(), names: HashSet::new() };
    let entry = writer.func(main).map_err(|e| e.with_func(&main.name))?;
    let mut out = proto::Module {
        name: module.name.clone().unwrap_or_else(|| "module".to_owned()),
        entry_computation_name: "main".to_owned(),
        program_shape: Some(entry.program_shape),
        computations: writer.computations,
        entry_computation_id: entry.id,
        frontend_attributes: fields::frontend(&module.attributes),
        ..proto::Module::default()
    };
    donations(main, &mut out)?;
    Ok(out.encode_to_vec())
}

/// Writes the donation attributes of arguments. Rejects shardings, because they are not written and XLA's partitioner
/// would not receive them.
fn donations(main: &Func, out: &mut proto::Module) -> Result<()> {
    let (mut aliases, mut donors) = (Vec::new(), Vec::new());
    let single = main.results.len() == 1;
    for (number, attributes) in main.arg_attributes.iter().enumerate() {
        if let Some(output) = main.aliased_result(number)? {
            aliases.push(proto::AliasEntry {
                output_shape_index: if single { Vec::new() } else { vec![long(output)] },
                parameter_number: long(number),
                parameter_shape_index: Vec::new(),
                kind: 1,
            });
        }
        for (name, value) in attributes {
            match name.as_str() {
                "jax.buffer_donor" if value.as_integer() == Some(1) => {
                    let parameter_number = long(number);
                    donors.push(proto::DonorEntry { parameter_number, parameter_shape_index: Vec::new() });
                }
                name if is_sharding(name) => {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format_args!(
                            "argument {number} has a sharding, which cannot be written as HLO; send the program as StableHLO"
                        ),
                    ));
                }
                _ => {}
            }
        }
    }
    if !aliases.is_empty() {
        out.input_output_alias = Some(proto::InputOutputAlias { entries: aliases });
    }
    if !donors.is_empty() {
        out.buffer_donor = Some(proto::BufferDonor { entries: donors });
    }
    Ok(())
}

struct Writer<'m> {
    module: &'m Module,
    /// Last id that was assigned to an instruction or a computation.
    next: i64,
    computations: Vec<Bytes>,
    /// Computations of the functions that were already written, by function name.
    funcs: HashMap<&'m str, Written>,
    /// Names of all computations, which must be unique.
    names: HashSet<String>,
}

/// A computation that was written.
#[derive(Clone)]
struct Written {
    id: i64,
    result: Shape,
    /// Encoded signature of the computation.
    program_shape: Bytes,
}

/// A computation under construction.
struct Computation<'a> {
    func: &'a Func,
    /// All constants of the function.
    constants: &'a HashMap<ValueId, &'a Literal>,
    instructions: Vec<Bytes>,
    /// Id of the instruction that defines each value.
    values: HashMap<ValueId, i64>,
    parameters: Vec<Shape>,
}

/// Defines how the computation of a region takes arguments and returns results.
#[derive(Clone, Copy)]
enum CallingConvention<'a> {
    /// One parameter for each argument. A single result is returned directly, and several results are returned as a
    /// tuple.
    Plain,
    /// One tuple parameter with the arguments and these outer values. The results are returned as in `Plain`.
    Condition(&'a [ValueId]),
    /// One tuple parameter with the arguments and these outer values. The results are returned as a tuple.
    Branch(&'a [ValueId]),
    /// One tuple parameter with the arguments and these outer values. The results and the outer values are returned as
    /// a tuple.
    Body(&'a [ValueId]),
}

impl<'m> Writer<'m> {
    fn id(&mut self) -> i64 {
        self.next += 1;
        self.next
    }

    fn func(&mut self, func: &'m Func) -> Result<Written> {
        if let Some(written) = self.funcs.get(func.name.as_str()) {
            return Ok(written.clone());
        }
        let constant = |op: &'m Op| match &op.kind {
            OpKind::Constant(literal) => Some((*op.results.first()?, literal)),
            _ => None,
        };
        let constants: HashMap<_, _> = func.body.all_ops().filter_map(constant).collect();
        let written = self.region(func, &constants, &func.body, &func.name, CallingConvention::Plain)?;
        self.funcs.insert(&func.name, written.clone());
        Ok(written)
    }

    /// Writes a region of `func` as a computation. `form` defines how the computation takes its arguments and returns
    /// its results.
    fn region<'a>(
        &mut self,
        func: &'a Func,
        constants: &'a HashMap<ValueId, &'a Literal>,
        region: &'a Region,
        name: &str,
        form: CallingConvention<'_>,
    ) -> Result<Written> {
        let (instructions, values, parameters) = (Vec::new(), HashMap::new(), Vec::new());
        let mut to = Computation { func, constants, instructions, values, parameters };
        match form {
            CallingConvention::Plain => {
                for (number, &arg) in region.args.iter().enumerate() {
                    let id = self.parameter(&mut to, number, shape::of_type(func.ty(arg))?);
                    to.values.insert(arg, id);
                }
            }
            CallingConvention::Condition(outer) | CallingConvention::Branch(outer) | CallingConvention::Body(outer) => {
                let all: Vec<ValueId> = region.args.iter().chain(outer).copied().collect();
                let shapes = all.iter().map(|&v| shape::of_type(func.ty(v))).collect::<Result<Vec<_>>>()?;
                let tuple = self.parameter(&mut to, 0, shape::tuple(shapes.clone()));
                for (index, (value, shape)) in all.into_iter().zip(shapes).enumerate() {
                    let id = self.element(&mut to, tuple, index, shape);
                    to.values.insert(value, id);
                }
            }
        }
        let Some((end, ops)) = region.ops.split_last() else {
            return Err(Error::new(ErrorKind::Structure, "a region must end in a return"));
        };
        for op in ops {
            self.op(&mut to, op)
                .map_err(|e| e.with_op(&op.kind.name()).with_location(self.module.location(op.location)))?;
        }
        let mut results = end.operands.to_vec();
        if let CallingConvention::Body(outer) = form {
            results.extend(outer);
        }
        let (root_id, result) = match (form, &results[..]) {
            (CallingConvention::Plain | CallingConvention::Condition(_), &[result]) => {
                (self.value(&mut to, result)?, shape::of_type(func.ty(result))?)
            }
            (_, results) => self.tuple(&mut to, results)?,
        };
        let (id, mut unique) = (self.id(), name.to_owned());
        while !self.names.insert(unique.clone()) {
            unique = format!("{unique}.{id}");
        }
        let program_shape = proto::ProgramShape {
            parameter_names: (0..to.parameters.len()).map(|number| format!("arg{number}")).collect(),
            parameters: to.parameters,
            result: Some(result.clone()),
        };
        let program_shape = Bytes::from(program_shape.encode_to_vec());
        let (shape, instructions) = (Some(program_shape.clone()), to.instructions);
        let computation = proto::Computation { name: unique, instructions, program_shape: shape, id, root_id };
        self.computations.push(computation.encode_to_vec().into());
        Ok(Written { id, result, program_shape })
    }

    /// Assigns an id and a name to an instruction, appends it to the computation `to`, and returns the id.
    fn add(&mut self, to: &mut Computation<'_>, shape: Shape, operands: Vec<i64>, mut i: Instruction) -> i64 {
        i.id = self.id();
        i.name = format!("{}.{}", i.opcode, i.id);
        i.shape = Some(shape);
        i.operand_ids = operands;
        to.instructions.push(i.encode_to_vec().into());
        i.id
    }

    fn parameter(&mut self, to: &mut Computation<'_>, number: usize, shape: Shape) -> i64 {
        to.parameters.push(shape.clone());
        let i = Instruction { parameter_number: long(number), ..opcode("parameter") };
        self.add(to, shape, Vec::new(), i)
    }

    /// Adds an instruction that extracts the element `index` of a tuple, and returns the instruction's id.
    fn element(&mut self, to: &mut Computation<'_>, tuple: i64, index: usize, shape: Shape) -> i64 {
        let i = Instruction { tuple_index: long(index), ..opcode("get-tuple-element") };
        self.add(to, shape, vec![tuple], i)
    }

    fn tuple(&mut self, to: &mut Computation<'_>, values: &[ValueId]) -> Result<(i64, Shape)> {
        let ids = values.iter().map(|&value| self.value(to, value)).collect::<Result<Vec<_>>>()?;
        let shapes = values.iter().map(|&value| shape::of_type(to.func.ty(value))).collect::<Result<_>>()?;
        let shape = shape::tuple(shapes);
        Ok((self.add(to, shape.clone(), ids, opcode("tuple")), shape))
    }

    /// Returns the id of the instruction that defines a value. A constant is copied into the computation when it is
    /// first used.
    fn value(&mut self, to: &mut Computation<'_>, value: ValueId) -> Result<i64> {
        if let Some(&id) = to.values.get(&value) {
            return Ok(id);
        }
        let Some(literal) = to.constants.get(&value) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the region uses a value from outside it; HLO allows this only for `while`, `if` and `case`",
            ));
        };
        let id = self.constant(to, literal)?;
        to.values.insert(value, id);
        Ok(id)
    }

    fn constant(&mut self, to: &mut Computation<'_>, constant: &Literal) -> Result<i64> {
        let literal = shape::literal_of(constant)?;
        let shape = literal.shape.clone().unwrap_or_default();
        let id = self.add(to, shape, Vec::new(), Instruction { literal: Some(literal), ..opcode("constant") });
        if !constant.splat {
            return Ok(id);
        }
        Ok(self.add(to, shape::of_tensor(&constant.ty)?, vec![id], opcode("broadcast")))
    }

    fn op<'a>(&mut self, to: &mut Computation<'a>, op: &'a Op) -> Result<()> {
        let func = to.func;
        if op.attributes.iter().any(|(name, _)| is_sharding(name)) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a sharding cannot be written as HLO; send the program as StableHLO",
            ));
        }
        match &op.kind {
            OpKind::Constant(literal) => {
                let id = self.constant(to, literal)?;
                to.values.insert(op.results[0], id);
                return Ok(());
            }
            OpKind::BroadcastInDim { broadcast_dimensions } => {
                return self.broadcast_in_dim(to, op, broadcast_dimensions);
            }
            OpKind::Tuple => {
                let (id, _) = self.tuple(to, &op.operands)?;
                to.values.insert(op.results[0], id);
                return Ok(());
            }
            OpKind::GetTupleElement { index } => {
                let tuple = self.value(to, op.operands[0])?;
                let id = self.element(to, tuple, *index, shape::of_type(func.ty(op.results[0]))?);
                to.values.insert(op.results[0], id);
                return Ok(());
            }
            _ => {}
        }
        let mut operands = Vec::with_capacity(op.operands.len());
        if !matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case | OpKind::OptimizationBarrier) {
            for &operand in &op.operands {
                operands.push(self.value(to, operand)?);
            }
        }
        let i = match &op.kind {
            OpKind::Select | OpKind::Clamp => {
                // In HLO, all operands of `select` and `clamp` have the shape of the result.
                let shape = shape::of_type(func.ty(op.results[0]))?;
                for (id, &operand) in operands.iter_mut().zip(&op.operands) {
                    let own = shape::of_type(func.ty(operand))?;
                    if own.dimensions.is_empty() && !shape.dimensions.is_empty() {
                        let wide = Shape { element_type: own.element_type, ..shape.clone() };
                        *id = self.add(to, wide, vec![*id], opcode("broadcast"));
                    }
                }
                opcode(op.kind.base_name())
            }
            OpKind::Convolution { .. } => {
                let kernel = op.operands.get(1).and_then(|&kernel| func.ty(kernel).as_tensor());
                kernel.and_then(|kernel| fields::convolution(&op.kind, kernel)).ok_or_else(no_form)?
            }
            OpKind::Rng { .. } => {
                // In HLO, the result type gives the shape of the random numbers, so drop the shape operand.
                operands.truncate(2);
                fields::instruction(op)?.ok_or_else(no_form)?
            }
            OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } => {
                let callee = self.module.func(callee).ok_or_else(|| {
                    Error::new(ErrorKind::Reference, format_args!("calls @{callee}, which does not exist"))
                })?;
                let written = self.func(callee)?;
                Instruction { called_computation_ids: vec![written.id], ..opcode("call") }
            }
            OpKind::OptimizationBarrier => {
                let (id, shape) = self.tuple(to, &op.operands)?;
                let id = self.add(to, shape, vec![id], opcode("opt-barrier"));
                return self.results(to, op, id);
            }
            OpKind::While => return self.while_loop(to, op),
            OpKind::If | OpKind::Case => return self.branches(to, op),
            _ => {
                let mut i = fields::instruction(op)?.ok_or_else(no_form)?;
                for (index, region) in op.regions.iter().enumerate() {
                    let name = format!("{}_body_{index}.{}", op.kind.base_name(), self.next + 1);
                    let region = self.region(func, to.constants, region, &name, CallingConvention::Plain)?;
                    i.called_computation_ids.push(region.id);
                }
                i
            }
        };
        let i = Instruction {
            metadata: metadata(self.module, op.location),
            frontend_attributes: fields::frontend(&op.attributes),
            ..i
        };
        match op.results[..] {
            [result] => {
                let id = self.add(to, shape::of_type(func.ty(result))?, operands, i);
                to.values.insert(result, id);
                Ok(())
            }
            ref results => {
                let shapes = results.iter().map(|&v| shape::of_type(func.ty(v))).collect::<Result<_>>()?;
                let id = self.add(to, shape::tuple(shapes), operands, i);
                self.results(to, op, id)
            }
        }
    }

    /// Adds instructions that extract the op's results from the first elements of a tuple.
    fn results(&mut self, to: &mut Computation<'_>, op: &Op, tuple: i64) -> Result<()> {
        for (index, &result) in op.results.iter().enumerate() {
            let id = self.element(to, tuple, index, shape::of_type(to.func.ty(result))?);
            to.values.insert(result, id);
        }
        Ok(())
    }

    /// Writes a broadcast. HLO's `broadcast` does not expand dimensions of extent 1, and requires ascending dimensions.
    /// A `reshape` and a `transpose` may therefore precede it.
    fn broadcast_in_dim(&mut self, to: &mut Computation<'_>, op: &Op, dimensions: &[usize]) -> Result<()> {
        let func = to.func;
        let (Some(from), Some(result)) = (func.ty(op.operands[0]).as_tensor(), func.ty(op.results[0]).as_tensor())
        else {
            return Err(no_form());
        };
        let mut id = self.value(to, op.operands[0])?;
        let kept = |&(extent, at): &(&i64, &usize)| result.shape.get(*at) == Some(extent);
        let (mut extents, mut places): (Vec<i64>, Vec<usize>) = from.shape.iter().zip(dimensions).filter(kept).unzip();
        if extents.len() != from.rank() {
            let shape = shape::of_tensor(&TensorType::new(extents.clone(), from.element))?;
            id = self.add(to, shape, vec![id], opcode("reshape"));
        }
        if !places.is_sorted() {
            let mut order: Vec<usize> = (0..places.len()).collect();
            order.sort_unstable_by_key(|&d| places[d]);
            (extents, places) = order.iter().map(|&d| (extents[d], places[d])).unzip();
            let shape = shape::of_tensor(&TensorType::new(extents, from.element))?;
            let i = Instruction { dimensions: longs(&order), ..opcode("transpose") };
            id = self.add(to, shape, vec![id], i);
        }
        let i = Instruction {
            dimensions: longs(&places),
            metadata: metadata(self.module, op.location),
            ..opcode("broadcast")
        };
        id = self.add(to, shape::of_tensor(result)?, vec![id], i);
        to.values.insert(op.results[0], id);
        Ok(())
    }

    fn while_loop<'a>(&mut self, to: &mut Computation<'a>, op: &'a Op) -> Result<()> {
        let [condition, body] = &op.regions[..] else { return Err(no_form()) };
        let outer = captures(op, to.constants);
        let state: Vec<ValueId> = op.operands.iter().chain(&outer).copied().collect();
        let (start, shape) = self.tuple(to, &state)?;
        let (func, number) = (to.func, self.next + 1);
        let name = format!("condition.{number}");
        let condition = self.region(func, to.constants, condition, &name, CallingConvention::Condition(&outer))?;
        let body = self.region(func, to.constants, body, &format!("body.{number}"), CallingConvention::Body(&outer))?;
        let i = Instruction {
            called_computation_ids: vec![body.id, condition.id],
            metadata: metadata(self.module, op.location),
            ..opcode("while")
        };
        let id = self.add(to, shape, vec![start], i);
        self.results(to, op, id)
    }

    fn branches<'a>(&mut self, to: &mut Computation<'a>, op: &'a Op) -> Result<()> {
        let outer = captures(op, to.constants);
        let mut operands = vec![self.value(to, op.operands[0])?];
        let (given, _) = self.tuple(to, &outer)?;
        let mut i = Instruction { metadata: metadata(self.module, op.location), ..opcode("conditional") };
        let mut shape = Shape::default();
        for region in &op.regions {
            let name = format!("branch.{}", self.next + 1);
            let branch = self.region(to.func, to.constants, region, &name, CallingConvention::Branch(&outer))?;
            i.called_computation_ids.push(branch.id);
            operands.push(given);
            shape = branch.result;
        }
        let id = self.add(to, shape, operands, i);
        self.results(to, op, id)
    }
}

#[cold]
fn no_form() -> Error {
    Error::new(ErrorKind::Unsupported, "the op cannot be written as HLO; send the program as StableHLO")
}

/// Returns the values that the regions use but do not define, except for constants.
fn captures(op: &Op, constants: &HashMap<ValueId, &Literal>) -> Vec<ValueId> {
    op.captures().into_iter().filter(|value| !constants.contains_key(value)).collect()
}

/// Returns the framework's name for an op, and the op's position in a source file. Returns `None` if both are unknown.
fn metadata(module: &Module, location: LocationId) -> Option<proto::Metadata> {
    let mut metadata = proto::Metadata::default();
    let mut next = Some(location);
    // Limit the number of steps, because the locations of a malicious program may be cyclic.
    for _ in 0..MAX_NESTING {
        let Some(location) = next.take().and_then(|id| module.locations.get(id)) else { break };
        match &*location {
            Location::Name(name, inner) => {
                if metadata.op_name.is_empty() {
                    metadata.op_name.clone_from(name);
                }
                next = Some(*inner);
            }
            Location::File { file, line, column } => {
                let number = |n: u64| i32::try_from(n).unwrap_or(0);
                (metadata.source_line, metadata.source_column) = (number(*line), number(*column));
                metadata.source_file.clone_from(file);
            }
            _ => {}
        }
    }
    (metadata != proto::Metadata::default()).then_some(metadata)
}
