//! `PJRT_Api_Version`: versions of the C API.

use std::fmt;

/// The oldest supported minor version of the API. 0.57 reordered the table. Later versions only append to it.
pub const MIN_MINOR: i32 = 57;

/// The version of the C API that a plugin or framework was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
// Exhaustive: these two numbers are a version.
pub struct ApiVersion {
    /// Raised by incompatible changes. It is 0 in every release so far.
    pub major: i32,
    /// Raised by additions.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
