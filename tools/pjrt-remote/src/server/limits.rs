//! Limits on what clients may hold and request.

use std::time::Duration;

/// What the clients of a server may hold. The defaults suit a server that only its own user can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connected clients.
    pub clients: usize,
    /// Maximum total size of a client's buffers in bytes, as the sizes of their shapes on the host. A program that the
    /// client sends must fit into the rest.
    pub memory: u64,
    /// Ids of the devices that clients see. An empty list means all devices.
    pub devices: Vec<i32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 64, memory: u64::MAX, devices: Vec::new() }
    }
}

impl Limits {
    /// Returns the number of files that the server may need to have open.
    pub fn open_files(&self) -> u64 {
        (self.clients as u64).saturating_mul(FILES).saturating_add(GREETING as u64 * FILES / 2 + FILES_OF_PLUGIN)
    }
}

/// Maximum number of open files for a client: handles of its connection, the sockets of two rings with theirs, and
/// descriptors that arrive.
const FILES: u64 = 16;
/// Number of open files for everything else, such as devices.
const FILES_OF_PLUGIN: u64 = 128;
/// Time after which the server closes the connection to a client that does not read its replies.
pub(crate) const STALLED: Duration = Duration::from_secs(60);
/// Maximum number of connections whose first message has not arrived. They do not count as clients.
pub(crate) const GREETING: usize = 64;
/// Maximum number of buffers and executables of a client.
pub(crate) const HANDLES: usize = 1 << 20;
/// Maximum number of requests of a client that have not been answered. A run on several devices counts once for each
/// device.
pub(crate) const OUTSTANDING: u32 = 1 << 14;
/// Maximum size of an array in bytes.
pub(crate) const PAYLOAD: u64 = 1 << 36;
/// Maximum size of a program in bytes. A serialized Protobuf message has at most this size.
pub(crate) const PROGRAM: u64 = 1 << 31;
/// Maximum size of the memory that a server keeps for the next payloads of all its clients.
pub(crate) const SPARE: usize = 512 << 20;
