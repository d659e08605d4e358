//! The interposing core, and all unsafe code of this crate. See docs/safety.md, section "Layers".

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
mod privileges;
mod program;
mod queries;
mod ready;
mod refusal;
mod send;
mod slot;
mod state;
mod table;
mod thread;
mod wait;

pub use call::{Call, Execution};
pub use forward::{Answer, Instance};
pub use program::CompiledProgram;
pub use state::State;
pub use table::TablePlan;

pub(crate) use arguments::{Destination, HostData};
pub(crate) use clock::{Clock, Scale};
pub(crate) use decode::BufferLayout;
pub(crate) use library::{library_folder, load};
pub(crate) use privileges::elevated;
pub(crate) use queries::{BufferInfo, ClientInfo};
pub(crate) use refusal::refusal;
pub(crate) use thread::thread_id;
