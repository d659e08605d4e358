//! Whether two paths are one file.

use std::path::{Path, PathBuf};

/// What two paths of one file have in common: symbolic and hard links do not matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FileId {
    /// Device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// Path without symbolic links, where there are no inodes.
    #[cfg_attr(unix, allow(dead_code, reason = "the other systems' way"))]
    Path(PathBuf),
}

impl FileId {
    /// The identity of an existing file.
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
