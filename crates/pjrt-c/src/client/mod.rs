//! Clients, their devices and memories, and what processes of one computation share.

#[allow(clippy::module_inception, reason = "the file of `dp_client`")]
mod client;
mod device;
mod key_value;
mod memory;
pub(crate) mod objects;
mod topology;

pub use client::*;
pub use device::*;
pub use key_value::*;
pub use memory::*;
pub use objects::*;
pub use topology::*;
