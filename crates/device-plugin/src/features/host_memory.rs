//! Allocation of host memory for frameworks.

use crate::features::host_allocation::HostAllocation;
use crate::{Backend, Result};

/// A device that allocates host memory for fast transfers, such as pinned memory. For other devices, the SDK allocates
/// ordinary memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `HostMemoryAllocator`",
    label = "`HostMemoryAllocator` is not implemented",
    note = "write `impl HostMemoryAllocator for {Self} {{ … }}`, or remove `.host_memory_allocator()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_HostMemoryAllocator_Extension")]
pub trait HostMemoryAllocator: Backend {
    /// Allocates at least `size` bytes. Their address stays the same until the allocation is dropped. `numa_node` is
    /// the index of the NUMA node on which the memory is allocated. If it is `None`, the backend chooses the node.
    #[doc(alias = "PJRT_HostMemoryAllocator_Allocate")]
    fn allocate_host(&self, size: usize, numa_node: Option<usize>) -> Result<HostAllocation>;
}
