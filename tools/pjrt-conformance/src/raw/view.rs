//! Buffers that are views of existing memory.

use std::sync::mpsc::{Receiver, Sender, channel};

use pjrt::{Buffer, ElementType, Memory, Shape};

use crate::stop::Stop;

/// Number of elements in the memory to which a view refers.
const LEN: u8 = 64;

/// Elements of a view, with the alignment that XLA's CPU plugins require.
#[repr(align(64))]
struct Aligned([f32; LEN as usize]);

/// Owner of a view's memory. Sends a message when the plugin no longer needs the memory.
struct Owner {
    data: Box<Aligned>,
    given_back: Sender<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Ignore the error. The receiver is dropped when the case ends.
        let _ = self.given_back.send(());
    }
}

/// A buffer that is a view of the suite's memory, and the expected elements.
pub(crate) struct View {
    pub(crate) buffer: Buffer,
    pub(crate) expected: Vec<f32>,
    /// Receives a message when the plugin gives the memory back.
    pub(crate) given_back: Receiver<()>,
}

/// Creates a view of 64 `f32` elements in host memory, which are the numbers 0 to 63. The host must be able to address
/// `memory`.
pub(crate) fn view_of(memory: &Memory) -> Result<View, Stop> {
    Ok(view_from(memory, 0)?)
}

/// Creates a view like [`view_of`], but of the elements from index `first` to the end. An element has 4 bytes, so the
/// view is aligned to 64 bytes only if `first` is a multiple of 16.
pub(crate) fn view_from(memory: &Memory, first: u8) -> Result<View, pjrt::Error> {
    let first = first.min(LEN);
    let mut data = Box::new(Aligned([0.0; LEN as usize]));
    for (value, number) in data.0.iter_mut().zip(0..LEN) {
        *value = f32::from(number);
    }
    let (send, given_back) = channel();
    let expected = data.0[usize::from(first)..].to_vec();
    let owner = Owner { data, given_back: send };
    let address = std::ptr::from_ref(&owner.data.0[usize::from(first)..]).cast_mut().cast();
    let shape = Shape::new(ElementType::F32, [i64::from(LEN - first)]);
    // SAFETY: A4 (views of device memory): the owner keeps the memory alive. The memory has the size of the shape, and
    // no code writes it. The cases do not donate the buffer.
    let buffer = unsafe { memory.buffer(&shape).view(address, None, owner) }?;
    Ok(View { buffer, expected, given_back })
}

/// Passes a view of a buffer's own memory to `run`. The buffer must be ready.
pub(crate) fn with_view_of<T>(buffer: &Buffer, run: impl FnOnce(&Buffer) -> Result<T, Stop>) -> Result<T, Stop> {
    let reference = buffer.external_reference()?;
    let (shape, memory) = (buffer.shape()?.clone(), buffer.memory()?);
    let address = reference.address()?;
    // SAFETY: A4 (views of device memory): the reference keeps the memory alive. The memory has the size of the shape,
    // and no code writes it. The cases do not donate the buffer, and wait for their reads.
    let view = unsafe { memory.buffer(&shape).view(address, None, ()) }?;
    let outcome = run(&view);
    drop(view);
    drop(reference);
    outcome
}
