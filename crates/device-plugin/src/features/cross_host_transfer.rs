//! A transfer between devices of different processes.

use crate::{Placement, Shape, TaskIncarnation};

/// A transfer between a device of this process and a device of another process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CrossHostTransfer<'a> {
    /// Type and extents of the array, as both devices store it.
    pub shape: Shape,
    /// The device and memory of this process.
    pub here: Placement,
    /// The global id of the other process's device.
    pub peer: i32,
    /// The key by which both processes identify the transfer. Frameworks number the transfers in each process, and rely
    /// on all processes to request the same transfers. Transfers between other devices may have the same key.
    pub key: i64,
    /// The processes that were alive when the framework requested the transfer. Empty before API 0.117, or if the
    /// framework does not track processes.
    pub alive: &'a [TaskIncarnation],
}
