//! The table behind `GetPjrtApi`.
//!
//! Every slot of the table holds `table::entry::entry` for its marker type. The function itself is a
//! `table::entry::Entry` implementation, in the file named after its object. ARCHITECTURE.md describes the layout of
//! the modules.
//!
//! The unsafe code relies on the contracts V1 to V10. `docs/safety.md` defines them, and each SAFETY comment cites one
//! by number and words.

mod api;
pub(crate) mod extensions;
pub(crate) mod lend;
pub(crate) mod objects;
pub(crate) mod reclaim;
pub(crate) mod table;

pub(crate) use api::shared_api;
pub use api::{API_MINOR, api};
