//! The PJRT extensions that a plugin can offer, one module for each extension.

pub(crate) mod abi_version;
pub(crate) mod callbacks;
pub(crate) mod cross_host_transfers;
mod device_handlers;
pub(crate) mod executable_metadata;
pub(crate) mod execute_context;
pub(crate) mod extension_chain;
pub(crate) mod ffi;
pub(crate) mod foreign_handler;
pub(crate) mod host_memory_allocator;
pub(crate) mod layouts;
pub(crate) mod link;
pub(crate) mod memory_descriptions;
pub(crate) mod profiler;
pub(crate) mod raw_buffers;
pub(crate) mod shardings;
pub(crate) mod streams;
