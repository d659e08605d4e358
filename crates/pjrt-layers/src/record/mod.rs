//! The layer `record`: writes the calls that are needed to repeat a computation, with their data, to a file.
//!
//! The crate `pjrt-record` describes and reads the file, and replays it. A call is written before the plugin receives it,
//! because a plugin may read the data of an upload until the transfer ends, and because a call that crashes the process
//! is then in the file. The outcome of the call follows in a block of its own.

mod calls;
mod downloads;
mod functions;
mod objects;
mod outcomes;
mod recorder;
mod sink;
mod snapshots;

pub use pjrt_record::{ParseSelectionError, Selection};
pub use recorder::Record;
pub use sink::Target;
