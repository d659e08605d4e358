//! Files that other users of the machine must not read, replace or prepare.
//!
//! This is an internal crate. The cache of executables, the registry's leases, the layers' outputs and the `pjrt`
//! command share it. Its API may change in every release.
//!
//! | question | answer |
//! |---|---|
//! | May this process trust the user who started it? | [`elevated`] |
//! | Does only root control a file and the way to it? | [`trusted`] |
//! | How does a tool write a file that others must not read? | [`create_new`], [`create_numbered`], [`create_folder`] |
//! | How does a library keep files between runs? | [`Folder`] |
//! | Did this user write these bytes? | [`UserKey`] |
//!
//! # Systems other than Unix
//!
//! Windows decides about access by access control lists, which this crate does not read. [`trusted`] accepts every
//! existing path there, and [`Folder::private`] does not check the owner. Files get the access that their folder passes
//! on, which for folders in a user's profile is access for this user alone. Files are still created new, and signatures
//! are checked.

mod create;
mod folder;
mod key;
mod path_error;
mod privileges;
#[cfg(unix)]
mod walk;
#[cfg(unix)]
mod writers;

use std::path::{Path, PathBuf};

pub use create::{create_folder, create_new, create_numbered};
pub use folder::{Entry, Folder, UNFINISHED};
pub use key::{TAG_BYTES, UserKey};
pub use path_error::PathError;
pub use privileges::elevated;

/// Checks that only root controls a path, and returns the path without links. A process with elevated privileges must
/// use the returned path, because the links of the original path may change at any time.
///
/// Root must own every folder, every link and the file itself, and other users must not have the right to write to
/// them. Folders above the last one may be writable if they have the sticky bit, because their other users cannot
/// replace root's entries. On systems other than Unix, accepts every existing path.
///
/// # Errors
///
/// Returns an error for the first folder, link or file that fails the check or cannot be examined. The error is
/// [`PathError::Io`] with [`NotFound`](std::io::ErrorKind::NotFound) if the path does not exist.
#[cfg(unix)]
pub fn trusted(path: &Path) -> Result<PathBuf, PathError> {
    let place = walk::walk(path, walk::Owners::Root, walk::Missing::Error)?;
    place.check_closed()?;
    Ok(place.path)
}

/// Returns the path without links. Does not check who controls it, because this system is not Unix.
///
/// # Errors
///
/// Returns an error if the path does not exist or cannot be examined.
#[cfg(not(unix))]
pub fn trusted(path: &Path) -> Result<PathBuf, PathError> {
    std::fs::canonicalize(path).map_err(|error| PathError::Io { path: path.to_owned(), error })
}

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
