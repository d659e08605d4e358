//! The C function table that `GetPjrtApi` returns.
//!
//! Every slot of the table holds the generic function `table::entry::entry`, instantiated with the slot's marker type.
//! The implementation of a slot is an `impl` of `table::entry::Entry`, in the module of the object that the function
//! works on. ARCHITECTURE.md describes the layout of the modules.
//!
//! The unsafe code relies on the contracts V1 to V11, which `docs/safety.md` defines. Each SAFETY comment cites a
//! contract by its number and a keyword.

mod api;
pub(crate) mod extensions;
pub(crate) mod lend;
pub(crate) mod objects;
pub(crate) mod reclaim;
pub(crate) mod table;

pub use api::{API_MINOR, api};
