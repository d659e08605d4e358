//! The interface to members of a launch that run in other processes.

use std::fmt;

/// A message from one process to another in a collective.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Index of the process that receives the message.
    pub to: usize,
    /// The bytes of the message, one part after the other.
    pub parts: Vec<&'a [u8]>,
}

/// Connects the members of a launch in this process to the members in other processes.
///
/// Every process compiles the same program and creates a [`Communicator`](crate::Communicator) with the same numbers of
/// replicas and partitions. Each process runs the members that are local to it. When all local members of a group have
/// reached a collective, the last one exchanges their contributions with the other processes. All processes combine the
/// contributions in the same order as a single process would, so that the results are equal bit for bit.
pub trait RemoteMembers: Send + Sync + fmt::Debug {
    /// Returns the index of this process.
    fn own_process(&self) -> usize;

    /// Returns the index of the process that runs the member with a flattened ID, or `None` if there is no such member.
    fn process_of(&self, member: usize) -> Option<usize>;

    /// Sends one message to each other process with members in the group. Returns the messages that these processes
    /// sent, in the order of `messages`.
    ///
    /// All processes make calls with the same collective and the same group in the same order. Calls that differ in the
    /// collective or the group may overlap.
    ///
    /// # Errors
    ///
    /// Returns an error if the exchange fails. The error is a message that names the process at fault.
    fn exchange(&self, collective: u32, group: &[usize], messages: &[Message<'_>]) -> Result<Vec<Vec<u8>>, String>;

    /// Takes back the memory of a message that [`exchange`](Self::exchange) returned, so that later messages can use it.
    fn recycle(&self, message: Vec<u8>) {
        drop(message);
    }

    /// Reports that the launch cannot continue in this process. Waiting calls of [`RemoteMembers::exchange`], in this
    /// process and in the other processes, then return an error. The engine calls this method at most once, possibly
    /// while a call waits.
    fn fail(&self, why: &str);
}
