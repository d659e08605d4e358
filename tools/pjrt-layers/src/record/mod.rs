//! The layer `record`: writes calls and their data to a file. A replay of the file repeats the computation.
//!
//! The crate `pjrt-record` defines the file format, and reads and replays recordings. The layer writes a call before
//! the plugin receives it. The data of an upload are valid at this time, but the framework may free them when the
//! transfer ends. In addition, if a call crashes the process, the file contains this call. The outcome of the call
//! follows in a separate block.

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
