//! Limits that all readers and the verifier share.

/// Maximum nesting of regions, attributes and types. The stack that a reader uses is proportional to it.
pub(crate) const MAX_NESTING: usize = 64;
