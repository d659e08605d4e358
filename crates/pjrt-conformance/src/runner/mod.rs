//! Runs cases in child processes.
//!
//! A run starts worker processes, each with a group of cases. Every worker has a guard process, which ends all processes
//! that the plugin starts. If a worker ends during a case, or the case exceeds its time limit, the case gets the outcome
//! `crash` or `timeout`, and another worker runs the rest of the group. If several workers end while they load the plugin
//! or create a client, the remaining cases are skipped.

mod group;
mod output;
mod queue;
mod run;

pub use group::Launcher;
pub use run::{Settings, Update, run};
