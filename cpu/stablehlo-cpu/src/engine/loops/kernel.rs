//! A compiled loop as a step of a program.

use std::sync::Arc;

use stablehlo_jit::{Code, Error, Host};

use crate::engine::kernels::{Context, Kernel};
use crate::engine::stop::Stop;
use crate::engine::tile::TileProgram;
use crate::error::RunError;

/// A kernel that runs a compiled loop. Its inputs are the initial values and the values that the loop captures. The
/// outputs start as copies of the initial values.
pub(super) struct LoopKernel {
    pub(super) code: Code,
    /// Number of values that the loop carries.
    pub(super) carried: usize,
    /// Size in bytes of the memory for temporary arrays.
    pub(super) frame: usize,
    /// The steps that the interpreter runs.
    pub(super) steps: Vec<HostWork>,
    /// Maximum work of an iteration, in statements of the compiled program. `None` if there is no fixed maximum.
    pub(super) iteration_work: Option<u64>,
}

/// A step of a compiled loop that the interpreter runs.
pub(super) enum HostWork {
    Kernel(Arc<dyn Kernel>),
    /// A group of elementwise functions, and the number of elements.
    Tile(TileProgram, usize),
}

impl HostWork {
    fn is_kernel(&self, is_it: fn(&dyn Kernel) -> bool) -> bool {
        match self {
            HostWork::Kernel(kernel) => is_it(&**kernel),
            HostWork::Tile(..) => false,
        }
    }
}

/// Runs the steps of the interpreter that the compiled loop calls.
struct Steps<'r> {
    steps: &'r [HostWork],
    cx: &'r Context<'r>,
    error: Option<RunError>,
}

impl Host for Steps<'_> {
    fn call(&mut self, step: u32, reads: &[&[u8]], writes: &mut [&mut [u8]]) -> bool {
        let result = match &self.steps[step as usize] {
            HostWork::Kernel(kernel) => kernel.run(reads, writes, self.cx),
            HostWork::Tile(program, n) => {
                program.run(*n, reads, writes, &[]);
                Ok(())
            }
        };
        self.error = result.err();
        self.error.is_none()
    }
}

impl Kernel for LoopKernel {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        // Run the loop to its end, because no loop runs `u64::MAX` iterations.
        self.run_part(u64::MAX, ins, outs, cx).map(drop)
    }

    fn iteration_work(&self) -> Option<u64> {
        self.iteration_work
    }

    fn run_part(
        &self,
        iterations: u64,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        cx: &Context<'_>,
    ) -> Result<bool, RunError> {
        let mut frame = cx.pool.alloc(self.frame)?;
        let mut writes: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut **out).collect();
        writes.push(frame.write()?);
        let stop = cx.stop.map(Stop::flag);
        let mut host = Steps { steps: &self.steps, cx, error: None };
        let result = self.code.run_part(iterations, &ins[self.carried..], &mut writes, stop, &mut host);
        match (host.error, result) {
            (Some(error), _) => Err(error),
            (None, Ok(has_ended)) => Ok(has_ended),
            (None, Err(Error::Stopped)) => Err(RunError::Stopped),
            (None, Err(other)) => Err(RunError::Internal(other.to_string())),
        }
    }

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        self.frame
    }

    fn has_side_effect(&self) -> bool {
        self.steps.iter().any(|step| step.is_kernel(|kernel| kernel.has_side_effect()))
    }

    fn calls_handler(&self) -> bool {
        self.steps.iter().any(|step| step.is_kernel(|kernel| kernel.calls_handler()))
    }

    fn has_loop(&self) -> bool {
        true
    }
}
