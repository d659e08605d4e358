//! Regions of scalars that are not straight-line code. Their steps run for one element at a time.

use super::Result;
use crate::engine::emit::emit;
use crate::engine::graph::{BlockGraph, Node, Op, Value, ValueIndex};
use crate::engine::kernels::Context;
use crate::engine::pool::{Buffer, Pool};
use crate::engine::program::{Block, run_block};
use crate::engine::scalar_fn::ElementSteps;
use crate::engine::settings::CompileSettings;
use crate::engine::stop::Stop;
use crate::error::RunError;

/// Steps that compute the results of a region for one element.
pub(super) struct ScalarSteps {
    block: Block,
    consts: Vec<Buffer>,
    slots: usize,
    /// Size of each argument in bytes.
    args: Vec<usize>,
    /// Size of each result in bytes.
    results: Vec<usize>,
}

/// Compiles a region's nodes to steps. Also returns the values that the region captures.
pub(super) fn compile_steps(
    block: BlockGraph,
    args: &[ValueIndex],
    values: &[Value],
    pool: &Pool,
    settings: &CompileSettings,
) -> Result<(ScalarSteps, Vec<ValueIndex>)> {
    let mut captured = Vec::new();
    let mut made = args.to_vec();
    made_by(&block, &mut made);
    block.for_each_use(&mut |v| {
        let constant = values.get(v as usize).is_none_or(|value| value.constant.is_some());
        if !constant && !made.contains(&v) && !captured.contains(&v) {
            captured.push(v);
        }
    });
    let bytes = |list: &[ValueIndex]| list.iter().map(|&v| values[v as usize].bytes()).collect();
    let (sizes, results) = (bytes(args), bytes(&block.results));
    let all: Vec<ValueIndex> = args.iter().chain(&captured).copied().collect();
    let emitted = emit(block, &all, values, pool, settings)?;
    let (block, consts, slots) = (emitted.block, emitted.consts, emitted.slots);
    Ok((ScalarSteps { block, consts, slots, args: sizes, results }, captured))
}

impl ElementSteps for ScalarSteps {
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
    fn has_loop(&self) -> bool {
        self.block.has_loop()
    }
}

/// Collects the values that a block's nodes define, including those in their regions.
fn made_by(block: &BlockGraph, made: &mut Vec<ValueIndex>) {
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

/// Returns whether any of the nodes is a collective.
pub(super) fn has_collective(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match &node.op {
        Op::Collective(_) => true,
        Op::While { cond, body, .. } => has_collective(&cond.nodes) || has_collective(&body.nodes),
        Op::Case { branches, .. } => branches.iter().any(|b| has_collective(&b.nodes)),
        _ => false,
    })
}
