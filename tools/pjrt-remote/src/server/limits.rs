//! Limits on what clients may hold and request.

use std::time::Duration;

/// What the clients of a server may hold. The defaults suit a server that only its own user can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connected clients.
    pub clients: usize,
    /// Maximum total size of a client's buffers in bytes, as the sizes of their shapes on the host.
    pub memory: u64,
    /// Ids of the devices that clients see. An empty list means all devices.
    pub devices: Vec<i32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 64, memory: u64::MAX, devices: Vec::new() }
    }
}

/// Time after which the server closes the connection to a client that does not read its replies.
pub(crate) const STALLED: Duration = Duration::from_secs(60);
/// Maximum number of connections whose first message has not arrived. They do not count as clients.
pub(crate) const GREETING: usize = 64;
/// Maximum number of buffers and executables of a client.
pub(crate) const HANDLES: usize = 1 << 20;
/// Maximum number of requests of a client that have not been answered. A run on several devices counts once for each
/// device.
pub(crate) const OUTSTANDING: u32 = 1 << 14;
/// Maximum size of an array or a program in bytes.
pub(crate) const PAYLOAD: u64 = 1 << 36;
