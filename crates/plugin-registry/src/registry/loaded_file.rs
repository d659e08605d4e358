//! Detects that the file of a loaded library was replaced or overwritten.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::discovery;

/// How a library's file has changed since the library was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChange {
    /// The path now refers to another file with other contents.
    Replaced,
    /// The loaded file itself was overwritten. The code in memory may be partly old and partly new.
    Overwritten,
}

/// The file of a loaded library. The open handle keeps the old contents readable after another file takes the path.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    path: PathBuf,
    file: File,
    identity: Identity,
}

/// The properties that identify a file without reading its contents.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    /// Device and inode number. `None` on systems without inodes.
    place: Option<(u64, u64)>,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let place = {
            use std::os::unix::fs::MetadataExt;
            Some((metadata.dev(), metadata.ino()))
        };
        #[cfg(not(unix))]
        let place = None;
        Self { place, bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl LoadedFile {
    /// Opens the file of a library that is about to be loaded.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = discovery::open(path)?;
        let identity = Identity::of(&file.metadata()?);
        Ok(Self { path: path.to_owned(), file, identity })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how the file at the path differs from the loaded one. Returns `None` if the file or its contents are the
    /// same, or if the path has no readable file, because then there is nothing else to load.
    pub(crate) fn change(&self) -> Option<FileChange> {
        let now = discovery::open(&self.path).ok()?;
        let identity = Identity::of(&now.metadata().ok()?);
        if identity == self.identity {
            return None;
        }
        if identity.place.is_some() && identity.place == self.identity.place {
            return Some(FileChange::Overwritten);
        }
        let is_same = identity.bytes == self.identity.bytes && same_contents(&self.file, now).unwrap_or(false);
        (!is_same).then_some(FileChange::Replaced)
    }
}

fn same_contents(mut one: &File, other: File) -> io::Result<bool> {
    one.seek(SeekFrom::Start(0))?;
    let (mut one, mut other) = (io::BufReader::new(one), io::BufReader::new(other));
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        if other.read_exact(&mut right[..count]).is_err() || left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn detects_replaced_and_overwritten_files() {
        let folder = std::env::temp_dir().join(format!("pjrt-loaded-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("lib.so"), folder.join("other.so"));
        fs::write(&path, b"first").unwrap();
        let replace = |text: &str, kept: &str| {
            // On Windows, an open file can be moved but not replaced.
            if cfg!(windows) {
                fs::rename(&path, folder.join(kept)).unwrap();
            }
            fs::write(&other, text).unwrap();
            fs::rename(&other, &path).unwrap();
        };
        let first = LoadedFile::open(&path).unwrap();
        assert_eq!(first.change(), None);
        replace("first", "kept");
        assert_eq!(first.change(), None, "another file with the same contents");
        replace("other", "kept too");
        assert_eq!(first.change(), Some(FileChange::Replaced));
        let loaded = LoadedFile::open(&path).unwrap();
        fs::write(&path, b"longer text").unwrap();
        assert_eq!(loaded.change(), Some(if cfg!(unix) { FileChange::Overwritten } else { FileChange::Replaced }));
        // Windows deletes a file only after it is closed, so move the file instead.
        fs::rename(&path, &other).unwrap();
        assert_eq!(loaded.change(), None);
        // Opening a pipe would wait for a program that writes to it.
        #[cfg(unix)]
        if std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()) {
            assert_eq!(loaded.change(), None);
        } else {
            println!("SKIPPED detects_replaced_and_overwritten_files, a pipe: no mkfifo");
        }
        drop((first, loaded));
        fs::remove_dir_all(&folder).unwrap();
    }
}
