//! Limits on what one client may hold and request.

/// What one client of a server may hold and request. The defaults suit a server that only its own user can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connected clients.
    pub clients: usize,
    /// Maximum number of buffers and executables of a client.
    pub handles: usize,
    /// Maximum number of requests of a client that have not been answered. At least [`Self::LEAST_OUTSTANDING`] are
    /// allowed, because a run on several devices counts once for each device.
    pub outstanding: u32,
    /// Maximum size of an array or a program of a client in bytes.
    pub payload: u64,
    /// Maximum total size of a client's buffers in bytes, as the sizes of their shapes on the host.
    pub memory: u64,
}

impl Limits {
    /// The number of requests without an answer that every client may have.
    pub const LEAST_OUTSTANDING: u32 = 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 64, handles: 1 << 20, outstanding: 1 << 14, payload: 1 << 36, memory: u64::MAX }
    }
}
