//! Calls on their way to the plugin, and what layers read and change in them.

mod arguments;
mod call;
mod execution;
mod frame;
mod program;
mod results;

pub use call::Call;
pub use execution::Execution;
pub use program::CompiledProgram;

pub(crate) use arguments::{Destination, HostData};
