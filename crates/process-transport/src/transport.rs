//! The trait.

use std::fmt;
use std::time::Instant;

use crate::Error;

/// Identifies messages that belong together, such as those of one launch of a program.
///
/// Streams of one lane are numbered from 0 without gaps, and every process uses the same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The sequence to which the stream belongs.
    pub lane: u64,
    /// Its position in the sequence.
    pub number: u64,
}

/// Sends messages to the other processes of a computation, and receives theirs.
///
/// Processes are numbered from 0, by rank. Messages with the same sender, receiver, stream and tag arrive in the order in
/// which they were sent. All methods may be called from any thread.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Rank of this process.
    fn rank(&self) -> usize;

    /// Number of processes.
    fn size(&self) -> usize;

    /// Sends a message that consists of `parts`. Does not wait until the other process receives it.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the other process has ended or does not read its messages.
    fn send(&self, to: usize, stream: Stream, tag: u64, parts: &[&[u8]]) -> Result<(), Error>;

    /// Waits for the next message of that process with this tag.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after the deadline, [`Error::Lost`] if the process has ended, [`Error::Failed`] if a process
    /// reported the failure of the stream, and [`Error::Stopped`] if this process did.
    fn receive(&self, from: usize, stream: Stream, tag: u64, deadline: Instant) -> Result<Vec<u8>, Error>;

    /// Fails a stream in this process and in the other processes `peers`. Threads that wait for its messages get an
    /// error with this reason.
    fn fail(&self, stream: Stream, peers: &[usize], why: &str);

    /// Frees the remaining messages of a stream, and drops those that arrive later.
    fn close(&self, stream: Stream);

    /// Treats a process as ended, because another service knows that it failed.
    fn lose(&self, rank: usize, why: &str);
}
