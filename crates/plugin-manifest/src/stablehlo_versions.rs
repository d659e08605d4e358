//! The StableHLO versions that a plugin reads.

/// Versions of StableHLO, as major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StablehloVersions {
    /// Newest version that the backend reads.
    pub current: [i64; 3],
    /// Oldest version that the backend reads.
    pub minimum: [i64; 3],
}

impl StablehloVersions {
    /// The versions from `minimum` to `current`, including both.
    #[must_use]
    pub const fn new(current: [i64; 3], minimum: [i64; 3]) -> Self {
        Self { current, minimum }
    }
}
