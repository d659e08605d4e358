//! Runs cases in child processes.
//!
//! A run starts worker processes, each with a group of cases. Every worker has a guard process. On Linux, the guard
//! kills the processes that the plugin started when the worker ends. If a worker ends during a case, the case gets the
//! outcome `crash`. If a case exceeds its time limit, the runner ends the worker, and the case gets the outcome
//! `timeout`. Another worker then runs the remaining cases of the group. If two workers fail to load the plugin, all
//! remaining cases are skipped. If two workers end while they create a client, the remaining cases that need a client
//! are skipped.

mod group;
mod output;
mod queue;
mod run;

pub use group::Launcher;
pub use run::{Settings, Update, run};
