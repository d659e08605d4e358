//! Host memory that the device reads and writes quickly.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use pjrt::extensions::{HostMemory, HostMemoryAllocator};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::client::dp_client;
use crate::extensions::info::extension;

/// The memory that was not freed, by its address.
static ALLOCATED: Mutex<BTreeMap<usize, HostMemory>> = Mutex::new(BTreeMap::new());

/// Allocates `size` bytes of host memory that the plugin chooses, such as memory that is pinned for the device, and
/// fills them with zeros. `size` must not be 0. `numa_node` is the index of the NUMA node whose memory is used, or -1
/// if the plugin shall choose. The program frees the memory with `dp_host_memory_free`. Until then it keeps the client.
#[c_function]
pub fn dp_client_allocate_host_memory(client: &dp_client, size: usize, numa_node: i32) -> Outcome<*mut c_void> {
    let allocator = extension::<HostMemoryAllocator>(&client.inner.plugin(), "HostMemoryAllocator")?;
    if size == 0 {
        return Err(Failure::argument("`size` is 0; it must be the number of bytes"));
    }
    let mut memory = allocator.allocate(&client.inner, size, u32::try_from(numa_node).ok())?;
    let address = memory.as_mut_ptr();
    let former = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner).insert(address.addr(), memory);
    // The plugin returned the address of other memory, too. Nobody can tell whether it is one allocation or two.
    std::mem::forget(former);
    Ok(address.cast())
}

/// Frees memory of `dp_client_allocate_host_memory`. Nobody may use it any longer, in particular no upload. To free it
/// after an upload, pass this function as `release` and the memory as its context. Ignores NULL and other addresses.
#[c_function]
pub fn dp_host_memory_free(memory: *mut c_void) {
    // Dropped without the lock, because this may destroy the client.
    let found = ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner).remove(&memory.addr());
    drop(found);
}
