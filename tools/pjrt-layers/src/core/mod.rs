//! The code between the framework and the plugin, which contains the handwritten unsafe code of this crate. The section
//! "Layers" of docs/safety.md defines the contracts L1 to L13, which the `SAFETY` comments cite.

mod answer;
mod arguments;
mod ask;
mod call;
mod client_table;
mod clock;
mod contain;
mod decode;
mod errors;
mod exit;
mod forward;
mod frame;
mod gates;
mod library;
mod memory;
mod object_call;
mod object_functions;
mod object_tables;
mod object_words;
mod program;
mod queries;
mod quiet;
mod ready;
mod refusal;
mod send;
mod slot;
mod start;
mod state;
mod table;
mod thread;
mod wait;
mod word;

pub use call::{Call, Execution};
pub use forward::{Answer, Instance};
pub use program::CompiledProgram;
pub use state::State;
pub use table::TablePlan;

pub(crate) use arguments::{Destination, HostData};
pub(crate) use clock::{Clock, Scale};
pub(crate) use decode::BufferLayout;
pub(crate) use library::{library_folder, load};
pub(crate) use object_call::{Passed, Returned, Target, To, back, call as call_object};
pub(crate) use object_functions::object_functions;
pub(crate) use object_tables::{HasTable, ObjectForwarder};
pub(crate) use queries::{BufferInfo, ClientInfo};
pub(crate) use refusal::refusal;
pub(crate) use thread::thread_id;
