//! Errors of transports.

use std::time::Duration;

/// Why a message could not be sent or received, or a connection could not be made. If another process is at fault, the
/// error names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process sent no message before the deadline.
    #[error("process {rank} sent nothing within {} s; it is slow, stopped, or runs another program", .waited.as_secs_f32())]
    Timeout {
        /// Rank of the process.
        rank: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The process has ended, or its connection broke.
    #[error("process {rank} is lost: {why}")]
    Lost {
        /// Rank of the process.
        rank: usize,
        /// How the loss was noticed.
        why: String,
    },
    /// The process reported that it cannot continue with the stream.
    #[error("process {rank} failed: {why}")]
    Failed {
        /// Rank of the process.
        rank: usize,
        /// Its reason.
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
        /// Its address.
        address: String,
        /// The cause.
        why: String,
    },
    /// The process runs on another machine, and one of the two listens on the loopback interface only.
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
    /// The system failed.
    #[error("{0}")]
    System(String),
}
