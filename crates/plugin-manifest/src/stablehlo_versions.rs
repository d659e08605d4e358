//! The StableHLO versions that a plugin reads.

/// Versions of StableHLO, as major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StablehloVersions {
    /// Newest version that the backend reads.
    pub current: [i64; 3],
    /// Oldest version that the backend reads.
    pub minimum: [i64; 3],
}
