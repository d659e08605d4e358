//! Memory reclamation: decides when an object or a buffer may be freed.

pub(crate) mod buffer_pool;
pub(crate) mod hazard;
pub(crate) mod refcount;
#[cfg(test)]
mod refcount_tests;
pub(crate) mod sync;
