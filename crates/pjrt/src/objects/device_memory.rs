//! Memory statistics of a device, for out-of-memory errors.

use pjrt_types::MemoryStats;

/// Memory statistics of a device at the time when an operation failed.
/// [`Error::device_memory`](crate::Error::device_memory) returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// The device's id, as [`Device::id`](crate::Device::id) returns it.
    pub device_id: i32,
    /// The statistics of the device's allocator.
    pub stats: MemoryStats,
}

impl DeviceMemory {
    pub(crate) fn new(device_id: i32, stats: MemoryStats) -> Self {
        Self { device_id, stats }
    }
}
