//! The trait [`Transport`], and the streams of its messages.

use std::fmt;
use std::time::Instant;

use crate::Error;

/// Identifies messages that belong together, such as the messages of one launch of a program.
///
/// A lane is a sequence of streams. The streams of a lane are numbered from 0 without gaps, and every process uses the
/// same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Identifier of the lane that contains the stream.
    pub lane: u64,
    /// Number of the stream in the lane.
    pub number: u64,
}

/// Sends messages to the other processes of a computation, and receives messages from them.
///
/// Each process has a rank, counted from 0. Messages with the same sender, receiver, stream and tag arrive in the order
/// in which they were sent. All methods may be called from any thread.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Returns the rank of this process.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Returns the preferred size of a message in bytes. Divide a large transfer into messages of this size if the
    /// receiver can process each message while the next one arrives. Returns the same value in all processes.
    ///
    /// A message of this size stays in the processor's cache while it is sent, received and used. Smaller messages wake
    /// threads more often.
    fn message_size(&self) -> usize {
        1 << 20
    }

    /// Sends a message that consists of `parts`.
    ///
    /// Does not wait until the other process calls [`receive`](Self::receive). May wait until the transport of the
    /// other process has read earlier messages or a part of this message.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Lost`] if the other process has ended or does not read its messages. Returns [`Error::Invalid`]
    /// if `to` is this process or does not exist.
    fn send(&self, to: usize, stream: Stream, tag: u64, parts: &[&[u8]]) -> Result<(), Error>;

    /// Waits for the next message of the process `from` with this stream and tag.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Timeout`] after the deadline, [`Error::Lost`] if the process has ended, [`Error::Failed`] if
    /// another process reported the failure of the stream, [`Error::Stopped`] if this process failed or closed the
    /// stream, and [`Error::Invalid`] if the process `from` does not exist.
    fn receive(&self, from: usize, stream: Stream, tag: u64, deadline: Instant) -> Result<Vec<u8>, Error>;

    /// Takes back the memory of a received message, so that later messages can use it.
    ///
    /// Calling this method is optional. It avoids the page faults of new memory, which can take longer than the copies
    /// of a large message.
    fn recycle(&self, message: Vec<u8>) {
        drop(message);
    }

    /// Fails a stream in this process and in the processes `peers`. Threads that wait for messages of the stream get an
    /// error with this reason.
    fn fail(&self, stream: Stream, peers: &[usize], why: &str);

    /// Frees the remaining messages of a stream, and drops messages of the stream that arrive later.
    fn close(&self, stream: Stream);

    /// Marks a process as lost after another service has detected its failure.
    fn lose(&self, rank: usize, why: &str);
}
