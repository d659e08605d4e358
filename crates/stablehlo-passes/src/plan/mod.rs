//! Plans: programs as lists of steps over buffers in memory, and their execution by a vendor.
//!
//! [`Plan::new`] decides for each value of a function whether it is stored in memory or computed inside of the kernels
//! that use it. It calls the vendor for each kernel, assigns a place in memory to each stored value, and returns the
//! steps. [`run`] executes the steps on a vendor's [`Device`].
//!
//! The vendor classifies ops with [`Fusion`]. A value that a kernel computes inside is described by the ops between the
//! kernel's [reads](Kernel::reads) and its root. [`index_map`](crate::index_map) helps to compute shape ops inside.

mod arena;
mod blocks;
mod fusion;
mod run;
mod storage;
#[cfg(test)]
mod tests;

use stablehlo::Error;
use stablehlo::ir::{Func, Op, OpKind, Type, ValueId};

pub use fusion::{Fusion, Kernel};
pub use run::{Device, run};

/// A program as a list of steps over buffers in memory. `K` is the vendor's type of a kernel.
#[derive(Clone, Debug)]
pub struct Plan<K> {
    /// The steps, in the order of execution.
    pub steps: Vec<Step<K>>,
    /// Size in bytes of the memory for temporary values.
    pub scratch_bytes: usize,
    /// The contents of [`Memory::Constants`].
    pub constants: Vec<u8>,
    /// For each output, the donated argument whose memory the output can use.
    pub output_aliases: Vec<Option<usize>>,
    /// The scratch memory that holds values, and when it does.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests overwrite all other scratch memory"))]
    live: Vec<storage::Live>,
}

/// A step of a [`Plan`].
#[derive(Clone, Debug)]
pub enum Step<K> {
    /// Runs a kernel.
    Run {
        /// The vendor's kernel.
        kernel: K,
        /// The places of [`Kernel::reads`].
        reads: Vec<Place>,
        /// The places of [`Kernel::writes`]. One of them can be equal to a place that the kernel reads, if it reads
        /// each element only to compute the same element of the result.
        writes: Vec<Place>,
        /// Point of time in the plan, for tests that overwrite unused memory.
        #[doc(hidden)]
        time: u32,
    },
    /// Copies bytes. If an output uses the memory of a donated argument, both places may be the same memory.
    Copy {
        /// The place of the bytes.
        from: Place,
        /// The place of the copy.
        to: Place,
    },
    /// Runs `body` as long as `condition` leaves a true predicate.
    While {
        /// Steps before each iteration.
        condition: Vec<Self>,
        /// The predicate, a boolean.
        predicate: Place,
        /// Steps of an iteration.
        body: Vec<Self>,
    },
    /// Runs one of the branches.
    Case {
        /// For `case` the index of the branch, for `if` a boolean. A wrong index selects the last branch.
        index: Place,
        /// The branches. For `if`, the first one runs if the predicate is true.
        branches: Vec<Vec<Self>>,
    },
}

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The memory.
    pub memory: Memory,
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// A memory that a plan uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// The memory of an argument.
    Input(usize),
    /// The memory of an output.
    Output(usize),
    /// Memory with the bytes of [`Plan::constants`].
    Constants,
    /// Memory of [`Plan::scratch_bytes`] bytes.
    Scratch,
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
        let fused = fusion::Fused::new(func, &classify);
        let mut blocks = blocks::Blocks::new(func, &fused);
        let steps = blocks.function(&mut compile)?;
        let mut places = blocks.storages.places(&blocks.outputs, alignment.max(1));
        let steps = blocks::place(steps, &mut places);
        let storage::Places { extra, constants, output_aliases, live, .. } = places;
        Ok(Self { steps, scratch_bytes: extra, constants, output_aliases, live })
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

/// Whether a value is data, which is stored in memory. Tokens are not.
fn is_data(func: &Func, value: ValueId) -> bool {
    *func.ty(value) != Type::Token
}

/// Whether an op chooses steps at run time.
fn is_control_flow(op: &Op) -> bool {
    matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case)
}
