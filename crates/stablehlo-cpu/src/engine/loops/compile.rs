//! Compiles a loop of the graph.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stablehlo_jit::{Access, Block, Code, Expression, Program, Statement};

use super::floats::Floats;
use super::kernel::LoopKernel;
use super::translator::{Place, Representation, Translator};
use crate::engine::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use crate::engine::kernels::Kernel;

/// A compiled loop.
pub(crate) struct CompiledLoop {
    /// The step. Its inputs are the initial values, of which its outputs start as copies, and the captured values.
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) captured: Vec<ValueIndex>,
}

/// Compiles a loop. Returns `None` if only the interpreter can run it.
pub(crate) fn compile(node: &Node, values: &[Value]) -> Option<CompiledLoop> {
    let Op::While { carried, cond, body } = &node.op else { return None };
    let captured = captured(node, values);
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
        floats,
        frame,
        used: 0,
        steps: Vec::new(),
    };
    for (&v, array) in captured.iter().zip(reads) {
        if values[v as usize].n == 1 {
            let element = translator.element(v)?;
            let value = translator.define(element, Expression::Load(whole(array)));
            translator.representations.insert(v, Representation::Scalar(value));
        } else {
            translator.hold_at(v, Place { array, start: 0, owned: false });
        }
    }
    let (mut initial, mut places) = (Vec::new(), Vec::new());
    for (&c, &array) in carried.iter().zip(&homes) {
        match values[c as usize].n {
            0 => return None,
            1 => {
                let element = translator.element(c)?;
                initial.push(translator.define(element, Expression::Load(whole(array))));
            }
            _ => places.push(Place { array, start: 0, owned: true }),
        }
    }
    let inside: HashSet<ValueIndex> = captured.iter().copied().collect();
    let results = translator.looped(carried, &places, initial, cond, body, &inside)?;
    let scalars = carried.iter().zip(&homes).filter(|&(&c, _)| values[c as usize].n == 1);
    for ((_, &array), value) in scalars.zip(results) {
        translator.out.push(Statement::Store { to: whole(array), value });
    }
    let Translator { mut program, out, used, steps, .. } = translator;
    program.resize(frame, used);
    program.body = Block { statements: out, results: Vec::new() };
    let code = Code::compile(&program).ok()?;
    let kernel = LoopKernel { code, carried: carried.len(), frame: used, steps };
    Some(CompiledLoop { kernel: Arc::new(kernel), captured })
}

/// The first element of an array.
fn whole(array: stablehlo_jit::Array) -> Access {
    Access { array, offset: 0, terms: Vec::new() }
}

/// The values from outside that a loop reads, except constants that its code contains.
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
