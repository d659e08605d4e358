//! Runs recordings on a plugin.
//!
//! A replay makes the calls of the recording in the order in which the framework made them, in one thread. It compares
//! the data of each download with those in the file, and the outputs of a run to which the recording is limited.
//!
//! Uploads use the plugin's default layout, and their data are valid only during the call. A recording of another
//! plugin may name devices and memories that this plugin does not have. The replay then uses the device at the same
//! position among those of the process, and the memory of the same kind, or the default memory.

mod compare;
mod elements;
mod machine;
mod order;
mod places;
mod report;

pub use compare::{Difference, ParseToleranceError, Tolerance, compare};
pub use machine::{MakeClient, Options, replay};
pub use report::{Comparison, Problem, Report, Verdict};
