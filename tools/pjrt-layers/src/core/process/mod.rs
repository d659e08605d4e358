//! The process: its clock, its threads, its exit, and panics of layers.

mod clock;
mod contain;
pub(super) mod exit;
mod thread_id;

pub(crate) use clock::{Clock, Scale};
pub(crate) use thread_id::thread_id;

pub(super) use contain::contain;
