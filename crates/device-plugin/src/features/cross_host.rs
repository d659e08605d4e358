//! Transfers of arrays between devices of different processes.

use crate::features::cross_host_transfer::CrossHostTransfer;
use crate::{Backend, Error, Event, Result};

/// A backend that exchanges arrays with devices of other processes. JAX uses this feature for `jax.device_put` between
/// shardings on devices of different processes.
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
    /// Starts to send a ready buffer. Returns an event that becomes ready when the buffer has been sent. If the backend
    /// still needs the buffer after this function has returned, it must keep a clone.
    ///
    /// # Errors
    ///
    /// Returns errors that are known immediately, such as a peer that is not a device of another process. The SDK
    /// reports all errors to the framework through an event.
    #[doc(alias = "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers")]
    fn send_buffer(&self, buffer: &Self::Buffer, transfer: &CrossHostTransfer<'_>) -> Result<Event>;

    /// Informs the receiver that the buffer to send has failed, so that the receiver's buffer fails, too. The default
    /// implementation does nothing, and the receiver waits until its timeout.
    fn send_error(&self, error: &Error, transfer: &CrossHostTransfer<'_>) {
        let _ = (error, transfer);
    }

    /// Starts to receive buffers on one device. Returns one buffer for each element of `transfers`, in the same order.
    /// Each buffer has an event that becomes ready when the buffer's data has arrived.
    ///
    /// # Errors
    ///
    /// Returns errors that are known immediately. The events report later errors.
    #[doc(alias = "PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers")]
    fn receive_buffers(&self, transfers: &[CrossHostTransfer<'_>]) -> Result<Vec<(Self::Buffer, Event)>>;
}
