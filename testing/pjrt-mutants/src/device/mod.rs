//! The embedded device (`pjrt-cpu`) with some of its functions replaced. All unsafe code of this crate is in this
//! module.

mod call;
mod foreign;
mod hooks;
mod objects;
mod process;
mod tables;

pub(crate) use call::{Answer, Call};
pub(crate) use foreign::{
    Shared, Trampoline, bytes, call_back, intercept, leaked, list, pattern, read_at, write, write_at,
};
pub(crate) use hooks::Device;
pub(crate) use objects::{ask, error, ready_event, set, settable_event, wait};
pub(crate) use process::{at_exit, catch_signal, flush_subnormals, ignore_children, set_variable};
