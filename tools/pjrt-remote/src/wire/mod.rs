//! The protocol, which `docs/remote-protocol.md` documents: messages, their frames, and conversions of their fields.

pub(crate) mod convert;
pub(crate) mod frame;
pub(crate) mod messages;
