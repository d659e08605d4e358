//! Finding, choosing and loading plugins.

mod discovery;
mod lease;
mod options;
mod plan;
mod plugin;
mod policy;
#[allow(clippy::module_inception, reason = "the file of `dp_registry`")]
mod registry;
mod support;
mod topology;

pub use discovery::*;
pub use lease::*;
pub use options::*;
pub use plan::*;
pub use plugin::*;
pub use policy::*;
pub use registry::*;
pub use support::*;
pub use topology::*;
