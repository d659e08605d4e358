//! The objects and functions of a client, and of its devices, memories and buffers.

pub(crate) mod alias_sources;
pub(crate) mod async_raw_copy;
pub(crate) mod async_read;
pub(crate) mod at_exit;
pub(crate) mod buffer;
pub(crate) mod buffer_functions;
pub(crate) mod client_functions;
pub(crate) mod create;
pub(crate) mod device;
pub(crate) mod device_functions;
pub(crate) mod dma;
pub(crate) mod dynamic_dims;
pub(crate) mod extents;
pub(crate) mod foreign_view;
pub(crate) mod handle;
pub(crate) mod home_process;
pub(crate) mod mappings;
pub(crate) mod memory;
pub(crate) mod memory_functions;
pub(crate) mod pending_value;
pub(crate) mod placeholder_buffer;
pub(crate) mod placeholder_functions;
pub(crate) mod placements;
pub(crate) mod transfer;
pub(crate) mod value;
