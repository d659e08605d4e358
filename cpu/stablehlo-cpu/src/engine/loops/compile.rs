//! Compiles a loop of the graph.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stablehlo_jit::{Access, Array, Block, Code, Error, Expression, Program, Statement};

use super::floats::Floats;
use super::indexed::Indexed;
use super::kernel::LoopKernel;
use super::translator::{Later, Place, Representation, Translator};
use super::work;
use crate::engine::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use crate::engine::kernels::Kernel;

/// A loop that was compiled to machine code.
pub(crate) struct CompiledLoop {
    /// The kernel that runs the loop. Its inputs are the initial values and the captured values. Its outputs start as
    /// copies of the initial values.
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) captured: Vec<ValueIndex>,
}

/// Maximum number of elements of an array that is kept in registers. Longer arrays would occupy all registers.
const MAX_IN_REGISTERS: usize = 8;

/// Compiles a loop. Returns `None` if only the interpreter can run it.
pub(crate) fn compile(node: &Node, values: &[Value]) -> Option<CompiledLoop> {
    let captured = captured(node, values);
    // A loop with many small arrays in registers may be too large for the code generator. In this case, keep the arrays
    // in memory and generate loops over their elements.
    let compiled = match translate(node, values, &captured, MAX_IN_REGISTERS)? {
        Err(Error::TooLarge { .. }) => translate(node, values, &captured, 1)?,
        compiled => compiled,
    };
    Some(CompiledLoop { kernel: Arc::new(compiled.ok()?), captured })
}

/// Translates and compiles a loop. Arrays of at most `most` elements are kept in registers unless the loop accesses
/// them at computed positions.
fn translate(node: &Node, values: &[Value], captured: &[ValueIndex], most: usize) -> Option<Result<LoopKernel, Error>> {
    let Op::While { carried, cond, body } = &node.op else { return None };
    let mut floats = Floats::new(values);
    floats.block(cond);
    floats.block(body);
    for (&c, &next) in carried.iter().zip(&body.results) {
        floats.join(c, next);
    }
    let mut program = Program::new();
    let reads: Vec<_> = captured.iter().map(|&v| program.array(values[v as usize].bytes(), false)).collect();
    let homes: Vec<_> = carried.iter().map(|&v| program.array(values[v as usize].bytes(), true)).collect();
    let frame = program.array(0, true);
    let mut translator = Translator {
        values,
        program,
        out: Vec::new(),
        representations: HashMap::new(),
        sharers: HashMap::new(),
        elements: Vec::new(),
        stored: Vec::new(),
        most,
        floats,
        indexed: Indexed::new(values, node),
        frame,
        used: 0,
        steps: Vec::new(),
    };
    for (&v, array) in captured.iter().zip(reads) {
        if values[v as usize].n == 1 {
            let element = translator.element(v)?;
            let value = translator.define(element, Expression::Load(at(array, 0)));
            translator.representations.insert(v, Representation::Scalar(value));
        } else {
            translator.hold_at(v, Place { array, start: 0, owned: false });
        }
    }
    let (mut initial, mut places) = (Vec::new(), Vec::new());
    for (&c, &array) in carried.iter().zip(&homes) {
        if values[c as usize].n == 0 {
            return None;
        }
        match translator.registers(c) {
            Some(count) => {
                let element = translator.element(c)?;
                for i in 0..count {
                    let from = at(array, i * element.size());
                    initial.push(translator.define(element, Expression::Load(from)));
                }
            }
            None => places.push(Place { array, start: 0, owned: true }),
        }
    }
    let inside = Later::Values(captured.iter().copied().collect(), None);
    let results = translator.looped(carried, &places, initial, cond, body, &inside)?;
    let mut results = results.into_iter();
    for (&c, &array) in carried.iter().zip(&homes) {
        for i in 0..translator.registers(c).unwrap_or(0) {
            let to = at(array, i * translator.element(c)?.size());
            translator.out.push(Statement::Store { to, value: results.next()? });
        }
    }
    let Translator { mut program, out, used, steps, .. } = translator;
    program.resize(frame, used);
    program.body = Block::new(out, Vec::new()).ok()?;
    let (carried, iteration_work) = (carried.len(), work::of_iteration(&program.body));
    Some(Code::compile(&program).map(|code| LoopKernel { code, carried, frame: used, steps, iteration_work }))
}

/// Returns the access to the element at byte `offset` of an array.
fn at(array: Array, offset: usize) -> Access {
    Access { array, offset, terms: Vec::new() }
}

/// Returns the values that a loop captures, except constants that become part of the code.
fn captured(node: &Node, values: &[Value]) -> Vec<ValueIndex> {
    let mut made: HashSet<ValueIndex> = HashSet::new();
    made_by(node, &mut made);
    let mut captured = Vec::new();
    node.for_each_region_use(&mut |v| {
        let value = &values[v as usize];
        let inlined = match &value.constant {
            Some(Constant::Splat(_)) => true,
            Some(Constant::Dense(_)) => value.n == 1,
            None => false,
        };
        if !inlined && made.insert(v) {
            captured.push(v);
        }
    });
    captured
}

/// Collects the values that the regions of a node define.
fn made_by(node: &Node, made: &mut HashSet<ValueIndex>) {
    let mut block = |block: &BlockGraph| {
        for node in &block.nodes {
            made.extend(&node.outs);
            made_by(node, made);
        }
    };
    match &node.op {
        Op::While { cond, body, .. } => {
            block(cond);
            block(body);
        }
        Op::Case { branches, .. } => branches.iter().for_each(block),
        _ => {}
    }
    if let Op::While { carried, .. } = &node.op {
        made.extend(carried);
    }
}
