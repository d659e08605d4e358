//! Programs, the options for compiling them, compiled programs, and their runs.

mod callbacks;
mod compile_options;
mod executable;
mod execute_options;
mod loaded_executable;
#[allow(clippy::module_inception, reason = "the file of `dp_program`")]
mod program;

pub use callbacks::*;
pub use compile_options::*;
pub use executable::*;
pub use execute_options::*;
pub use loaded_executable::*;
pub use program::*;
