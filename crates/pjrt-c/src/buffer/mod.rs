//! Arrays on devices: uploads, downloads, properties, and the events that tell when they are ready.

#[allow(clippy::module_inception, reason = "the file of `dp_buffer`")]
mod buffer;
pub(crate) mod dlpack;
mod download;
mod event;
mod shape;
mod transfer_manager;
pub(crate) mod upload;

pub use buffer::*;
pub use dlpack::*;
pub use download::*;
pub use event::*;
pub use shape::*;
pub use transfer_manager::*;
pub use upload::*;
