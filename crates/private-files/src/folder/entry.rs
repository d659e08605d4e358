//! An entry of a folder.

use std::ffi::OsString;
use std::time::SystemTime;

/// A file in a [`Folder`](super::Folder).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Name of the file.
    pub name: OsString,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last modification.
    pub modified: SystemTime,
}
