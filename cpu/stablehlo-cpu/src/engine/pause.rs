//! Runs that pause after a limited amount of work, so that another thread can continue them.

use std::fmt;

use super::kernels::Kernel;
use super::pool::{Buffer, Pool};
use super::program::{Arg, Env, Out, Outputs, Program, Step};
use super::stop::Stop;
use super::tensor::Tensor;
use crate::error::RunError;

/// The result of [`Program::start`].
#[derive(Debug)]
pub enum Progress {
    /// The run has ended with these outputs.
    Ended(Vec<Tensor>),
    /// The run has paused in a loop.
    Paused(PausedRun),
}

/// A run that has paused in a loop. [`Program::resume`] continues it.
pub struct PausedRun {
    slots: Vec<Option<Buffer>>,
    /// Index of the step that runs the loop.
    at: usize,
    state: Outputs,
}

impl fmt::Debug for PausedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausedRun").field("step", &self.at).finish_non_exhaustive()
    }
}

impl Program {
    /// Returns whether [`Program::start`] can limit the work of every loop of the program. This requires that each loop
    /// is compiled to machine code and contains neither another loop nor a step of the interpreter. Also returns
    /// `false` if the program has no loops, has loops in branches, or contains collectives or bounded dimensions.
    pub fn can_pause(&self) -> bool {
        let may_run = |step: &Step| match step {
            Step::Tile { .. } => true,
            Step::Kernel { kernel, .. } => !kernel.has_loop() || kernel.iteration_work().is_some(),
            Step::Case { branches, .. } => !branches.iter().any(|branch| branch.has_loop()),
            Step::Collective { .. } | Step::While { .. } => false,
        };
        self.bounded.is_none() && self.loops() > 0 && self.block.steps.iter().all(may_run)
    }

    /// Returns the number of loops that can pause.
    fn loops(&self) -> u64 {
        let loops = self.block.steps.iter().filter_map(LoopStep::new).count();
        u64::try_from(loops).unwrap_or(u64::MAX)
    }

    /// Runs a program that [can pause](Program::can_pause), as the only member of a launch. All loops of the program
    /// together run at most about `operations` scalar operations. The steps outside of loops run without a limit.
    pub fn start(&self, inputs: Vec<Tensor>, pool: &Pool, operations: u64) -> Result<Progress, RunError> {
        let share = operations / self.loops().max(1);
        let mut env = self.env(inputs, pool, None, None)?;
        for (at, step) in self.block.steps.iter().enumerate() {
            let Some(own) = LoopStep::new(step) else {
                env.step(step)?;
                continue;
            };
            let mut state = env.kernel_outputs(own.args, own.outs)?;
            let iterations = share / own.work.max(1);
            let has_ended =
                env.run_kernel(own.args, &mut state, |ins, outs, cx| own.kernel.run_part(iterations, ins, outs, cx))?;
            if !has_ended {
                return Ok(Progress::Paused(PausedRun { slots: env.slots, at, state }));
            }
            env.store(own.outs, state, own.free);
        }
        self.results(&mut env).map(Progress::Ended)
    }

    /// Continues a paused run to its end. Pass the pool that was passed to [`Program::start`]. Without `stop`, a
    /// program whose loop never ends runs forever.
    pub fn resume(&self, run: PausedRun, pool: &Pool, stop: Option<&Stop>) -> Result<Vec<Tensor>, RunError> {
        let PausedRun { slots, at, mut state } = run;
        let mut env = Env { consts: &self.consts, slots, pool, member: None, stop };
        let Some((step, rest)) = self.block.steps.get(at..).and_then(<[Step]>::split_first) else {
            return Err(RunError::Internal(format!("a run of another program paused at step {at}")));
        };
        if let Some(own) = LoopStep::new(step) {
            env.run_kernel(own.args, &mut state, |ins, outs, cx| own.kernel.run(ins, outs, cx))?;
            env.store(own.outs, state, own.free);
        }
        for step in rest {
            Stop::check(stop)?;
            env.step(step)?;
        }
        Stop::check(stop)?;
        self.results(&mut env)
    }
}

/// A step that runs a loop that can pause.
struct LoopStep<'p> {
    kernel: &'p dyn Kernel,
    /// Work of an iteration, in scalar operations.
    work: u64,
    args: &'p [Arg],
    outs: &'p [Out],
    free: &'p [u32],
}

impl<'p> LoopStep<'p> {
    /// Returns the loop of a step, or `None` if the step does not run a loop that can pause.
    fn new(step: &'p Step) -> Option<Self> {
        let Step::Kernel { kernel, args, outs, free } = step else { return None };
        Some(Self { kernel: &**kernel, work: kernel.iteration_work()?, args, outs, free })
    }
}
