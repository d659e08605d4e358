//! What the functions have in common: handles, checks of parameters, and results.

pub(crate) mod bytes;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod foreign;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod memory;
pub(crate) mod objects;
pub(crate) mod output;
pub(crate) mod references;
pub(crate) mod sized;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod version;
