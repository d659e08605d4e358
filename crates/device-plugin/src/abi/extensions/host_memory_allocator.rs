//! The host memory allocator extension: allocates host memory for fast transfers to and from the device.

use std::ffi::c_void;

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
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
    let mut memory = match P::Backend::FEATURES.host_memory_allocator {
        // If the framework passes a negative NUMA node, the backend chooses the node.
        Some(feature) => (feature.allocate_host)(&client.backend, args.size, usize::try_from(args.numa_node).ok())?,
        None => Box::new(Ordinary::new(args.size)?),
    };
    let bytes = memory.as_mut().as_mut();
    if bytes.len() < args.size {
        let (given, needed) = (bytes.len(), args.size);
        return Err(Error::internal(format!("the backend allocated {given} bytes instead of {needed}")).unnamed());
    }
    args.ptr = bytes.as_mut_ptr();
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
        let exhausted = || Error::resource_exhausted(format!("cannot allocate {size} bytes of host memory"));
        let padded = size.checked_add(ALIGNMENT).ok_or_else(exhausted)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(padded).map_err(|_| exhausted())?;
        memory.resize(padded, 0);
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
