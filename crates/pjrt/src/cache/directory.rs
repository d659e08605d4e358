//! Storage of executables in a directory. Several processes may share the directory.
//!
//! The name of an executable's file is its key in hexadecimal with the extension `.pjrt`. The file consists of the
//! eight bytes of [`MAGIC`], the 32 bytes of the key, and the bytes of the [`SerializedExecutable`]. A process first
//! writes a file under a temporary name and then renames the file, so that other processes see only complete files. The
//! modification time of a file is the time of its last use.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::key::Key;
use crate::error::Error;
use crate::serialized::SerializedExecutable;

/// Magic number at the start of each executable's file.
const MAGIC: [u8; 8] = *b"\x89PJC\r\n\x1a\n";
const HEADER: usize = MAGIC.len() + 32;
/// File extension of stored executables.
const EXECUTABLE: &str = "pjrt";
/// File extension of executables that are being written.
const UNFINISHED: &str = "unfinished";
/// Name of the file that a process locks while it evicts executables.
const LOCK: &str = "lock";
/// Age after which an unfinished file is assumed to belong to a process that has ended.
const ABANDONED: Duration = Duration::from_secs(3600);

pub(super) struct Directory {
    path: PathBuf,
    max_bytes: u64,
}

/// Outcome of reading the file of a key.
pub(super) enum Found {
    Executable(SerializedExecutable),
    Nothing,
    /// The file exists but cannot be used, for the given reason.
    Damaged(String),
}

impl Directory {
    pub(super) fn open(path: &Path, max_bytes: u64) -> Result<Self, Error> {
        let fail = |what: &str, error: &dyn std::fmt::Display| {
            Error::invalid(format!("the cache directory {} {what}: {error}", path.display()))
        };
        create(path).map_err(|error| fail("cannot be created", &error))?;
        // Store an absolute path, because the process may change its working directory.
        let path = path.canonicalize().map_err(|error| fail("cannot be opened", &error))?;
        let directory = Self { path, max_bytes };
        let (probe, file) = directory.unfinished().map_err(|error| fail("cannot be written to", &error))?;
        let checked = check_owner(&directory.path, &file);
        drop(file);
        // If the probe file cannot be removed now, a later eviction removes it as abandoned.
        let _ = fs::remove_file(probe);
        checked.map_err(|reason| fail("is not safe to load code from", &reason))?;
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set_max_bytes(&mut self, bytes: u64) {
        self.max_bytes = bytes;
    }

    fn file(&self, key: &Key) -> PathBuf {
        self.path.join(format!("{key}.{EXECUTABLE}"))
    }

    pub(super) fn read(&self, key: &Key) -> Found {
        let mut bytes = match fs::read(self.file(key)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Damaged(error.to_string()),
        };
        let header = bytes.first_chunk::<HEADER>();
        if header.is_none_or(|header| !header.starts_with(&MAGIC)) {
            return Found::Damaged("the file does not begin with the magic number of the cache's format".to_owned());
        }
        if header.is_none_or(|header| header[MAGIC.len()..] != *key.bytes()) {
            return Found::Damaged("the file is that of another key".to_owned());
        }
        bytes.drain(..HEADER);
        match SerializedExecutable::from_bytes(bytes) {
            Ok(executable) => Found::Executable(executable),
            Err(error) => Found::Damaged(error.to_string()),
        }
    }

    /// Removes the file of `key`, unless another process has already removed it.
    pub(super) fn remove(&self, key: &Key) {
        if let Err(error) = fs::remove_file(self.file(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%key, %error, "a file of the cache directory cannot be removed");
        }
    }

    /// Marks the file of `key` as the most recently used file.
    pub(super) fn mark_used(&self, key: &Key) {
        // Ignore a failure. Its only effect is that the file may be evicted earlier.
        let _ = File::options().append(true).open(self.file(key)).and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Writes an executable to its file. Then removes the least recently used executables while the directory exceeds
    /// the size limit, and returns their number. See [`Self::evict`]. Returns an error if the executable alone exceeds
    /// the limit, or if its file cannot be written.
    pub(super) fn write(&self, key: &Key, executable: &SerializedExecutable) -> io::Result<u64> {
        let bytes = (HEADER + executable.as_bytes().len()) as u64;
        if bytes > self.max_bytes {
            let limit = self.max_bytes;
            return Err(io::Error::other(format!("its {bytes} bytes exceed the limit of {limit} for the directory")));
        }
        let (path, mut file) = self.unfinished()?;
        let written = file
            .write_all(&MAGIC)
            .and_then(|()| file.write_all(key.bytes()))
            .and_then(|()| file.write_all(executable.as_bytes()));
        drop(file);
        let written = written.and_then(|()| fs::rename(&path, self.file(key)));
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(self.evict(key))
    }

    /// Creates a temporary file under a name that no other process uses.
    fn unfinished(&self) -> io::Result<(PathBuf, File)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = self.path.join(format!("{process}-{number}.{UNFINISHED}"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((path, file)),
                // An earlier process with the same id left the file behind, or a process on another machine owns it.
                // Try the next number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the least recently used executables until the total size is within the limit. Never removes the file of
    /// `new`. Also removes abandoned unfinished files. Does nothing if it cannot acquire the lock, for example because
    /// another process is evicting files. Returns the number of removed executables.
    fn evict(&self, new: &Key) -> u64 {
        let Ok(lock) = OpenOptions::new().create(true).truncate(false).write(true).open(self.path.join(LOCK)) else {
            return 0;
        };
        if lock.try_lock().is_err() {
            return 0;
        }
        let (mut total, mut evicted) = (0u64, 0);
        let mut executables = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let (Some(end), Ok(modified)) = (path.extension(), metadata.modified()) else { continue };
            if end == EXECUTABLE {
                total += metadata.len();
                executables.push((modified, metadata.len(), path));
            } else if end == UNFINISHED && modified.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            }
        }
        executables.sort();
        let new = self.file(new);
        for (_, bytes, path) in executables.into_iter().filter(|(_, _, path)| *path != new) {
            if total <= self.max_bytes {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
                evicted += 1;
            }
        }
        evicted
    }
}

#[cfg(unix)]
fn create(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Rejects a directory that another user owns or may write to. `own` is a file that this process created in the
/// directory, so the owner of `own` is the user of this process.
#[cfg(unix)]
fn check_owner(path: &Path, own: &File) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let read = |result: io::Result<fs::Metadata>| result.map_err(|error| error.to_string());
    let (directory, own) = (read(fs::metadata(path))?, read(own.metadata())?);
    if directory.uid() != own.uid() {
        return Err(format!("its owner is user {}, and this process is user {}", directory.uid(), own.uid()));
    }
    if directory.mode() & 0o022 != 0 {
        let mode = directory.mode() & 0o7777;
        return Err(format!("other users may write to it (mode {mode:o}); remove that right with `chmod go-w`"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path, _: &File) -> Result<(), String> {
    Ok(())
}
