//! `PJRT_HostMemoryAllocator_Extension`: host memory that the device reads and writes quickly.

use std::ffi::{c_int, c_void};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::owners::{Client, ClientInner};
use crate::table::read;
use crate::table::send_ptr::SendPtr;

/// The plugin's allocator of host memory, such as memory that is pinned for the device.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_HostMemoryAllocator_Extension")]
pub struct HostMemoryAllocator(Functions<PJRT_HostMemoryAllocator_Extension>);

plugin_extension!(HostMemoryAllocator(PJRT_HostMemoryAllocator_Extension));

/// The value of `numa_node` that lets the plugin choose the NUMA node.
const ANY_NODE: c_int = -1;

impl HostMemoryAllocator {
    /// Allocates `size` bytes and fills them with zeros. `numa_node` is the index of the NUMA node whose memory is
    /// used. If it is `None`, the plugin chooses the node.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin, if `size` exceeds the address space, or if the index
    /// of the NUMA node does not fit in a C `int`.
    #[doc(alias = "PJRT_HostMemoryAllocator_Allocate")]
    pub fn allocate(&self, client: &Client, size: usize, numa_node: Option<u32>) -> Result<HostMemory, Error> {
        type Function = function::PJRT_HostMemoryAllocator_Allocate;
        self.0.check(client.api())?;
        if isize::try_from(size).is_err() {
            return Err(Error::invalid(format!("{size} bytes exceed the address space")));
        }
        let node = |node| c_int::try_from(node).map_err(|_| Error::invalid(format!("{node} is not a NUMA node")));
        let mut args = PJRT_HostMemoryAllocator_Allocate_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.size = size;
        args.numa_node = numa_node.map_or(Ok(ANY_NODE), node)?;
        // SAFETY: C2 (calls): the client is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        let data = match read::object(args.ptr) {
            Ok(data) => data,
            // The plugin may return null for an allocation of zero bytes.
            Err(_) if size == 0 => NonNull::dangling(),
            Err(broken) => return Err(Error::malformed(Function::NAME, broken)),
        };
        let memory = HostMemory {
            data: SendPtr(data),
            size,
            free: SendPtr((args.deleter, args.ptr.cast(), args.deleter_arg)),
            _client: client.inner().clone(),
        };
        // SAFETY: C3 (objects): the memory has this size, and no other code refers to it yet.
        unsafe { data.write_bytes(0, size) };
        Ok(memory)
    }
}

/// A function that frees memory. Its arguments are the address of the memory and the plugin's `deleter_arg`.
type Deleter = Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>;

/// Host memory that a plugin allocated. It dereferences to its bytes, and is freed when it is dropped.
///
/// It implements `AsRef<[u8]>`, so it can be passed by value to uploads that own their data, such as
/// [`Upload::owned`](crate::Upload::owned).
pub struct HostMemory {
    data: SendPtr<NonNull<u8>>,
    size: usize,
    free: SendPtr<(Deleter, *mut c_void, *mut c_void)>,
    /// Keeps the client alive, because the client owns the plugin's allocator.
    _client: Arc<ClientInner>,
}

impl Deref for HostMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: C3 (objects): the memory has this size and is initialized. `&self` excludes writes.
        unsafe { NonNull::slice_from_raw_parts(self.data.0, self.size).as_ref() }
    }
}

impl DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: C3 (objects): the memory has this size and is initialized. `&mut self` excludes other uses.
        unsafe { NonNull::slice_from_raw_parts(self.data.0, self.size).as_mut() }
    }
}

impl AsRef<[u8]> for HostMemory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for HostMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let (deleter, address, argument) = self.free.0;
        if let Some(deleter) = deleter {
            // SAFETY: C3 (objects): the deleter runs once, with the values that came with it.
            unsafe { deleter(address, argument) };
        }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory").field("size", &self.size).finish_non_exhaustive()
    }
}
