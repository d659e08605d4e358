//! Replays recordings on a plugin.
//!
//! A replay makes the calls of the recording in the order in which the framework made them, in one thread. It compares
//! the data of each download with the data in the file. If the recording is limited to a run, the replay also compares
//! the outputs of this run.
//!
//! Uploads use the plugin's default layout, and the plugin may use their data only during the call. A recording of
//! another plugin may refer to devices and memories that this plugin does not have. The replay then uses the device at
//! the same position among the devices of the process, and the memory of the same kind or the default memory.
//!
//! A recording may come from a stranger. A replay uses memory in proportion to the file and to the outputs of the
//! recorded runs: [`Options::limit`] limits the arrays that other calls create, and the data that it reads. It never
//! reads a buffer whose data no earlier call sends, because it would wait forever. It drops options that may contain
//! paths, unless [`Options::trusts_options`] is set. The plugin compiles and runs the recorded programs, so replay
//! recordings of strangers only on a plugin that can be trusted with their programs and custom calls.

mod budget;
mod compare;
mod elements;
mod machine;
mod objects;
mod options;
mod order;
mod places;
mod readiness;
mod recorded_values;
mod report;
mod source;
mod trust;

pub use compare::{Difference, ParseToleranceError, Tolerance, compare};
pub use machine::{MakeClient, replay};
pub use options::{Options, Progress, Step};
pub use report::{Comparison, Problem, Report, Verdict};
