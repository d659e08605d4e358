//! The feature of a driver to copy parts of device memory.

use std::sync::Arc;

use device_plugin::Result;

use crate::driver::{Driver, QueueId};
use crate::host_memory::{HostSource, HostTarget};

/// A driver that copies parts of device memory. Frameworks then upload an array in pieces while they read or compute it,
/// and access ranges of the bytes of buffers.
pub trait PartialCopies: Driver {
    /// Begins to copy all bytes of `from` to device memory, from the byte `to.1` on. The method has the rules of
    /// [`Driver::copy_from_host`].
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. Then the driver does not access the memory.
    fn copy_part_from_host(
        &self,
        queue: QueueId,
        from: &HostSource,
        to: (&Arc<Self::Memory>, usize),
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;

    /// Begins to fill `to` with the bytes of device memory from the byte `from.1` on. The method has the rules of
    /// [`Driver::copy_to_host`].
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. Then the driver does not access the memory.
    fn copy_part_to_host(
        &self,
        queue: QueueId,
        from: (&Arc<Self::Memory>, usize),
        to: &HostTarget,
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;
}
