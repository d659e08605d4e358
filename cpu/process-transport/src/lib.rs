//! Messages between the processes of one computation.
//!
//! Collective operations use the trait [`Transport`] to send messages from one process to another. Messages arrive in
//! order, receiving has a deadline, and errors name the process at fault. [`LocalTransport`] implements the trait. On
//! Linux, processes of one machine use Unix sockets. Otherwise the processes use TCP, by default on the loopback
//! interface, or between machines of a trusted network.
//!
//! Messages belong to a [`Stream`], such as one launch of a program, and have a tag within this stream. If a process
//! cannot continue with a stream, it reports the failure with [`Transport::fail`], and the other processes stop waiting
//! for messages of the stream.
#![forbid(unsafe_code)]

// The test cases of all transports name this crate as a dependency.
#[cfg(test)]
extern crate self as process_transport;

mod address;
mod error;
mod frame;
mod inbox;
mod local;
mod meeting;
mod memory;
mod socket;
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
