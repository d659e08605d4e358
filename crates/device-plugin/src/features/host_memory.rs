//! Host memory that the device allocates for frameworks.

use crate::{Backend, Result};

/// Host memory that belongs to the framework until it is dropped, possibly on another thread.
pub type HostAllocation = Box<dyn AsMut<[u8]> + Send>;

/// A device that allocates host memory to which its transfers are fast, such as pinned memory.
#[doc(alias = "PJRT_HostMemoryAllocator_Extension")]
pub trait HostMemoryAllocator: Backend {
    /// Allocates at least `size` bytes. Their address stays the same until the allocation is dropped. `numa_node` is the
    /// number of the NUMA node whose memory is used; with `None` the backend chooses.
    #[doc(alias = "PJRT_HostMemoryAllocator_Allocate")]
    fn allocate_host(&self, size: usize, numa_node: Option<usize>) -> Result<HostAllocation>;
}
