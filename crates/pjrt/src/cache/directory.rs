//! Storage of executables in a directory. Several processes of a user may share the directory.
//!
//! The name of an executable's file is its key in hexadecimal with the extension `.pjrt`. The file consists of the
//! eight bytes of [`MAGIC`], the 32 bytes of the key, a signature of 32 bytes, and the bytes of the
//! [`SerializedExecutable`]. The user's key signs the key of the file and the checksum of the executable, which covers
//! the rest. A process first writes a file under a temporary name and then renames the file, so that other processes
//! see only complete files. The modification time of a file is the time of its last use.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use private_files::{Folder, PathError, TAG_BYTES, UNFINISHED, UserKey};

use super::key::Key;
use crate::error::Error;
use crate::objects::serialized::SerializedExecutable;

/// Magic number at the start of each executable's file.
const MAGIC: [u8; 8] = *b"\x89PJC\r\n\x1a\n";
/// Offset of the signature in a file.
const TAG: usize = MAGIC.len() + 32;
const HEADER: usize = TAG + TAG_BYTES;
/// Length of the checksum at the end of a serialized executable.
const CHECKSUM: usize = 32;
/// Distinguishes the signatures of executables from other signatures of the same key.
const PURPOSE: &str = "pjrt executable cache 2";
/// File extension of stored executables.
const EXECUTABLE: &str = "pjrt";
/// Name of the file that a process locks while it evicts executables.
const LOCK: &str = "lock";
/// Age after which an unfinished file is assumed to belong to a process that has ended.
const ABANDONED: Duration = Duration::from_secs(3600);

pub(super) struct Directory {
    folder: Folder,
    key: UserKey,
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
        if private_files::elevated() {
            let reason = "this process has elevated privileges, and the user who started it may control the directory or \
                          the key of its files; use `ExecutableCache::in_memory`";
            return Err(fail("is not safe to load code from", &reason));
        }
        let folder = Folder::private(path).map_err(|error| match error {
            PathError::Io { .. } => fail("cannot be opened", &error),
            _ => fail("is not safe to load code from", &error),
        })?;
        folder.open_or_create(LOCK).map_err(|error| fail("cannot be written to", &error))?;
        let key = UserKey::of_this_user().map_err(|error| {
            let remedy = "set XDG_STATE_HOME to a folder of yours that lasts as long as the cache";
            fail("cannot be used without the key that signs its files", &format!("{error}; {remedy}"))
        })?;
        Ok(Self { folder, key, max_bytes })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn set_max_bytes(&mut self, bytes: u64) {
        self.max_bytes = bytes;
    }

    pub(super) fn read(&self, key: &Key) -> Found {
        let mut bytes = Vec::new();
        match self.folder.read(file(key)).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Damaged(error.to_string()),
        }
        let (Some(header), Some(checksum)) = (bytes.first_chunk::<HEADER>(), bytes.last_chunk::<CHECKSUM>()) else {
            return Found::Damaged("the file is too short".to_owned());
        };
        if !header.starts_with(&MAGIC) {
            return Found::Damaged("the file does not begin with the magic number of the cache's format".to_owned());
        }
        if header[MAGIC.len()..TAG] != *key.bytes() {
            return Found::Damaged("the file is that of another key".to_owned());
        }
        // Check the signature before anything else reads the executable.
        if !self.key.verify(PURPOSE, &[key.bytes(), checksum], &header[TAG..]) {
            return Found::Damaged("the file was not signed with the current key of this user".to_owned());
        }
        bytes.drain(..HEADER);
        match SerializedExecutable::from_bytes(bytes) {
            Ok(executable) => Found::Executable(executable),
            Err(error) => Found::Damaged(error.to_string()),
        }
    }

    /// Removes the file of `key`, unless another process has already removed it.
    pub(super) fn remove(&self, key: &Key) {
        if let Err(error) = self.folder.remove(file(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%key, %error, "a file of the cache directory cannot be removed");
        }
    }

    /// Marks the file of `key` as the most recently used file.
    pub(super) fn mark_used(&self, key: &Key) {
        // Ignore a failure. Its only effect is that the file may be evicted earlier.
        let _ = self.folder.touch(file(key));
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
        let tag = self.key.sign(PURPOSE, &[key.bytes(), executable.checksum()]);
        self.folder.replace(file(key), |file| {
            file.write_all(&MAGIC)?;
            file.write_all(key.bytes())?;
            file.write_all(&tag)?;
            file.write_all(executable.as_bytes())
        })?;
        Ok(self.evict(key))
    }

    /// Removes the least recently used executables until the total size is within the limit. Never removes the file of
    /// `new`. Also removes abandoned unfinished files. Does nothing if it cannot acquire the lock, for example because
    /// another process is evicting files. Returns the number of removed executables.
    fn evict(&self, new: &Key) -> u64 {
        let Ok(lock) = self.folder.open_or_create(LOCK) else { return 0 };
        if lock.try_lock().is_err() {
            return 0;
        }
        let (mut total, mut evicted) = (0u64, 0);
        let mut executables = Vec::new();
        for entry in self.folder.entries().unwrap_or_default() {
            let end = Path::new(&entry.name).extension().unwrap_or_default();
            if end == EXECUTABLE {
                total = total.saturating_add(entry.bytes);
                executables.push((entry.modified, entry.bytes, entry.name));
            } else if end == UNFINISHED && entry.modified.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = self.folder.remove(entry.name);
            }
        }
        executables.sort();
        let new = file(new);
        for (_, bytes, name) in executables.into_iter().filter(|(_, _, name)| *name != *new) {
            if total <= self.max_bytes {
                break;
            }
            if self.folder.remove(name).is_ok() {
                total = total.saturating_sub(bytes);
                evicted += 1;
            }
        }
        evicted
    }
}

/// Returns the name of the file of `key`.
fn file(key: &Key) -> String {
    format!("{key}.{EXECUTABLE}")
}
