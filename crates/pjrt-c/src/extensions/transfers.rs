//! Transfers of arrays between devices of different processes.

use pjrt::extensions::{CrossHostTransfers, Receive, Send, TaskIncarnation};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle;
use crate::border::memory::Fill;
use crate::buffer::{dp_buffer, dp_event, dp_shape};
use crate::client::{dp_client, dp_device};
use crate::extensions::info::extension;

/// A buffer to send to a device of another process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_send {
    /// The buffer. Do not donate or delete it before the event is ready.
    pub buffer: *const dp_buffer,
    /// The id of the device that receives it, as of `dp_device_id`.
    pub device_id: i32,
    /// A number that the receiver also uses. It tells apart the transfers between two devices.
    pub key: i64,
}

/// A buffer to receive from a device of another process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_receive {
    /// The element type and the extents, which must be those of the sent buffer.
    pub shape: dp_shape,
    /// The id of the device that sends it, as of `dp_device_id`.
    pub device_id: i32,
    /// A number that the sender also uses.
    pub key: i64,
}

/// A process, and a number that changes whenever the process restarts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_incarnation {
    /// The index of the process, as of `dp_device_process_index`.
    pub process_index: i32,
    /// The number.
    pub incarnation: i64,
}

/// Starts to send buffers of the client, and fills `events` with one event for each, which becomes ready when the
/// buffer was sent. `alive` lists the processes that were alive recently, so that the plugin can end transfers with
/// those that restarted; it may be empty. If the function fails, some of the buffers may have been sent.
#[c_function]
pub fn dp_client_send_buffers(
    client: &dp_client,
    sends: &[dp_send],
    alive: &[dp_incarnation],
    events: Fill<*mut dp_event>,
) -> Outcome<()> {
    events.expect(sends.len())?;
    let mut list = Vec::with_capacity(sends.len());
    for (index, send) in sends.iter().enumerate() {
        // SAFETY: K2 (exclusive use).
        let buffer = unsafe { handle::object(send.buffer, &format!("sends[{index}].buffer")) }?;
        list.push(Send { buffer: &buffer.inner, to: send.device_id, key: send.key });
    }
    let transfers = extension::<CrossHostTransfers>(&client.inner.plugin(), "CrossHostTransfers")?;
    let started = transfers.send(&client.inner, &list, &incarnations(alive))?;
    events.each(started.into_iter().map(|event| handle::give(dp_event::new(event))))
}

/// Starts to receive buffers on a device of this process, and fills `buffers` with them. A buffer becomes ready when
/// its contents have arrived. `alive` is that of `dp_client_send_buffers`.
#[c_function]
pub fn dp_device_receive_buffers(
    device: &dp_device,
    receives: &[dp_receive],
    alive: &[dp_incarnation],
    buffers: Fill<*mut dp_buffer>,
) -> Outcome<()> {
    buffers.expect(receives.len())?;
    let mut list = Vec::with_capacity(receives.len());
    for receive in receives {
        // SAFETY: K3 (arrays are readable).
        let shape = unsafe { receive.shape.read() }?;
        list.push(Receive { shape, from: receive.device_id, key: receive.key });
    }
    let transfers = extension::<CrossHostTransfers>(&device.inner.client().plugin(), "CrossHostTransfers")?;
    let started = transfers.receive(&device.inner, &list, &incarnations(alive))?;
    buffers.each(started.into_iter().map(|buffer| handle::give(dp_buffer::new(buffer))))
}

fn incarnations(alive: &[dp_incarnation]) -> Vec<TaskIncarnation> {
    alive.iter().map(|it| TaskIncarnation { task: it.process_index, incarnation: it.incarnation }).collect()
}
