//! The StableHLO versions that a plugin reads.

/// Inclusive range of StableHLO versions, each as major, minor and patch version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StablehloVersions {
    /// Newest version that the plugin reads.
    pub current: [i64; 3],
    /// Oldest version that the plugin reads.
    pub minimum: [i64; 3],
}

impl StablehloVersions {
    /// Creates the range of all versions from `minimum` to `current`.
    #[must_use]
    pub const fn new(current: [i64; 3], minimum: [i64; 3]) -> Self {
        Self { current, minimum }
    }
}
