//! Host memory that the device allocates for frameworks.

/// Host memory that a device allocated for a framework. The SDK drops it when the framework frees the memory, possibly
/// on another thread.
pub type HostAllocation = Box<dyn AsMut<[u8]> + Send>;
