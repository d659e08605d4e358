//! Memory and callbacks that a framework lends to the plugin, and memory that the plugin lends to a framework.

pub(crate) mod destination;
pub(crate) mod foreign_memory;
pub(crate) mod gate;
pub(crate) mod host_array;
pub(crate) mod host_channel;
pub(crate) mod host_destination;
pub(crate) mod key_value_store;
pub(crate) mod output_callbacks;
