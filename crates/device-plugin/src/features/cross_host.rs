//! Transfers of arrays between devices of different processes.

use crate::{Backend, Error, Event, Placement, Result, Shape, TaskIncarnation};

/// A transfer between a device of this process and a device of another one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CrossHostTransfer<'a> {
    /// Type and extents of the array, as both devices store it.
    pub shape: Shape,
    /// The device and memory of this process.
    pub here: Placement,
    /// The ID of the other device, among the devices of all processes.
    pub peer: i32,
    /// The number by which both processes recognize the transfer. Frameworks number the transfers in each process, and
    /// rely on all processes to request the same ones. A number may therefore recur for other devices.
    pub key: i64,
    /// The processes that the framework knew to be alive. Empty before API 0.117, or if it does not know.
    pub alive: &'a [TaskIncarnation],
}

/// A backend that sends arrays to devices of other processes, and receives theirs. JAX uses it for `jax.device_put`
/// between shardings on devices of different processes.
///
/// Frameworks start a transfer in both processes, in any order. The sender must therefore not wait for the receiver's
/// call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `CrossHostTransfers`",
    label = "`CrossHostTransfers` is not implemented",
    note = "write `impl CrossHostTransfers for {Self} {{ … }}`, or remove `.cross_host_transfers()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_CrossHostTransfers_Extension")]
pub trait CrossHostTransfers: Backend {
    /// Starts to send a buffer, which is ready. Returns an event that is ready when the buffer was sent. If the backend
    /// still needs the buffer after this returns, it keeps a clone.
    ///
    /// # Errors
    ///
    /// Errors that are known immediately, such as a peer that is not a device of another process. Frameworks get all
    /// errors from the event.
    #[doc(alias = "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers")]
    fn send_buffer(&self, buffer: &Self::Buffer, transfer: &CrossHostTransfer<'_>) -> Result<Event>;

    /// Tells the receiver that the buffer to send has failed, so that its buffer fails, too. By default this does
    /// nothing, and the receiver waits until its time is over.
    fn send_error(&self, error: &Error, transfer: &CrossHostTransfer<'_>) {
        let _ = (error, transfer);
    }

    /// Starts to receive buffers on one device. Returns them with the events that are ready when their data has arrived,
    /// in the order of `transfers`.
    ///
    /// # Errors
    ///
    /// Errors that are known immediately. Later errors are reported by the events.
    #[doc(alias = "PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers")]
    fn receive_buffers(&self, transfers: &[CrossHostTransfer<'_>]) -> Result<Vec<(Self::Buffer, Event)>>;
}
