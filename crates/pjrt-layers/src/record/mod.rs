//! The layer `record`: writes the calls that are needed to repeat a computation, with their data, to a file.
//!
//! The crate `pjrt-record` defines the file format, and reads and replays recordings. The layer writes a call before
//! the plugin receives it. The data of an upload are valid at this time, but the framework may free them when the
//! transfer ends. In addition, the file then contains a call that crashes the process. The outcome of the call follows
//! in a separate block.

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
