//! Memory and callbacks that cross the border: what a framework lends to the plugin, and the plugin to a framework.

pub(crate) mod destination;
pub(crate) mod foreign_memory;
pub(crate) mod host_alias;
pub(crate) mod host_channel;
pub(crate) mod host_destination;
pub(crate) mod key_value_store;
pub(crate) mod output_callbacks;
