//! A Python installation.

use std::path::PathBuf;

/// Minor version of Python 3, such as 12 for Python 3.12.
pub(super) type Minor = u32;

/// Root folder of a Python installation, and the version of its interpreter, if known.
pub(super) struct Installation {
    pub(super) root: PathBuf,
    pub(super) minor: Option<Minor>,
}
