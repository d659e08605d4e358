//! Reads and writes words at addresses that may not be accessible. The system reports an error where a direct access
//! would fault. On systems other than Linux and Android, reads return `None` and writes do nothing.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::ptr::{from_ref, with_exposed_provenance_mut};

    fn part(start: *mut libc::c_void, size: usize) -> libc::iovec {
        libc::iovec { iov_base: start, iov_len: size }
    }

    pub(in crate::core) fn read<const N: usize>(address: usize) -> Option<[usize; N]> {
        let mut words = [0_usize; N];
        let size = size_of_val(&words);
        let local = part(words.as_mut_ptr().cast(), size);
        let remote = part(with_exposed_provenance_mut(address), size);
        let process = std::process::id().cast_signed();
        // SAFETY: L8 (system): the function writes `words`, and reports an error if the address is not readable.
        let copied = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
        (copied == size.cast_signed()).then_some(words)
    }

    pub(in crate::core) fn write(address: usize, word: usize) {
        let size = size_of::<usize>();
        let local = part(from_ref(&word).cast_mut().cast(), size);
        let remote = part(with_exposed_provenance_mut(address), size);
        let process = std::process::id().cast_signed();
        // SAFETY: L12 (clients) and L13 (objects): the word contains the address of a table, and any valid table of the
        // type may replace it. The function reports an error if the address is not writable.
        unsafe { libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0) };
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    pub(in crate::core) fn read<const N: usize>(_: usize) -> Option<[usize; N]> {
        None
    }

    pub(in crate::core) fn write(_: usize, _: usize) {}
}

pub(in crate::core) use system::{read, write};
