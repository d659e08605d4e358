//! Makes the plan of a function.

use stablehlo::Error;
use stablehlo::ir::{Func, Op};

use super::blocks::{Blocks, place};
use super::fusion::{Fused, Fusion, Kernel};
use super::step::Step;

/// A program as a list of steps over buffers in memory. `K` is the vendor's type of a kernel.
#[derive(Clone, Debug)]
pub struct Plan<K> {
    /// The steps, in the order of execution.
    pub steps: Vec<Step<K>>,
    /// Size in bytes of the memory for temporary values.
    pub scratch_bytes: usize,
    /// The contents of [`Memory::Constants`](super::Memory::Constants).
    pub constants: Vec<u8>,
    /// For each output, the donated argument whose memory the output can use.
    pub output_aliases: Vec<Option<usize>>,
    /// The scratch memory that holds values, and when it does.
    #[cfg(test)]
    pub(super) live: Vec<super::storage::Live>,
    /// The time of each kernel, in the order of the calls of `compile`.
    #[cfg(test)]
    pub(super) times: Vec<u32>,
}

impl<K> Plan<K> {
    /// Makes the plan of a function. Calls are ops like others, so inline them first.
    ///
    /// `classify` decides how an op takes part in fusion. It is not called for `while`, `if`, `case` and `return`.
    /// `compile` creates the vendor's kernels. Places begin at multiples of `alignment` bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of `compile`, and an error if a value has a dynamic shape or is a tuple.
    pub fn new<E: From<Error>>(
        func: &Func,
        alignment: usize,
        classify: impl Fn(&Op) -> Fusion,
        mut compile: impl FnMut(&Kernel<'_>) -> Result<K, E>,
    ) -> Result<Self, E> {
        let fused = Fused::new(func, &classify);
        let mut blocks = Blocks::new(func, &fused);
        let steps = blocks.function(&mut compile)?;
        let mut places = blocks.storages.places(&blocks.outputs, alignment.max(1));
        let steps = place(steps, &mut places);
        Ok(Self {
            steps,
            scratch_bytes: places.extra,
            constants: places.constants,
            output_aliases: places.output_aliases,
            #[cfg(test)]
            live: places.live,
            #[cfg(test)]
            times: blocks.times,
        })
    }

    /// Calls `visit` for each kernel, also for those in nested steps.
    pub fn kernels(&self, mut visit: impl FnMut(&K)) {
        each(&self.steps, &mut |step| {
            if let Step::Run { kernel, .. } = step {
                visit(kernel);
            }
        });
    }

    /// Whether an execution reads predicates or indices to choose its steps.
    #[must_use]
    pub fn has_control_flow(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::While { .. } | Step::Case { .. }))
    }
}

fn each<K>(steps: &[Step<K>], visit: &mut impl FnMut(&Step<K>)) {
    for step in steps {
        visit(step);
        match step {
            Step::While { condition, body, .. } => [condition, body].into_iter().for_each(|steps| each(steps, visit)),
            Step::Case { branches, .. } => branches.iter().for_each(|steps| each(steps, visit)),
            Step::Run { .. } | Step::Copy { .. } => {}
        }
    }
}
