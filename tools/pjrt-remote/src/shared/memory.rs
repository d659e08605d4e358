//! Blocks of shared memory. One process writes a block, and the other one only reads it.
//!
//! The writer seals the block, so that the reader never gets the signal `SIGBUS`: the block keeps its size, and no
//! process can remove its pages. The reader checks this before it maps the block.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Readable, Writable};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Readable, Writable};

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;

    use memmap2::{MmapOptions, MmapRaw};
    use rustix::fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs,
        memfd_create,
    };

    /// The type of the file system of `memfd_create` (`TMPFS_MAGIC`). Files of huge pages have another one, and their
    /// pages can be missing.
    const TMPFS: u64 = 0x0102_1994;

    fn refused(reason: &str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("shared memory {reason}"))
    }

    /// A block that this process writes.
    #[derive(Debug)]
    pub(crate) struct Writable(MmapRaw);

    impl Writable {
        /// Creates a block. Also returns its file, for the process that reads it.
        pub(crate) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
            let file = memfd_create("pjrt-remote", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            // The reader accepts no missing pages, because it would have to provide them.
            fallocate(&file, FallocateFlags::empty(), 0, len as u64)?;
            // The seals leave this mapping writable.
            let map = MmapOptions::new().len(len).map_raw(&file)?;
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
            Ok((Self(map), file))
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        /// Copies bytes to the block.
        pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
            assert!(at <= self.len() && bytes.len() <= self.len() - at, "the bytes lie within the block");
            // SAFETY: S2 (shared memory): the mapping is writable, the assertion keeps the copy within it, and only
            // this value writes it. `bytes` cannot overlap it, because nobody forms a reference to the mapping.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.as_mut_ptr().wrapping_add(at), bytes.len()) };
        }
    }

    /// A block that another process writes, at any time.
    #[derive(Debug)]
    pub(crate) struct Readable(MmapRaw);

    impl Readable {
        /// Maps a block.
        ///
        /// # Errors
        ///
        /// Returns an error if the file has another length, or if its pages could disappear.
        pub(crate) fn open(file: &OwnedFd, len: usize) -> io::Result<Self> {
            let seals = fcntl_get_seals(file)?;
            let needed = SealFlags::SHRINK | SealFlags::FUTURE_WRITE;
            if !seals.contains(needed) || u64::try_from(fstatfs(file)?.f_type) != Ok(TMPFS) {
                return Err(refused("can lose its pages"));
            }
            let found = fstat(file)?;
            if len == 0 || u64::try_from(found.st_size) != Ok(len as u64) {
                return Err(refused("has another size"));
            }
            if u64::try_from(found.st_blocks).unwrap_or_default().saturating_mul(512) < len as u64 {
                return Err(refused("lacks some of its pages"));
            }
            Ok(Self(MmapOptions::new().len(len).map_raw_read_only(file)?))
        }

        /// Returns the bytes. The other process may change them at any time, so code must not rely on a value that it
        /// read before.
        pub(crate) fn bytes(&self) -> &[u8] {
            #[expect(clippy::disallowed_methods, reason = "the one place that refers to shared memory")]
            // SAFETY: S2 (shared memory): the mapping is readable for its length until this value is dropped.
            unsafe {
                std::slice::from_raw_parts(self.0.as_ptr(), self.0.len())
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;

    use crate::net::stream::Descriptor;

    /// This system cannot seal shared memory, so no value of this type exists.
    #[derive(Debug)]
    pub(crate) enum Writable {}

    impl Writable {
        pub(crate) fn create(_: usize) -> io::Result<(Self, Descriptor)> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn len(&self) -> usize {
            match *self {}
        }

        pub(crate) fn write(&mut self, _: usize, _: &[u8]) {
            match *self {}
        }
    }

    /// This system cannot seal shared memory, so no value of this type exists.
    #[derive(Debug)]
    pub(crate) enum Readable {}

    impl Readable {
        pub(crate) fn open(_: &Descriptor, _: usize) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn bytes(&self) -> &[u8] {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn reader_sees_what_the_writer_wrote() {
        let (mut writer, file) = Writable::create(8192).unwrap();
        let reader = Readable::open(&file, 8192).unwrap();
        writer.write(4090, b"hello");
        assert_eq!(&reader.bytes()[4090..4095], b"hello");
        assert_eq!(writer.len(), reader.bytes().len());
        // Nobody can take the pages away.
        assert!(ftruncate(&file, 0).is_err());
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&file, punch, 0, 4096).is_err());
        assert!(rustix::io::pwrite(&file, b"x", 0).is_err());
        drop(writer);
        assert_eq!(&reader.bytes()[4090..4095], b"hello");
    }

    #[test]
    fn memory_that_can_lose_its_pages_is_refused() {
        let create = |flags| memfd_create("test", flags | MemfdFlags::CLOEXEC).unwrap();
        let unsealed = create(MemfdFlags::ALLOW_SEALING);
        ftruncate(&unsealed, 8192).unwrap();
        rustix::io::pwrite(&unsealed, &[1; 4096], 0).unwrap();
        let reason = |len| Readable::open(&unsealed, len).unwrap_err().to_string();
        assert!(reason(8192).contains("can lose its pages"));
        fcntl_add_seals(&unsealed, SealFlags::SHRINK).unwrap();
        assert!(reason(8192).contains("can lose its pages"));
        fcntl_add_seals(&unsealed, SealFlags::FUTURE_WRITE).unwrap();
        assert!(reason(8192).contains("lacks some of its pages"));
        assert!(reason(4096).contains("another size"));
        assert!(reason(0).contains("another size"));
        let not_memory = std::os::fd::OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(Readable::open(&not_memory, 4096).is_err());
    }
}
