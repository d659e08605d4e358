//! One execution on one device, as a backend sees it.

use std::ops::Index;

use crate::abi::buffer_handle::Uses;
use crate::abi::execute::OutputList;
use crate::{Backend, Error, HostChannels, Placement, Result, Shape};

/// One execution on one device.
pub struct Launch<'a, B: Backend> {
    /// The arguments. Their number, types, extents and devices are those of the program.
    pub inputs: Inputs<'a, B>,
    /// Where the outputs go.
    pub outputs: Outputs<'a, B>,
    /// Index of the device.
    pub device: usize,
    /// What the framework said about this execution.
    pub options: ExecuteOptions,
    /// Channels between the program and the host; a backend that uses them later keeps a clone. They end with the
    /// execution.
    pub channels: HostChannels,
}

/// What a framework says about one execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecuteOptions {
    /// Identifies a launch on several devices; 0 when it is none.
    pub launch_id: i32,
}

/// The arguments of an execution. `inputs[i]` is the buffer of argument `i`.
pub struct Inputs<'a, B: Backend> {
    uses: Uses<'a, B>,
}

/// The outputs of an execution, pushed in order.
pub struct Outputs<'a, B: Backend> {
    list: OutputList<'a, B>,
}

impl<'a, B: Backend> Inputs<'a, B> {
    #[inline]
    pub(crate) fn new(uses: Uses<'a, B>) -> Self {
        Self { uses }
    }

    #[inline]
    pub(crate) fn uses(&self) -> &Uses<'a, B> {
        &self.uses
    }

    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.uses.handles().len()
    }

    /// Whether there is no argument.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the framework gives the argument up, so that [`Inputs::take`] gives it.
    pub fn is_donated(&self, index: usize) -> bool {
        self.uses.is_donated(index)
    }

    /// Takes a donated argument: its memory may become an output if no clone of it is left. None when the argument is
    /// not donated or already taken.
    pub fn take(&mut self, index: usize) -> Option<B::Buffer> {
        self.uses.take(index)
    }
}

/// # Panics
///
/// Where there is no such argument, or it was taken.
impl<B: Backend> Index<usize> for Inputs<'_, B> {
    type Output = B::Buffer;

    fn index(&self, index: usize) -> &B::Buffer {
        match self.uses.get(index) {
            Some(buffer) => buffer,
            None => panic!("argument {index} of {} does not exist or was taken", self.len()),
        }
    }
}

impl<'a, B: Backend> Outputs<'a, B> {
    #[inline]
    pub(crate) fn new(list: OutputList<'a, B>) -> Self {
        Self { list }
    }

    #[inline]
    pub(crate) fn list_mut(&mut self) -> &mut OutputList<'a, B> {
        &mut self.list
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.list.is_complete()
    }

    pub(crate) fn progress(&self) -> (usize, usize) {
        self.list.progress()
    }

    /// Number of outputs the program has.
    pub fn len(&self) -> usize {
        self.list.shapes().len()
    }

    /// Whether the program has no output.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shapes of the outputs.
    pub fn shapes(&self) -> &'a [Shape] {
        self.list.shapes()
    }

    /// Where an output goes.
    pub fn placement(&self, index: usize) -> Option<Placement> {
        self.list.placement(index)
    }

    /// Adds the next output.
    ///
    /// # Errors
    ///
    /// `INTERNAL` when the program has no more outputs.
    #[inline]
    pub fn push(&mut self, buffer: B::Buffer) -> Result<()> {
        if self.list.push(buffer) {
            Ok(())
        } else {
            Err(Error::internal(format!(
                "the program was compiled for {} outputs, and the backend has more",
                self.len()
            )))
        }
    }
}

// Backends may share a launch with threads of their own.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Launch<'_, crate::NoBackend>>();
    const fn is_sync<T: Sync>() {}
    is_sync::<Inputs<'_, crate::NoBackend>>();
};
