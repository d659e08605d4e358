//! Limits that the readers and the verifier share.

/// Maximum nesting depth of regions, attributes and types. It limits the stack that a recursive reader uses.
pub(crate) const MAX_NESTING: usize = 64;
