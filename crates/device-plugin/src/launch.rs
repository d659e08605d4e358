//! One execution on one device, as a backend sees it.

use std::ops::Index;

use crate::abi::buffer_handle::Held;
use crate::abi::execute::OutputList;
use crate::{Backend, Error, Placement, Result, Shape};

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
    held: List<Held<'a, B>>,
}

/// The outputs of an execution, pushed in order.
pub struct Outputs<'a, B: Backend> {
    list: OutputList<'a, B>,
}

impl<'a, B: Backend> Inputs<'a, B> {
    pub(crate) fn new(held: List<Held<'a, B>>) -> Self {
        Self { held }
    }

    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is no argument.
    pub fn is_empty(&self) -> bool {
        self.held.len() == 0
    }

    /// Whether the framework gives the argument up, so that [`Inputs::take`] gives it.
    pub fn is_donated(&self, index: usize) -> bool {
        self.held.get(index).is_some_and(Held::is_donated)
    }

    /// Takes a donated argument: its memory may become an output if no clone of it is left. None when the argument is
    /// not donated or already taken.
    pub fn take(&mut self, index: usize) -> Option<B::Buffer> {
        self.held.get_mut(index).and_then(Held::take)
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &Held<'a, B>> {
        (0..self.len()).filter_map(|i| self.held.get(i))
    }
}

/// # Panics
///
/// Where there is no such argument, or it was taken.
impl<B: Backend> Index<usize> for Inputs<'_, B> {
    type Output = B::Buffer;

    fn index(&self, index: usize) -> &B::Buffer {
        match self.held.get(index).and_then(|held| held.value().get()) {
            Some(buffer) => buffer,
            None => panic!("argument {index} of {} does not exist or was taken", self.len()),
        }
    }
}

impl<'a, B: Backend> Outputs<'a, B> {
    pub(crate) fn new(list: OutputList<'a, B>) -> Self {
        Self { list }
    }

    pub(crate) fn into_list(self) -> OutputList<'a, B> {
        self.list
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.list.is_complete()
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

/// A list that needs no allocation while it is short.
pub(crate) struct List<T> {
    short: [Option<T>; 8],
    long: Vec<T>,
    len: usize,
}

impl<T> List<T> {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let long = Vec::with_capacity(capacity.saturating_sub(8));
        Self { short: [const { None }; 8], long, len: 0 }
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.short.get_mut(self.len) {
            Some(slot) => *slot = Some(item),
            None => self.long.push(item),
        }
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.short.get(index) {
            Some(slot) => slot.as_ref(),
            None => self.long.get(index - self.short.len()),
        }
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(self.short.len()) {
            None => self.short.get_mut(index).and_then(Option::as_mut),
            Some(index) => self.long.get_mut(index),
        }
    }
}
