//! The table behind `GetPjrtApi`: the only place with unsafe code.
//!
//! Every slot holds `entry` for its marker type; what a function does is its `Entry` implementation in the file of
//! its noun. The unsafe code relies on these contracts, which the C header states for the framework:
//!
//! - **V1** Argument structs: a non-null `args` points to a struct of the function that is readable and writable for
//!   the `struct_size` bytes in its first word, during the call, and used by no other thread meanwhile. Where headers
//!   gave a constant too small for the struct, it is as long as the struct of those headers (`UNDERSTATED`).
//! - **V2** Handles: a non-null handle is one that this plugin gave out, of the C type the field declares, not yet
//!   destroyed; nobody uses a handle while or after it is destroyed.
//! - **V3** Arrays and strings: a pointer passed with a length, directly or in a struct, is readable for that many
//!   elements during the call, or until an event of the call is ready where the header says so; a destination is
//!   writable, and untouched by others, for as long.
//! - **V4** Callbacks: a function pointer and its argument may be called as the header says, from any thread.
//!
//! On this one, which holds for whoever describes a plugin by C structs:
//!
//! - **V8** Descriptors: a non-null pointer to a descriptor struct is readable for the `struct_size` bytes in its first
//!   word, each pointer within them that comes with a length for that many elements, and so on for what the elements
//!   point to, all unchanged during the call.
//!
//! And on these, which this module upholds:
//!
//! - **V5** Opaque types: each opaque C type stands for one Rust type (`Handle`), and every pointer given out as that
//!   type points to a live value of it.
//! - **V6** Lifetimes: what a call returns by pointer lives in the object it was asked of.
//! - **V7** Counting: an object is freed by whoever takes its count to zero, and only then.
//! - **V9** Pages: an execution shows its arguments in its thread's page before it looks whether they are deleted; who
//!   deletes one looks at all pages afterwards. Outputs are counted there, too (`ledger`).
//!
//! And on this one, which the system upholds:
//!
//! - **V10** Code: the library's code stays mapped until the process ends, or until closing the library has run the
//!   functions that it registered with `atexit` and removed those that it registered with `pthread_atfork`.

pub(crate) mod extensions;
pub(crate) mod lend;
pub(crate) mod objects;
pub(crate) mod reclaim;
pub(crate) mod table;

pub(crate) use table::api::shared_api;
pub use table::api::{API_MINOR, api};
