//! The plugin `remote`: forwards the calls of a framework to a server.

pub(crate) mod backend;
pub(crate) mod compile;
pub(crate) mod connection;
pub(crate) mod objects;
pub(crate) mod remote;
pub(crate) mod settings;
pub(crate) mod tickets;
