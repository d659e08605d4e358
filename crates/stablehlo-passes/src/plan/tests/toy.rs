//! An interpreter for plans, whose memory loses its contents as soon as a plan no longer needs them.

use std::collections::HashMap;
use std::sync::Arc;

use stablehlo::ir::{Binary, ComparisonDirection, ElementType, Func, Module, Op, OpKind, TensorType, Type, ValueId};
use stablehlo_cpu::{DType, Tensor};

use crate::index_map::{Coordinate, index_map};
use crate::plan::{Device, Fusion, Kernel, Memory, Place, Plan, run};

/// A kernel with all that it computes inside.
#[derive(Clone, Debug)]
pub(super) struct Toy {
    func: Arc<Func>,
    op: Op,
    reads: Vec<ValueId>,
    inside: HashMap<ValueId, Op>,
    /// The kernel's index among those of the plan.
    number: usize,
}

fn classify(op: &Op) -> Fusion {
    match op.kind {
        OpKind::Reshape | OpKind::OptimizationBarrier => Fusion::View,
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::BroadcastInDim { .. } => Fusion::Cheap,
        OpKind::Reduce { .. } => Fusion::Root,
        // Stands for ops whose operands must be in memory.
        OpKind::Binary(Binary::Xor) => Fusion::Opaque,
        OpKind::AfterAll | OpKind::CreateToken => Fusion::Nothing,
        _ => Fusion::Fusible,
    }
}

pub(super) fn plan(module: &Module) -> Plan<Toy> {
    let func = Arc::new(module.entry().unwrap().clone());
    let mut kernels = 0;
    let compile = |kernel: &Kernel<'_>| {
        kernels += 1;
        let mut inside = HashMap::new();
        let mut open = vec![kernel.op];
        while let Some(op) = open.pop() {
            let nested = op.regions.iter().flat_map(|region| region.all_ops());
            for &value in op.operands.iter().chain(nested.flat_map(|op| &op.operands)) {
                if let Some(op) = kernel.definition(value) {
                    inside.insert(value, op.clone());
                    open.push(op);
                }
            }
        }
        Ok::<_, stablehlo::Error>(Toy {
            func: func.clone(),
            op: kernel.op.clone(),
            reads: kernel.reads.clone(),
            inside,
            number: kernels - 1,
        })
    };
    Plan::new(&func, 16, classify, compile).unwrap()
}

fn tensor(func: &Func, value: ValueId) -> &TensorType {
    match func.ty(value) {
        Type::Tensor(ty) => ty,
        other => panic!("{other}"),
    }
}

fn coordinates(ty: &TensorType, mut at: i64) -> Vec<i64> {
    let mut result = vec![0; ty.rank()];
    for (coordinate, &extent) in result.iter_mut().zip(&ty.shape).rev() {
        *coordinate = at % extent;
        at /= extent;
    }
    result
}

fn linear(ty: &TensorType, coordinates: &[i64]) -> i64 {
    coordinates.iter().zip(&ty.shape).fold(0, |at, (coordinate, extent)| at * extent + coordinate)
}

fn decode(bytes: &[u8], element: ElementType) -> i64 {
    match element {
        ElementType::Bool => i64::from(bytes[0]),
        ElementType::I32 => i64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        other => panic!("{other}"),
    }
}

/// Evaluates elements of values.
struct Evaluation<'a> {
    toy: &'a Toy,
    inputs: &'a [Vec<u8>],
    /// The arguments of a region.
    arguments: HashMap<ValueId, i64>,
}

impl Evaluation<'_> {
    fn value(&self, value: ValueId, at: i64) -> i64 {
        if let Some(&argument) = self.arguments.get(&value) {
            return argument;
        }
        let ty = tensor(&self.toy.func, value);
        let at = if ty.num_elements() == Some(1) { 0 } else { at };
        if let Some(read) = self.toy.reads.iter().position(|&read| read == value) {
            let size = ty.element.byte_size();
            return decode(&self.inputs[read][usize::try_from(at).unwrap() * size..][..size], ty.element);
        }
        self.op(&self.toy.inside[&value], value, at)
    }

    fn coordinate(&self, op: &Op, coordinate: &Coordinate, out: &[i64]) -> Option<i64> {
        let mut number = coordinate.dimension.map_or(0, |d| out[d]) * coordinate.stride + coordinate.offset;
        if let Some(start) = &coordinate.start {
            let by = self.value(op.operands[start.operand], 0).clamp(0, start.last);
            number += if start.subtracts { -by } else { by };
        }
        let divided = number / coordinate.divisor;
        match coordinate.within {
            Some(extent) if number < 0 || number % coordinate.divisor != 0 || divided >= extent => None,
            _ => Some(divided),
        }
    }

    fn op(&self, op: &Op, result: ValueId, at: i64) -> i64 {
        let ty = tensor(&self.toy.func, result);
        if let Some(sources) = index_map(op, &self.toy.func.values) {
            let out = coordinates(ty, at);
            for source in &sources {
                let all = source.coordinates.iter().map(|coordinate| self.coordinate(op, coordinate, &out));
                if let Some(all) = all.collect::<Option<Vec<i64>>>() {
                    let operand = op.operands[source.operand];
                    return self.value(operand, linear(tensor(&self.toy.func, operand), &all));
                }
            }
            panic!("no source of {}", op.kind.name());
        }
        let x = |operand: usize| self.value(op.operands[operand], at);
        let number = match &op.kind {
            OpKind::Constant(literal) => decode(&literal.data, literal.ty.element),
            OpKind::Iota { iota_dimension } => coordinates(ty, at)[*iota_dimension],
            OpKind::Reshape => x(0),
            OpKind::OptimizationBarrier => x(op.results.iter().position(|&value| value == result).unwrap()),
            OpKind::Convert => x(0),
            OpKind::Select => x(if x(0) != 0 { 1 } else { 2 }),
            OpKind::Compare { direction: ComparisonDirection::Lt, .. } => i64::from(x(0) < x(1)),
            OpKind::Binary(Binary::Add) => x(0) + x(1),
            OpKind::Binary(Binary::Subtract) => x(0) - x(1),
            OpKind::Binary(Binary::Multiply) => x(0) * x(1),
            OpKind::Binary(Binary::Maximum) => x(0).max(x(1)),
            OpKind::Binary(Binary::Xor) => x(0) ^ x(1),
            OpKind::Reduce { dimensions } => self.reduce(op, dimensions, ty, at),
            other => panic!("{}", other.name()),
        };
        match ty.element {
            ElementType::Bool => i64::from(number != 0),
            // Wraps as 32-bit integers do.
            _ => i64::from(i32::from_le_bytes(number.to_le_bytes()[..4].try_into().unwrap())),
        }
    }

    fn reduce(&self, op: &Op, dimensions: &[usize], ty: &TensorType, at: i64) -> i64 {
        let from = tensor(&self.toy.func, op.operands[0]);
        let out = coordinates(ty, at);
        let mut sum = self.value(op.operands[1], 0);
        for element in 0..i64::try_from(from.num_elements().unwrap()).unwrap() {
            let all = coordinates(from, element);
            let kept = (0..from.rank()).filter(|d| !dimensions.contains(d)).map(|d| all[d]);
            if kept.eq(out.iter().copied()) {
                let body = &op.regions[0];
                let arguments = body.args.iter().copied().zip([sum, self.value(op.operands[0], element)]).collect();
                let inner = Evaluation { toy: self.toy, inputs: self.inputs, arguments };
                sum = inner.value(body.ops.last().unwrap().operands[0], 0);
            }
        }
        sum
    }
}

struct Machine<'p> {
    plan: &'p Plan<Toy>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    memories: Vec<Vec<u8>>,
    constants: usize,
    scratch: usize,
    steps: usize,
}

impl Machine<'_> {
    fn memory(&self, memory: Memory) -> usize {
        match memory {
            Memory::Input(input) => self.inputs[input],
            Memory::Output(output) => self.outputs[output],
            Memory::Constants => self.constants,
            Memory::Scratch => self.scratch,
        }
    }

    fn bytes(&self, place: Place) -> &[u8] {
        &self.memories[self.memory(place.memory)][place.offset..][..place.bytes]
    }

    /// Overwrites the scratch memory that holds no value after this time.
    fn poison(&mut self, time: u32) {
        let mut is_live = vec![false; self.memories[self.scratch].len()];
        for live in &self.plan.live {
            if live.interval.first <= time && time < live.interval.last {
                is_live[live.place.offset..][..live.place.bytes].fill(true);
            }
        }
        for (byte, _) in self.memories[self.scratch].iter_mut().zip(is_live).filter(|(_, is_live)| !is_live) {
            *byte = 0xa5;
        }
    }
}

impl Device for Machine<'_> {
    type Kernel = Toy;
    type Error = String;

    fn run(&mut self, toy: &Toy, reads: &[Place], writes: &[Place]) -> Result<(), String> {
        self.steps += 1;
        if self.steps > 10_000 {
            return Err("too many steps".to_owned());
        }
        let mut inputs: Vec<Vec<u8>> = reads.iter().map(|place| self.bytes(*place).to_vec()).collect();
        let results = toy.op.results.iter().filter(|&&result| *toy.func.ty(result) != Type::Token);
        for (&result, place) in results.zip(writes) {
            let ty = tensor(&toy.func, result);
            let size = ty.element.byte_size();
            let memory = self.memory(place.memory);
            for (at, to) in (0..).zip(self.memories[memory][place.offset..][..place.bytes].chunks_mut(size)) {
                let evaluation = Evaluation { toy, inputs: &inputs, arguments: HashMap::new() };
                to.copy_from_slice(&evaluation.op(&toy.op, result, at).to_le_bytes()[..size]);
                // Later elements see what this one overwrites.
                for (input, _) in inputs.iter_mut().zip(reads).filter(|(_, read)| *read == place) {
                    input[usize::try_from(at).unwrap() * size..][..size].copy_from_slice(to);
                }
            }
        }
        self.poison(self.plan.times[toy.number]);
        Ok(())
    }

    fn copy(&mut self, from: Place, to: Place) -> Result<(), String> {
        let bytes = self.bytes(from).to_vec();
        let memory = self.memory(to.memory);
        self.memories[memory][to.offset..][..to.bytes].copy_from_slice(&bytes);
        Ok(())
    }

    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<(), String> {
        to.copy_from_slice(self.bytes(from));
        Ok(())
    }
}

/// Runs a plan. Donated arguments and their outputs share memory.
fn execute(plan: &Plan<Toy>, func: &Func, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut memories = inputs.to_vec();
    let mut outputs = Vec::new();
    for (output, ty) in func.results.iter().enumerate() {
        let Type::Tensor(ty) = ty else { panic!("{ty}") };
        outputs.push(plan.output_aliases[output].unwrap_or_else(|| {
            memories.push(vec![0x5a; ty.byte_size().unwrap()]);
            memories.len() - 1
        }));
    }
    memories.extend([plan.constants.clone(), vec![0x5a; plan.scratch_bytes]]);
    let (constants, scratch) = (memories.len() - 2, memories.len() - 1);
    let inputs = (0..inputs.len()).collect();
    let mut machine = Machine { plan, inputs, outputs: outputs.clone(), memories, constants, scratch, steps: 0 };
    run(&plan.steps, &mut machine).unwrap();
    outputs.into_iter().map(|output| machine.memories[output].clone()).collect()
}

/// Compares the results of a program with those of the CPU device.
pub(super) fn check(name: &str, module: &Module) {
    let func = module.entry().unwrap();
    let mut inputs = Vec::new();
    let mut tensors = Vec::new();
    for (number, &arg) in func.args().iter().enumerate() {
        let ty = tensor(func, arg);
        let dims: Vec<usize> = ty.shape.iter().map(|&extent| usize::try_from(extent).unwrap()).collect();
        let count = i32::try_from(ty.num_elements().unwrap()).unwrap();
        let seed = i32::try_from(number).unwrap() * 7 - 3;
        if ty.element == ElementType::Bool {
            let elements: Vec<u8> = (0..count).map(|i| u8::from((i + seed) % 3 == 0)).collect();
            tensors.push(Tensor::from_slice(DType::Bool, &dims, &elements).unwrap());
            inputs.push(elements);
        } else {
            let elements: Vec<i32> = (0..count).map(|i| (i * 5 + seed) % 17).collect();
            tensors.push(Tensor::from_slice(DType::I32, &dims, &elements).unwrap());
            inputs.push(elements.iter().flat_map(|element| element.to_le_bytes()).collect());
        }
    }
    let expected = stablehlo_cpu::compile(module).unwrap().run(tensors).unwrap();
    let found = execute(&plan(module), func, &inputs);
    assert_eq!(found.len(), expected.len(), "{name}");
    for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected.bytes(), "output {output} of {name}");
    }
}
