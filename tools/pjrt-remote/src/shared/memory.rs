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

    use memmap2::{Advice, MmapOptions, MmapRaw};
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
            // Find out now whether the system has the memory.
            fallocate(&file, FallocateFlags::empty(), 0, len as u64)?;
            // The seals leave this mapping writable.
            let map = MmapOptions::new().len(len).map_raw(&file)?;
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
            Ok((Self(map), file))
        }

        /// Copies bytes to the block.
        pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
            assert!(at <= self.0.len() && bytes.len() <= self.0.len() - at, "the bytes lie within the block");
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
        /// Returns an error if the file has another length, if its pages could disappear, or if the system cannot
        /// provide all of them.
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
            let map = MmapOptions::new().len(len).map_raw_read_only(file)?;
            // The size of a file does not tell which of its pages exist. Because of the seals, pages that exist now
            // stay. Kernels before 5.14 lack this, so the processes do not share memory there.
            map.advise(Advice::PopulateRead)?;
            Ok(Self(map))
        }

        /// Copies the bytes at `at`. The other process may change them meanwhile, so each byte is read once only, and
        /// nothing refers to them.
        pub(crate) fn copy_to(&self, at: usize, to: &mut [u8]) {
            assert!(at <= self.0.len() && to.len() <= self.0.len() - at, "the bytes lie within the block");
            // SAFETY: S2 (shared memory): the mapping is readable for its length until this value is dropped, and the
            // assertion keeps the copy within it. `to` cannot overlap it, because nobody forms a reference to the
            // mapping.
            unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr().wrapping_add(at), to.as_mut_ptr(), to.len()) };
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

        pub(crate) fn copy_to(&self, _: usize, _: &mut [u8]) {
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
        let read = || {
            let mut bytes = [0; 5];
            reader.copy_to(4090, &mut bytes);
            bytes
        };
        assert_eq!(&read(), b"hello");
        // Nobody can take the pages away.
        assert!(ftruncate(&file, 0).is_err());
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&file, punch, 0, 4096).is_err());
        assert!(rustix::io::pwrite(&file, b"x", 0).is_err());
        drop(writer);
        assert_eq!(&read(), b"hello");
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
        assert!(reason(4096).contains("another size"));
        assert!(reason(0).contains("another size"));
        // The system provides the pages that are missing.
        let mut bytes = [9; 8192];
        Readable::open(&unsealed, 8192).unwrap().copy_to(0, &mut bytes);
        assert!(bytes[..4096] == [1; 4096] && bytes[4096..] == [0; 4096]);
        // Pages beyond the end do not replace missing ones.
        let sparse = create(MemfdFlags::ALLOW_SEALING);
        ftruncate(&sparse, 8192).unwrap();
        let beyond = rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&sparse, beyond, 8192, 8192).unwrap();
        fcntl_add_seals(&sparse, SealFlags::SHRINK | SealFlags::FUTURE_WRITE).unwrap();
        let pages = || rustix::fs::fstat(&sparse).unwrap().st_blocks * 512;
        assert_eq!(pages(), 8192);
        let reader = Readable::open(&sparse, 8192).unwrap();
        assert_eq!(pages(), 2 * 8192, "all pages exist");
        drop(reader);
        let not_memory = std::os::fd::OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(Readable::open(&not_memory, 4096).is_err());
    }
}
