//! Buffers in memory that another library allocated.

use std::ffi::c_void;
use std::sync::Arc;

use crate::abi::objects::client::buffer::{BufferHandle, Value};
use crate::abi::table::entry::{contain_in, entries};
use crate::abi::table::ffi_read;
use crate::{Backend, Error, Event};

/// Memory that another library allocated, and gets back when the last clone of this is dropped.
#[derive(Clone)]
pub struct ForeignMemory(Arc<Foreign>);

struct Foreign {
    data: *mut c_void,
    size: usize,
    stream: isize,
    /// Whether the host can read the memory, byte by byte.
    readable: bool,
    release: Option<Release>,
}

/// How the other library learns that it has its memory back.
struct Release {
    function: unsafe extern "C" fn(*mut c_void, *mut c_void),
    user_arg: *mut c_void,
}

// SAFETY: the memory is only read, and V4 lets the function be called from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            // SAFETY: V4, once; nobody reads the memory any more.
            unsafe { (release.function)(self.data, release.user_arg) };
        }
    }
}

impl ForeignMemory {
    /// Address of the memory, as the device knows it.
    pub fn address(&self) -> usize {
        self.0.data.addr()
    }

    /// Bytes of the array on the host, sub-byte types in one byte per element.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// The platform's stream that holds the work which fills the memory; 0 when it is full.
    pub fn stream(&self) -> isize {
        self.0.stream
    }

    /// The memory, where the host can read it in place: buffers in a memory that is
    /// [`on_host`](crate::MemoryInfo::on_host), of element types of whole bytes.
    pub fn bytes(&self) -> Option<&[u8]> {
        if !self.0.readable {
            return None;
        }
        // SAFETY: V3, the other library keeps the memory until the release, which comes after the last clone.
        unsafe { ffi_read::slice(self.0.data.cast::<u8>().cast_const(), self.0.size, "device_buffer_ptr") }.ok()
    }
}

impl std::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ForeignMemory({} bytes at {:#x})", self.size(), self.address())
    }
}

/// Which function a panic was in.
const FUNCTION: &str = "PJRT_Client_CreateViewOfDeviceBuffer";

entries! {
    PJRT_Client_CreateViewOfDeviceBuffer(args, client) {
        // SAFETY: V3.
        let shape = unsafe { ffi_read::shape(args.element_type.0, args.dims, args.num_dims) }?;
        // SAFETY: V3.
        let form = unsafe { client.form(&shape, args.layout, "layout") }?;
        let shape = form.stored_shape();
        let device = if args.memory.is_null() { args.device } else { std::ptr::null_mut() };
        let at = client.placement(device, args.memory)?;
        let size = shape.host_size().unwrap_or(0);
        if args.device_buffer_ptr.is_null() && size > 0 {
            return Err(Error::argument("device_buffer_ptr is null"));
        }
        let user_arg = args.on_delete_callback_arg;
        let foreign = Arc::new(Foreign {
            data: args.device_buffer_ptr,
            size,
            stream: args.stream,
            readable: client.memories[at.memory].info.on_host && shape.element_type.bits() >= 8,
            release: args.on_delete_callback.map(|function| Release { function, user_arg }),
        });
        let kept = Arc::clone(&foreign);
        let made = || {
            let buffer = client.backend.view(ForeignMemory(foreign), &shape, at)?;
            let ready = client.backend.ready(&buffer);
            Ok((buffer, ready))
        };
        args.buffer = match contain_in(FUNCTION, made) {
            Ok((buffer, ready)) => BufferHandle::give(client.share(), Value::Now(buffer), &form, at, ready),
            // A failed call leaves the memory to the framework, unless the backend still has it.
            Err(error) => match Arc::try_unwrap(kept) {
                Ok(mut foreign) => {
                    foreign.release = None;
                    return Err(error);
                }
                Err(_) => BufferHandle::give(client.share(), Value::Gone, &form, at, Event::failed(error)),
            },
        };
        Ok(())
    }
}
