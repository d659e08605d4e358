//! Calls that the safe crate `pjrt` does not make: with other struct sizes, on raw events and errors, and with
//! arguments that `pjrt` would reject. All unsafe code of this crate is in this folder.
//!
//! The worker loads a plugin on behalf of the person who requested its test, and runs it in a process of its own. A plugin
//! that breaks contracts C1 to C11 of `docs/safety.md` may damage this process. The parent process then reports a crash.

mod buffers;
mod events;
mod failure;
mod sizes;
mod table;

pub(crate) use buffers::{execute_unchecked, host_size, load_bytes, read_with_size, write_with_stride};
pub(crate) use events::RawEvent;
pub(crate) use failure::{Failure, compile_followed_by, failing_compile};
pub(crate) use sizes::{Newer, OLDER, PROBES, newer};
