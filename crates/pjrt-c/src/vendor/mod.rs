//! Plugins in C and C++: the functions of a vendor's driver become a plugin.

mod adapter;
mod backend;
mod completer;
mod plugin;

pub use backend::*;
pub use completer::*;
pub use plugin::*;
