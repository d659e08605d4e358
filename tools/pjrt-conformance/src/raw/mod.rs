//! Calls that `pjrt` does not make: with other struct sizes, on raw events and errors, and with arguments that `pjrt`
//! would reject. Apart from tests, all unsafe code of this crate is in this folder.
//!
//! The plugin under test runs in a worker process. A plugin that breaks contracts C1 to C11 of `docs/safety.md` may
//! damage the worker's memory. If the worker then ends during a case, the runner reports a crash.

mod assignment;
mod buffers;
mod events;
mod failure;
mod handlers;
mod objects;
pub(crate) mod shared;
mod sizes;
mod table;
mod triton;
mod view;

pub(crate) use assignment::default_assignment;
pub(crate) use buffers::{
    GUARD, copy_raw_guarded, copy_raw_unchecked, execute_keeping, execute_unchecked, fail_copy, host_size, load_bytes,
    read_guarded, read_with_size, release_reference, with_reference, write_raw, write_with_stride,
};
pub(crate) use events::RawEvent;
pub(crate) use failure::{Failure, compile_followed_by, failing_compile};
pub(crate) use handlers::{add_data, calls, found, register_counter, register_gpu_counter, register_reader};
pub(crate) use objects::{
    delete, delete_executable, get_executable, is_deleted, is_executable_deleted, is_on, read, read_destroyed,
    upload_reports_end,
};
pub(crate) use sizes::{ABI_VERSION_PROBES, Newer, OLDER, PROBES, newer};
pub(crate) use table::{MOST, chain};
pub(crate) use triton::compile_triton;
pub(crate) use view::{View, view_from, view_of, with_view_of};
