//! Calls functions with structs of any size, which end where readable memory ends.

use std::ptr::null_mut;

use device_plugin::ErrorCode;
use pjrt_sys::*;

use crate::framework::{Framework, garbage, toy};

/// Readable memory. The page after it is not accessible.
pub struct Cliff {
    start: *mut u8,
    len: usize,
    page: usize,
}

impl Cliff {
    pub fn new(len: usize) -> Self {
        let page = pages::size();
        let len = len.next_multiple_of(page);
        let start = pages::map(len, page);
        Self { start, len, page }
    }

    /// Returns the last `size` bytes, filled with poison.
    pub fn last(&self, size: usize) -> *mut u8 {
        assert!(size <= self.len);
        let at = unsafe { self.start.add(self.len - size) };
        unsafe { at.write_bytes(POISON, size) };
        at
    }

    /// Writes the first `struct_size` bytes of a struct to the end of the memory. Only alignment padding may separate
    /// the struct from the unreadable memory.
    pub fn put<T: AbiStruct>(&self, value: &T, struct_size: usize) -> *mut T {
        let at = self.last(struct_size.max(size_of::<usize>()).next_multiple_of(align_of::<T>()));
        let known = struct_size.clamp(size_of::<usize>(), T::STRUCT_SIZE);
        unsafe {
            std::ptr::from_ref(value).cast::<u8>().copy_to_nonoverlapping(at, known);
            at.cast::<usize>().write(struct_size);
        }
        at.cast()
    }
}

impl Drop for Cliff {
    fn drop(&mut self) {
        pages::unmap(self.start, self.len + self.page);
    }
}

/// Access to the memory pages of the system.
#[cfg(unix)]
mod pages {
    use std::ptr::null_mut;

    pub(super) fn size() -> usize {
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
    }

    /// Maps `len` bytes that are accessible, followed by a page that is not accessible.
    pub(super) fn map(len: usize, page: usize) -> *mut u8 {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let start =
            unsafe { libc::mmap(null_mut(), len + page, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(unsafe { libc::mprotect(start.byte_add(len), page, libc::PROT_NONE) }, 0);
        start.cast()
    }

    pub(super) fn unmap(start: *mut u8, len: usize) {
        assert_eq!(unsafe { libc::munmap(start.cast(), len) }, 0);
    }
}

#[cfg(windows)]
mod pages {
    use std::ffi::c_void;
    use std::ptr::null_mut;

    const COMMIT_AND_RESERVE: u32 = 0x3000;
    const RELEASE: u32 = 0x8000;
    const NO_ACCESS: u32 = 1;
    const READ_AND_WRITE: u32 = 4;

    unsafe extern "system" {
        fn VirtualAlloc(address: *mut c_void, size: usize, kind: u32, protection: u32) -> *mut c_void;
        fn VirtualProtect(address: *mut c_void, size: usize, protection: u32, old: *mut u32) -> i32;
        fn VirtualFree(address: *mut c_void, size: usize, kind: u32) -> i32;
    }

    /// Returns the page size of Windows on x86-64 and on 64-bit ARM.
    pub(super) fn size() -> usize {
        4096
    }

    pub(super) fn map(len: usize, page: usize) -> *mut u8 {
        let start = unsafe { VirtualAlloc(null_mut(), len + page, COMMIT_AND_RESERVE, READ_AND_WRITE) };
        assert!(!start.is_null());
        let mut old = 0;
        assert_ne!(unsafe { VirtualProtect(start.byte_add(len), page, NO_ACCESS, &mut old) }, 0);
        start.cast()
    }

    pub(super) fn unmap(start: *mut u8, _: usize) {
        // Windows requires the size 0 to release all pages.
        assert_ne!(unsafe { VirtualFree(start.cast(), 0, RELEASE) }, 0);
    }
}

pub const POISON: u8 = 0xAA;

/// The return type of a PJRT function.
pub trait Returned {
    fn error(self) -> *mut PJRT_Error;
    const CAN_FAIL: bool;
}

impl Returned for *mut PJRT_Error {
    fn error(self) -> *mut PJRT_Error {
        self
    }
    const CAN_FAIL: bool = true;
}

impl Returned for () {
    fn error(self) -> *mut PJRT_Error {
        null_mut()
    }
    const CAN_FAIL: bool = false;
}

/// A framework that was built for a specific version of the header. The version determines the sizes of the framework's
/// structs.
pub struct Caller {
    /// Determines the announced struct size, which may be a size that the struct never had.
    pub age: Age,
    /// Names of the slots that were called.
    pub called: Vec<&'static str>,
    /// Set to `true` when a function is called. A function is not called if its struct has no size for [`Caller::age`].
    pub more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The size before the change with this index in the struct's history. If the index is the number of changes, the
    /// current size.
    History(usize),
    /// A size that exceeds the current size by this many bytes.
    Future(usize),
    /// An invalid announced size. Only the bytes of the current size are readable.
    Lies(usize),
    /// A size that is smaller than any that frameworks passed. Only this many bytes are readable.
    Short(usize),
}

/// Sizes that no framework has ever passed. `usize::MAX` represents the smallest valid size minus 1.
pub const SHORT: [usize; 6] = [0, 1, 8, 15, 16, usize::MAX];

impl Age {
    /// Returns the announced size and the number of readable bytes, or `None` if the struct has no size for this age.
    fn of<T: AbiStruct>(self) -> Option<(usize, usize)> {
        match self {
            Self::History(at) => match T::HISTORY.get(at) {
                Some((_, size)) => Some((*size, *size)),
                None if at == T::HISTORY.len() => Some((T::STRUCT_SIZE, T::STRUCT_SIZE)),
                None => None,
            },
            Self::Future(more) => Some((T::STRUCT_SIZE + more, T::STRUCT_SIZE + more)),
            Self::Lies(size) => Some((size, T::STRUCT_SIZE)),
            Self::Short(usize::MAX) => Some((T::MIN_SIZE - 1, T::MIN_SIZE - 1)),
            Self::Short(size) => (size < T::MIN_SIZE).then_some((size, size)),
        }
    }
}

impl Caller {
    /// Calls the function in a slot of the table. Returns `None` if the struct has no size for this age, or if the
    /// function rejects the size. This method checks the error. A rejected call must not create or consume anything.
    pub fn call<S: Slot<Table = PJRT_Api, Return: Returned>>(
        &mut self,
        set: impl FnOnce(&mut S::Args),
    ) -> Option<S::Args> {
        self.call_in::<S>(toy(), toy().0, set)
    }

    /// Does the same as [`Caller::call`] for a function of an extension.
    pub fn extension<S: Slot<Table: Extension, Return: Returned>>(
        &mut self,
        set: impl FnOnce(&mut S::Args),
    ) -> Option<S::Args> {
        self.extension_of::<S>(toy(), set)
    }

    /// Does the same as [`Caller::call`] for a function of an extension of any plugin.
    pub fn extension_of<S: Slot<Table: Extension, Return: Returned>>(
        &mut self,
        framework: Framework,
        set: impl FnOnce(&mut S::Args),
    ) -> Option<S::Args> {
        let mut node = framework.0.extension_start;
        loop {
            let base = unsafe { node.as_ref() }.expect("an extension without a node");
            if base.type_ == S::Table::TYPE {
                return self.call_in::<S>(framework, unsafe { &*node.cast::<S::Table>() }, set);
            }
            node = base.next;
        }
    }

    fn call_in<S: Slot<Return: Returned>>(
        &mut self,
        framework: Framework,
        table: &S::Table,
        set: impl FnOnce(&mut S::Args),
    ) -> Option<S::Args> {
        self.called.push(S::NAME);
        let (size, readable) = self.age.of::<S::Args>()?;
        self.more = true;
        let mut args = garbage::<S::Args>();
        set(&mut args);
        let cliff = Cliff::new(readable + size_of::<S::Args>());
        let at = cliff.put(&args, readable);
        unsafe { at.cast::<usize>().write(size) };
        let end = readable.max(size_of::<usize>()).next_multiple_of(align_of::<S::Args>());
        let bytes = || unsafe { crate::framework::slice(at.cast::<u8>().cast_const(), end) }.to_vec();
        let before = bytes();
        let function = S::get(table).expect(S::NAME);
        let answer = framework.check(unsafe { function(at) }.error());
        let after = bytes();
        let name = S::NAME;
        if size < S::Args::MIN_SIZE {
            assert_eq!(before, after, "{name} wrote to a struct of {size} bytes");
            if S::Return::CAN_FAIL {
                let fault = answer.expect_err(name);
                assert!(fault.message.starts_with(name), "{fault:?}");
                assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
                // The message names the field, the announced size and the current size.
                for part in ["args->struct_size".to_owned(), format!(" {size},"), format!(" {}", S::Args::STRUCT_SIZE)]
                {
                    assert!(fault.message.contains(&part), "{fault:?}");
                }
            }
            return None;
        }
        answer.unwrap_or_else(|fault| panic!("{name} with {size} bytes: {fault:?}"));
        assert_eq!(before[..8], after[..8], "{name} wrote to the size");
        let known = readable.min(S::Args::STRUCT_SIZE);
        assert_eq!(before[known..], after[known..], "{name} wrote beyond the {known} bytes it knows of {size}");
        let mut args = garbage::<S::Args>();
        unsafe { after.as_ptr().copy_to_nonoverlapping((&raw mut args).cast(), known) };
        unsafe { (&raw mut args).cast::<usize>().write(known) };
        Some(args)
    }
}
