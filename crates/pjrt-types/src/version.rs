//! `PJRT_Api_Version`: versions of the C API.

use std::fmt;

/// The oldest supported minor version of the API. Version 0.57 reordered the function table. Later versions only append
/// functions.
pub const MIN_MINOR: i32 = 57;

/// The version of the C API that a plugin or framework was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
// Exhaustive, because a version always consists of these two numbers.
pub struct ApiVersion {
    /// Major version. Incompatible changes increase it. It is 0 in every release so far.
    pub major: i32,
    /// Minor version. Additions increase it.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
