//! The steps of a plan, and the memory that they use.

use stablehlo::ir::{Func, Op, OpKind, Type, ValueId};

/// A step of a [`Plan`](super::Plan).
#[derive(Clone, Debug)]
pub enum Step<K> {
    /// Runs a kernel.
    Run {
        /// The vendor's kernel.
        kernel: K,
        /// The places of [`Kernel::reads`](super::Kernel::reads).
        reads: Vec<Place>,
        /// The places of [`Kernel::writes`](super::Kernel::writes). One of them can be equal to a place that the kernel
        /// reads, if it reads each element only to compute the same element of the result.
        writes: Vec<Place>,
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
        /// The index of the branch, an integer or a boolean. A wrong index selects the last branch.
        index: Place,
        /// The branches. For `if`, the second one runs if the predicate is true.
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
    /// Memory with the bytes of [`Plan::constants`](super::Plan::constants).
    Constants,
    /// Memory of [`Plan::scratch_bytes`](super::Plan::scratch_bytes) bytes.
    Scratch,
}

/// Whether a value is data, which is stored in memory. Tokens are not.
pub(super) fn is_data(func: &Func, value: ValueId) -> bool {
    *func.ty(value) != Type::Token
}

/// Whether an op chooses steps at run time.
pub(super) fn is_control_flow(op: &Op) -> bool {
    matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case)
}
