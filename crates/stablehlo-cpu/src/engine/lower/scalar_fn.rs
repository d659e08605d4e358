//! A compiled region of scalars: vector code if it is straight-line code, otherwise steps that run element by element.

use super::Result;
use crate::engine::dtype::TensorType;
use crate::engine::emit::emit;
use crate::engine::error::RunError;
use crate::engine::graph::{BlockGraph, Node, Op, V, Value};
use crate::engine::kernels::Context;
use crate::engine::pool::{Buffer, Pool};
use crate::engine::program::{Block, run_block};
use crate::engine::stop::Stop;
use crate::engine::tile::TileProgram;

/// A scalar region, to be run for many elements at once. Inputs are the region's arguments, then `captured` values.
pub(crate) struct ScalarFn {
    pub(super) code: Code,
    pub(crate) captured: Vec<V>,
    pub(crate) results: Vec<TensorType>,
}

pub(super) enum Code {
    Vectors(TileProgram),
    Steps(Steps),
}

impl ScalarFn {
    /// Runs for `n` elements. `alias[o]` is the argument whose elements output `o` already holds and overwrites. The
    /// slice of that argument is not read. Returns an error after a stop request.
    pub(crate) fn run(
        &self,
        n: usize,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        alias: &[Option<u16>],
        stop: Option<&Stop>,
    ) -> std::result::Result<(), RunError> {
        Stop::check(stop)?;
        match &self.code {
            Code::Vectors(program) => {
                program.run(n, ins, outs, alias);
                Ok(())
            }
            Code::Steps(steps) => steps.run(n, ins, outs, alias, stop),
        }
    }

    /// Whether it has a loop, so that it may take unlimited time.
    pub(crate) fn has_loop(&self) -> bool {
        match &self.code {
            Code::Vectors(_) => false,
            Code::Steps(steps) => steps.block.has_loop(),
        }
    }

    /// The vector code, if the region was compiled to it.
    pub(super) fn into_vectors(self) -> Option<(TileProgram, Vec<V>)> {
        match self.code {
            Code::Vectors(program) => Some((program, self.captured)),
            Code::Steps(_) => None,
        }
    }
}

/// Steps that compute one element.
pub(super) struct Steps {
    block: Block,
    consts: Vec<Buffer>,
    slots: usize,
    /// Bytes of each argument.
    args: Vec<usize>,
    /// Bytes of each result.
    results: Vec<usize>,
}

impl Steps {
    /// Compiles a region's nodes. Also returns the values that it captures.
    pub(super) fn compile(block: BlockGraph, args: &[V], values: &[Value], pool: &Pool) -> Result<(Self, Vec<V>)> {
        let mut captured = Vec::new();
        let mut made = args.to_vec();
        made_by(&block, &mut made);
        block.for_each_use(&mut |v| {
            let constant = values.get(v as usize).is_none_or(|value| value.constant.is_some());
            if !constant && !made.contains(&v) && !captured.contains(&v) {
                captured.push(v);
            }
        });
        let bytes = |list: &[V]| list.iter().map(|&v| values[v as usize].bytes()).collect();
        let (sizes, results) = (bytes(args), bytes(&block.results));
        let all: Vec<V> = args.iter().chain(&captured).copied().collect();
        let emitted = emit(block, &all, values, pool)?;
        let (block, consts, slots) = (emitted.block, emitted.consts, emitted.slots);
        Ok((Steps { block, consts, slots, args: sizes, results }, captured))
    }

    fn run(
        &self,
        n: usize,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        alias: &[Option<u16>],
        stop: Option<&Stop>,
    ) -> std::result::Result<(), RunError> {
        let pool = Pool::global();
        let cx = Context { pool, stop };
        let (arguments, captured) = ins.split_at(self.args.len());
        let captured: Vec<Buffer> =
            captured.iter().map(|c| Buffer::copy_of(pool, c)).collect::<std::result::Result<_, _>>()?;
        for i in 0..n {
            let mut inputs = Vec::with_capacity(ins.len());
            for (a, (&size, given)) in self.args.iter().zip(arguments).enumerate() {
                let held = alias.iter().position(|from| from.is_some_and(|from| usize::from(from) == a));
                let given = held.map_or(*given, |o| &*outs[o]);
                inputs.push(Buffer::copy_of(pool, &given[i * size..][..size])?);
            }
            inputs.extend(captured.iter().cloned());
            let results = run_block(&self.block, &self.consts, self.slots, inputs, &cx)?;
            for ((out, result), &size) in outs.iter_mut().zip(&results).zip(&self.results) {
                out[i * size..][..size].copy_from_slice(&result.bytes()[..size]);
            }
        }
        Ok(())
    }
}

/// Collects the values that a block's nodes define, including those in their regions.
fn made_by(block: &BlockGraph, made: &mut Vec<V>) {
    for node in &block.nodes {
        made.extend(&node.outs);
        match &node.op {
            Op::While { carried, cond, body } => {
                made.extend(carried);
                made_by(cond, made);
                made_by(body, made);
            }
            Op::Case { branches, .. } => branches.iter().for_each(|b| made_by(b, made)),
            _ => {}
        }
    }
}

/// Whether any of the nodes is a collective.
pub(super) fn meets(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match &node.op {
        Op::Collective(_) => true,
        Op::While { cond, body, .. } => meets(&cond.nodes) || meets(&body.nodes),
        Op::Case { branches, .. } => branches.iter().any(|b| meets(&b.nodes)),
        _ => false,
    })
}
