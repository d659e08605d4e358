//! Memory that a client and a server on one Linux machine share, for large arrays.

pub(crate) mod arriving;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod outgoing;
pub(crate) mod ring;
