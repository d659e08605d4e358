//! Views of memory that the suite owns.

use std::sync::mpsc::{Receiver, Sender, channel};

use pjrt::{Buffer, Client, ElementType, Memory, Shape};

use crate::stop::Stop;

/// Number of elements in a view.
const LEN: u8 = 64;

/// Memory with the alignment that XLA's CPU plugins require of a view.
#[repr(align(64))]
struct Aligned([f32; LEN as usize]);

/// Owns the memory of a view, and reports when the plugin gives it back.
struct Owner {
    data: Box<Aligned>,
    given_back: Sender<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The case may have ended.
        let _ = self.given_back.send(());
    }
}

/// A buffer in memory of the suite.
pub(crate) struct View {
    pub(crate) buffer: Buffer,
    pub(crate) expected: Vec<f32>,
    /// Receives a message when the plugin gives the memory back.
    pub(crate) given_back: Receiver<()>,
}

/// Creates a view of 64 numbers of type `f32` in host memory. `memory` must be memory that the host can address.
pub(crate) fn view_of(client: &Client, memory: &Memory) -> Result<View, Stop> {
    let mut data = Box::new(Aligned([0.0; LEN as usize]));
    for (value, number) in data.0.iter_mut().zip(0..LEN) {
        *value = f32::from(number);
    }
    let (send, given_back) = channel();
    let expected = data.0.to_vec();
    let owner = Owner { data, given_back: send };
    let address = std::ptr::from_ref(&owner.data.0).cast_mut().cast();
    let shape = Shape::new(ElementType::F32, [i64::from(LEN)]);
    // SAFETY: A4: the owner keeps the memory, which has the size of the shape, and no code writes it. The cases do not
    // donate the buffer.
    let buffer = unsafe { client.create_view_of_device_buffer(address, &shape, None, memory, None, owner) }?;
    Ok(View { buffer, expected, given_back })
}
