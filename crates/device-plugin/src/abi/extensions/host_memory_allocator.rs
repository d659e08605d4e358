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
    /// The host memory allocator extension. A plugin offers it if the backend implements the feature
    /// `HostMemoryAllocator`.
    HostMemoryAllocator = PJRT_HostMemoryAllocator_Extension if P::Backend::FEATURES.host_memory_allocator.is_some();
    allocate: PJRT_HostMemoryAllocator_Allocate,
}

#[entry(extension)]
unsafe fn PJRT_HostMemoryAllocator_Allocate<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_HostMemoryAllocator_Allocate_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let feature = P::Backend::FEATURES.host_memory_allocator;
    let feature = feature.ok_or_else(|| Error::unimplemented("the backend does not allocate host memory"))?;
    // If the framework passes a negative NUMA node, the backend chooses the node.
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
