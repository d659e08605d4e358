//! One execution on one device, as a backend sees it.

use std::fmt;
use std::ops::Index;

use crate::abi::objects::executable::launch_arguments::LaunchArguments;
use crate::abi::objects::executable::output_list::OutputList;
use crate::{Backend, Error, ExecuteOptions, HostChannels, Placement, Result, Shape};

/// The inputs, outputs and options of one execution on one device.
#[non_exhaustive]
pub struct Launch<'a, B: Backend> {
    /// The arguments. Their number, types, extents and devices match the program.
    pub inputs: Inputs<'a, B>,
    /// The outputs, which the backend pushes.
    pub outputs: Outputs<'a, B>,
    /// Index of the device that runs the program.
    pub device: usize,
    /// The options that the framework passed for this execution.
    pub options: ExecuteOptions,
    /// Channels between the program and the host. A backend that uses them after the call keeps a clone. The channels
    /// close when the execution ends.
    pub channels: HostChannels,
}

impl<B: Backend> fmt::Debug for Launch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut launch = f.debug_struct("Launch");
        launch.field("device", &self.device).field("inputs", &self.inputs).field("options", &self.options);
        launch.finish_non_exhaustive()
    }
}

/// The arguments of an execution. `inputs[i]` is the buffer of argument `i`.
pub struct Inputs<'a, B: Backend> {
    uses: LaunchArguments<'a, B>,
}

/// The outputs of an execution. The backend pushes them in the order in which the program returns them.
pub struct Outputs<'a, B: Backend> {
    list: OutputList<'a, B>,
}

impl<'a, B: Backend> Inputs<'a, B> {
    #[inline]
    pub(crate) fn new(uses: LaunchArguments<'a, B>) -> Self {
        Self { uses }
    }

    #[inline]
    pub(crate) fn uses(&self) -> &LaunchArguments<'a, B> {
        &self.uses
    }

    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.uses.handles().len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the framework donates the argument, so that [`Inputs::take`] returns it.
    pub fn is_donated(&self, index: usize) -> bool {
        self.uses.is_donated(index)
    }

    /// Takes a donated argument. The backend may reuse the memory of the returned buffer for an output if no other
    /// clone of the buffer exists. Returns `None` if the argument is not donated or was already taken.
    pub fn take(&mut self, index: usize) -> Option<B::Buffer> {
        self.uses.take(index)
    }
}

impl<B: Backend> fmt::Debug for Inputs<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Debug for Outputs<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").finish_non_exhaustive()
    }
}

/// # Panics
///
/// Panics if the index is out of bounds, or if the argument was taken.
impl<B: Backend> Index<usize> for Inputs<'_, B> {
    type Output = B::Buffer;

    fn index(&self, index: usize) -> &B::Buffer {
        match self.uses.get(index) {
            Some(buffer) => buffer,
            None => panic!("argument {index} of {} does not exist or was already taken", self.len()),
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

    /// Returns the number of outputs of the program.
    pub fn len(&self) -> usize {
        self.list.shapes().len()
    }

    /// Whether the program has no outputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the shapes of the outputs, with dimensions in the program's order.
    pub fn shapes(&self) -> &'a [Shape] {
        self.list.shapes()
    }

    /// Returns the device and memory of an output, or `None` if `index` is out of bounds.
    pub fn placement(&self, index: usize) -> Option<Placement> {
        self.list.placement(index)
    }

    /// Appends the buffer of the next output. The outputs have the order of the values that the program returns.
    ///
    /// # Errors
    ///
    /// Returns `INTERNAL` if all outputs of the program have been pushed already.
    #[inline]
    pub fn push(&mut self, buffer: B::Buffer) -> Result<()> {
        if self.list.push(buffer) {
            Ok(())
        } else {
            Err(Error::internal(format!("the program has {} outputs, but the backend returned more", self.len())))
        }
    }
}

// Backends may move a launch to their own threads, and share its inputs between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Launch<'_, crate::NoBackend>>();
    const fn is_sync<T: Sync>() {}
    is_sync::<Inputs<'_, crate::NoBackend>>();
};
