//! Messages between the processes of one computation.
//!
//! [`Transport`] is what collective operations need: messages from one process to another, in order, with deadlines, and
//! errors that name the process at fault. [`LocalTransport`] implements it for processes on one machine.
//!
//! Messages belong to a [`Stream`], such as one launch of a program, and have a tag within it. If a process cannot go on
//! with a stream, it reports the failure with [`Transport::fail`], and the other processes stop waiting for it.
#![forbid(unsafe_code)]

mod address;
mod error;
mod frame;
mod inbox;
mod local;
mod transport;

pub use error::Error;
pub use frame::{Header, Kind};
pub use inbox::Inbox;
pub use local::{LocalListener, LocalTransport};
pub use transport::{Stream, Transport};

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
