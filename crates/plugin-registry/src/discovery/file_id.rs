//! Compares files by their identity instead of their path.

use std::path::{Path, PathBuf};

/// The identity of a file. All paths of a file have the same identity, including symbolic links and, on Unix, hard
/// links.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FileId {
    /// Device and inode number.
    #[cfg(unix)]
    Inode(u64, u64),
    /// Canonical path, on systems without inodes.
    #[cfg_attr(unix, allow(dead_code, reason = "for systems without inodes"))]
    Path(PathBuf),
}

impl FileId {
    /// Returns the identity of a file, or `None` if the file does not exist or cannot be accessed.
    pub(super) fn of(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let metadata = std::fs::metadata(path).ok()?;
            Some(Self::Inode(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        {
            Some(Self::Path(std::fs::canonicalize(path).ok()?))
        }
    }
}
