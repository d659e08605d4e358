//! The code between the framework and the plugin, which contains the handwritten unsafe code of this crate. The section
//! "Layers" of docs/safety.md defines the contracts L1 to L13, which the `SAFETY` comments cite.

mod calls;
mod events;
mod forwarding;
mod memory;
mod objects;
mod plugin;
mod process;
mod tables;

pub use calls::{Call, CompiledProgram, Execution};
pub use forwarding::{Answer, Instance, Stack};
pub use plugin::Plugin;
pub use tables::TablePlan;

pub(crate) use calls::{Destination, HostData};
pub(crate) use forwarding::refusal;
pub(crate) use memory::BufferLayout;
pub(crate) use objects::{
    HasTable, ObjectForwarder, Passed, Returned, Target, To, back, call_object, object_functions,
};
pub(crate) use plugin::{BufferInfo, ClientInfo, library_folder, load};
pub(crate) use process::{Clock, Scale, thread_id};
