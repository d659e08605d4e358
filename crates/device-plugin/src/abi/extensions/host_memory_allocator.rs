//! The host memory allocator extension: allocates host memory for fast transfers to and from the device.

use std::ffi::c_void;

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::lend::host_array::zeroed;
use crate::abi::objects::client::handle::Client;
use crate::abi::reclaim::refcount::Counted;
use crate::contain::drop_contained;
use crate::features::HostAllocation;
use crate::{Backend, DevicePlugin, Error, Result};

extension! {
    /// The host memory allocator extension. Every plugin offers it, because PyTorch's `Tensor.pin_memory` fails without
    /// it. If the backend does not implement the feature `HostMemoryAllocator`, the memory is ordinary memory.
    HostMemoryAllocator = PJRT_HostMemoryAllocator_Extension if true;
    allocate: PJRT_HostMemoryAllocator_Allocate,
}

#[entry(extension)]
unsafe fn PJRT_HostMemoryAllocator_Allocate<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_HostMemoryAllocator_Allocate_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let mut memory: HostAllocation = match P::Backend::FEATURES.host_memory_allocator {
        Some(feature) => {
            // If the framework passes a negative NUMA node, the backend chooses the node.
            let node = usize::try_from(args.numa_node).ok();
            let mut memory = (feature.allocate_host)(&client.backend, args.size, node)?;
            let (given, needed) = (memory.as_mut().as_mut().len(), args.size);
            if given < needed {
                let message = format!("the backend allocated {given} bytes instead of {needed}");
                return Err(Error::internal(message).unnamed());
            }
            memory
        }
        None => Box::new(Ordinary::new(args.size)?),
    };
    args.ptr = memory.as_mut().as_mut().as_mut_ptr();
    args.deleter = Some(free);
    args.deleter_arg = Box::into_raw(Box::new(memory)).cast();
    Ok(())
}

/// The alignment of ordinary memory, in bytes. XLA allocates arrays on the host with the same alignment.
const ALIGNMENT: usize = 64;

/// Aligned memory that is not special to the device.
struct Ordinary {
    memory: Vec<u8>,
    /// Position of the first aligned byte.
    start: usize,
}

impl Ordinary {
    fn new(size: usize) -> Result<Self> {
        let memory = zeroed(size.saturating_add(ALIGNMENT))?;
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        Ok(Self { memory, start })
    }
}

impl AsMut<[u8]> for Ordinary {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

/// Frees an allocation.
///
/// # Safety
///
/// V2 (handles): `allocation` is the `deleter_arg` of an allocation, and the caller does not use the allocation again.
unsafe extern "C" fn free(_: *mut c_void, allocation: *mut c_void) {
    if !allocation.is_null() {
        // SAFETY: V2 (handles), which the caller promises.
        drop_contained(unsafe { Box::from_raw(allocation.cast::<HostAllocation>()) });
    }
}
