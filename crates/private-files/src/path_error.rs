//! The reasons why a path is not safe to use.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a path is not safe to use. Each message contains a remedy, except that of [`Self::Io`], which
/// contains the system's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The system cannot examine, open or create this part of the path.
    #[error("{}: {error}", path.display())]
    Io {
        /// The folder, link or file that cannot be examined.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// This part of the path belongs to a user who could replace what is behind it.
    #[error(
        "{} belongs to user {owner}, who could replace it; use a path on which everything belongs to {allowed}",
        path.display()
    )]
    Owner {
        /// The folder, link or file.
        path: PathBuf,
        /// Id of the user who owns it.
        owner: u32,
        /// The users who may own it, in words.
        allowed: String,
    },
    /// Other users may write to this folder or file on the way.
    #[error(
        "other users can write to {} (mode {mode:o}); use another path, or remove that right with `chmod go-w`",
        path.display()
    )]
    Writable {
        /// The folder or file.
        path: PathBuf,
        /// Its access mode.
        mode: u32,
    },
    /// Other users may write to a folder that must be private. They may have prepared its contents.
    #[error(
        "other users can write to {} (mode {mode:o}), so its files may be theirs; use another folder, or delete this one",
        path.display()
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// Its access mode.
        mode: u32,
    },
}

impl PathError {
    /// Returns the part of the path to which the error applies.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Owner { path, .. }
            | Self::Writable { path, .. }
            | Self::NotPrivate { path, .. } => path,
        }
    }

    /// Returns whether the path does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}
