//! Replays recordings on a plugin.
//!
//! A replay makes the calls of the recording in the order in which the framework made them, in one thread. It compares
//! the data of each download with the data in the file. If the recording is limited to a run, the replay also compares
//! the outputs of this run.
//!
//! Uploads use the plugin's default layout, and the plugin may use their data only during the call. A recording of
//! another plugin may refer to devices and memories that this plugin does not have. The replay then uses the device at
//! the same position among the devices of the process, and the memory of the same kind or the default memory.

mod compare;
mod elements;
mod machine;
mod order;
mod places;
mod recorded_values;
mod report;

pub use compare::{Difference, ParseToleranceError, Tolerance, compare};
pub use machine::{MakeClient, Options, replay};
pub use report::{Comparison, Problem, Report, Verdict};
