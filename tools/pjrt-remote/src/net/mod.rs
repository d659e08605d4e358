//! Connections: addresses, sockets, and the messages that wait to be sent.

pub(crate) mod address;
pub(crate) mod closer;
pub(crate) mod greeting;
pub(crate) mod outbox;
pub(crate) mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
