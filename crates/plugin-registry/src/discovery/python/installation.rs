//! An installation of Python.

use std::path::PathBuf;

/// `3.minor`.
pub(super) type Minor = u32;

/// A root and the version of its interpreter, if known.
pub(super) struct Installation {
    pub(super) root: PathBuf,
    pub(super) minor: Option<Minor>,
}
