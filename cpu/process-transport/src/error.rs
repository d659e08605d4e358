//! Errors of transports.

use std::time::Duration;

/// The reason why a message could not be sent or received, or why a connection could not be made. If another process is
/// at fault, the error contains its rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process did not connect, or sent no message, before the deadline.
    #[error("process {rank} sent nothing within {} s; it is slow, stopped, or runs another program", .waited.as_secs_f32())]
    Timeout {
        /// Rank of the process.
        rank: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The process has ended, it does not read its messages, or its connection broke.
    #[error("process {rank} is lost: {why}")]
    Lost {
        /// Rank of the process.
        rank: usize,
        /// How the loss was detected.
        why: String,
    },
    /// The process reported that it cannot continue with the stream.
    #[error("process {rank} failed: {why}")]
    Failed {
        /// Rank of the process.
        rank: usize,
        /// Reason that the process reported.
        why: String,
    },
    /// This process reported the failure of the stream, or closed it.
    #[error("stopped: {0}")]
    Stopped(String),
    /// A connection to the process could not be made.
    #[error("process {rank} cannot be reached at {address:?}: {why}")]
    Unreachable {
        /// Rank of the process.
        rank: usize,
        /// Address of the process.
        address: String,
        /// The cause.
        why: String,
    },
    /// The process runs on another machine, and one of the two processes listens only on the loopback interface.
    #[error(
        "process {rank} is on another machine, and this transport connects processes of one machine; let each process \
         listen on an address of its network to change this"
    )]
    OtherMachine {
        /// Rank of the process.
        rank: usize,
    },
    /// A rank or an address is invalid, or they contradict each other.
    #[error("{0}")]
    Invalid(String),
    /// An operation of the operating system failed.
    #[error("{0}")]
    System(String),
}
