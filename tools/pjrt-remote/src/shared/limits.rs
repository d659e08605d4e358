//! Limits on shared memory.

/// Minimum size in bytes of an array that is passed in shared memory.
pub(crate) const LARGE: usize = 1 << 20;
