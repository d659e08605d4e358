//! Memory that another library allocated.

use std::ffi::c_void;
use std::sync::Arc;

use crate::abi::table::ffi_read;

/// Memory that another library allocated. Dropping the last clone returns the memory to the library that allocated it.
#[derive(Clone)]
pub struct ForeignMemory(Arc<Allocation>);

struct Allocation {
    data: *mut c_void,
    size: usize,
    stream: isize,
    /// Whether the host can read the memory as bytes.
    readable: bool,
    release: Option<Release>,
}

/// The callback that returns the memory to the other library.
struct Release {
    function: unsafe extern "C" fn(*mut c_void, *mut c_void),
    user_arg: *mut c_void,
}

// SAFETY: the memory is only read, and V4 (callbacks) lets the function be called from any thread.
unsafe impl Send for Allocation {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            // SAFETY: V4 (callbacks): the function is called once, after the last read of the memory.
            unsafe { (release.function)(self.data, release.user_arg) };
        }
    }
}

impl ForeignMemory {
    /// Wraps memory of another library. Dropping the last clone calls `release` with the address of the memory and
    /// `user_arg`.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the memory and V4 (callbacks) for the function, until the last clone is dropped.
    pub(crate) unsafe fn new(
        (data, size): (*mut c_void, usize),
        stream: isize,
        readable: bool,
        release: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        user_arg: *mut c_void,
    ) -> Self {
        let release = release.map(|function| Release { function, user_arg });
        Self(Arc::new(Allocation { data, size, stream, readable, release }))
    }

    /// Drops this clone, and returns whether it was the last clone. If it was, `release` is never called.
    pub(crate) fn give_up(self) -> bool {
        Arc::try_unwrap(self.0).map(|mut foreign| foreign.release = None).is_ok()
    }

    /// Returns the memory's address on the device.
    pub fn address(&self) -> usize {
        self.0.data.addr()
    }

    /// Returns the size of the array on the host in bytes. Elements narrower than a byte occupy one byte each.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Returns the platform's handle of the stream whose work fills the memory, or 0 if the memory is already filled.
    pub fn stream(&self) -> isize {
        self.0.stream
    }

    /// Returns the contents of the memory, or `None` if the host cannot read them in place. The host can read them if
    /// the memory is [`on_host`](crate::MemoryInfo::on_host) and each element has at least 8 bits.
    pub fn bytes(&self) -> Option<&[u8]> {
        if !self.0.readable {
            return None;
        }
        // SAFETY: V3 (arrays and text): the other library keeps the memory until `release` is called, which happens
        // after the last clone is dropped.
        unsafe { ffi_read::slice(self.0.data.cast::<u8>().cast_const(), self.0.size, "device_buffer_ptr") }.ok()
    }
}

impl std::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ForeignMemory({} bytes at {:#x})", self.size(), self.address())
    }
}
