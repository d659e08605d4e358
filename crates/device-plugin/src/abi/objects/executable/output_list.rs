//! Collects the outputs of one launch on one device while the backend creates them.

use pjrt_sys::PJRT_Buffer;

use crate::abi::objects::client::buffer::{Buffer, BufferOwner};
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::hazard::Guard;
use crate::abi::reclaim::refcount::Ref;
use crate::array_layout::ArrayLayout;
use crate::contain::contain;
use crate::{Event, ExecutableInfo, Placement, Shape};

/// The outputs of a launch. The list stores their handles in the framework's array or, for a deferred launch, in an
/// array of the SDK. If the list is dropped before [`OutputList::finish`] is called, it destroys the outputs and stores
/// null pointers in the array.
pub(crate) struct OutputList<'a, C: BufferOwner> {
    client: &'a Ref<C>,
    info: &'a ExecutableInfo,
    layouts: &'a [ArrayLayout],
    /// The guard of the launch. It has already counted all outputs of this list.
    guard: &'a Guard,
    placements: &'a [Placement],
    list: &'a mut [*mut PJRT_Buffer],
    produced: usize,
    /// Whether the outputs have been passed to the framework.
    finished: bool,
}

// SAFETY: V3 (arrays and text): the framework does not use the array during the call, and the buffers in it are not yet
// shared.
unsafe impl<C: BufferOwner> Send for OutputList<'_, C> {}

impl<'a, C: BufferOwner> OutputList<'a, C> {
    /// Creates an empty list for the outputs of a program with this description and these layouts of its outputs. The
    /// guard has already counted one output for each element of `list`.
    #[inline(always)]
    pub(crate) fn new(
        client: &'a Ref<C>,
        (info, layouts): (&'a ExecutableInfo, &'a [ArrayLayout]),
        guard: &'a Guard,
        placements: &'a [Placement],
        list: &'a mut [*mut PJRT_Buffer],
    ) -> Self {
        Self { client, info, layouts, guard, placements, list, produced: 0, finished: false }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.produced == self.list.len()
    }

    /// Returns the number of outputs that the backend has created, and the number of outputs of the program.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.produced, self.list.len())
    }

    pub(crate) fn shapes(&self) -> &'a [Shape] {
        &self.info.outputs
    }

    pub(crate) fn placement(&self, index: usize) -> Option<Placement> {
        self.placements.get(index).copied()
    }

    /// Adds the next output, whose value is `buffer`. Returns `false` if the list is full.
    #[inline]
    pub(crate) fn push(&mut self, buffer: C::Value) -> bool {
        let at = self.produced;
        let (Some(slot), Some(layout), Some(placement)) =
            (self.list.get_mut(at), self.layouts.get(at), self.placements.get(at))
        else {
            return false;
        };
        let is_dynamic = self.client.is_dynamic(&buffer);
        // SAFETY: the guard counted one output for each element of the list, and `drop` subtracts the outputs that were
        // not created.
        let client = unsafe { self.client.output_ref() };
        let handle = Buffer::new(client, Value::Now(buffer), layout, *placement, Event::ready(), is_dynamic);
        *slot = handle.as_ptr().cast();
        self.produced += 1;
        true
    }

    #[cold]
    fn take_back(&mut self) {
        for slot in &mut self.list[..self.produced] {
            let handle = std::mem::replace(slot, std::ptr::null_mut());
            // Catch panics of the buffers' destructors, because this function may run while a panic of the backend
            // unwinds.
            let _ = contain(|| {
                // SAFETY: `push` created the buffer, and no other code has a reference to it.
                unsafe { Buffer::<C>::take_back(handle) };
                Ok(())
            });
        }
        self.guard.remove_outputs(self.list.len() - self.produced);
    }

    /// Passes the outputs to the framework. The outputs become ready together with `event`.
    #[inline(always)]
    pub(crate) fn finish(&mut self, event: &Event) {
        if !event.is_born_ready() {
            for handle in self.list[..self.produced].iter().copied() {
                // SAFETY: `push` created the buffer, and no other code has a reference to it yet.
                let buffer = unsafe { &mut *handle.cast::<Buffer<C>>() };
                buffer.ready = event.clone();
            }
        }
        self.finished = true;
    }
}

impl<C: BufferOwner> Drop for OutputList<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.take_back();
        }
    }
}
