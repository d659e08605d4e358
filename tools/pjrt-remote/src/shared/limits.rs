//! Limits on shared memory.

/// Minimum size in bytes of an array that is passed in shared memory.
pub(crate) const LARGE: usize = 1 << 20;
/// Maximum number of blocks of memory that a client shares with a server. The system limits the number of mappings of a
/// process.
pub(crate) const MAX_BLOCKS: usize = 512;
