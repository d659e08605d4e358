//! The identity of files.

use std::path::{Path, PathBuf};

/// The identity of a file. All paths of a file, including symbolic and hard links, have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FileId {
    /// Device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// Path without symbolic links, on systems without inodes.
    #[cfg_attr(unix, allow(dead_code, reason = "for systems without inodes"))]
    Path(PathBuf),
}

impl FileId {
    /// Returns the identity of an existing file.
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
