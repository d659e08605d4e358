//! The host memory allocator extension: memory that the device reads and writes quickly.

use std::ffi::c_void;

use crate::abi::extensions::link::extension;
use crate::abi::table::entry::entries;
use crate::contain::drop_contained;
use crate::features::HostAllocation;
use crate::{Backend, Error};

extension! {
    /// Offered if the backend allocates host memory.
    HostMemoryAllocator = PJRT_HostMemoryAllocator_Extension if P::Backend::FEATURES.host_memory_allocator.is_some();
    allocate: PJRT_HostMemoryAllocator_Allocate,
}

entries! {
    in extension_slot;

    PJRT_HostMemoryAllocator_Allocate(args, client) {
        let feature = P::Backend::FEATURES.host_memory_allocator;
        let feature = feature.ok_or_else(|| Error::unimplemented("the backend does not allocate host memory"))?;
        // A negative number leaves the choice to the backend.
        let numa_node = usize::try_from(args.numa_node).ok();
        let mut memory = (feature.allocate_host)(&client.backend, args.size, numa_node)?;
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
}

/// Frees an allocation.
///
/// # Safety
///
/// V2: `allocation` came with the memory, and this call takes ownership of it.
unsafe extern "C" fn free(_: *mut c_void, allocation: *mut c_void) {
    if !allocation.is_null() {
        // SAFETY: V2 (handles), which the caller promises.
        drop_contained(unsafe { Box::from_raw(allocation.cast::<HostAllocation>()) });
    }
}
