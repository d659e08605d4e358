//! The objects behind the handles of the C API, and the functions of the table that act on them.

pub(crate) mod client;
pub(crate) mod device_description;
pub(crate) mod device_description_functions;
pub(crate) mod error_functions;
pub(crate) mod event_functions;
pub(crate) mod executable;
pub(crate) mod host_stream_functions;
pub(crate) mod memory_layout;
pub(crate) mod opaque_tokens;
pub(crate) mod owned_arrays;
pub(crate) mod pending_callbacks;
pub(crate) mod plugin_functions;
pub(crate) mod topology;
pub(crate) mod topology_functions;
pub(crate) mod transfer_manager;
