//! Runs cases in child processes.
//!
//! A run starts worker processes, each with a group of cases. Every worker has a guard process. When the worker ends,
//! its guard kills the processes that the plugin started. If a worker ends during a case, or if the case exceeds its
//! time limit, the case gets the outcome `crash` or `timeout`, and another worker runs the rest of the group. If
//! several workers end while they load the plugin, all remaining cases are skipped. If several workers end while they
//! create a client, the remaining cases that need a client are skipped.

mod group;
mod output;
mod queue;
mod run;

pub use group::Launcher;
pub use run::{Settings, Update, run};
