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

    /// Returns the preferred size of a message in bytes. Larger data is divided into messages of this size, so that a
    /// process can combine the elements of one message while the next one arrives. Must return the same value in all
    /// processes.
    fn message_size(&self) -> usize {
        1 << 20
    }

    /// Sends a message of a collective to another process. May block until the transport of the other process has
    /// accepted earlier messages, but must not wait for a call of [`receive`](Self::receive).
    ///
    /// The messages of a collective and a group arrive in the order in which they were sent. All processes make calls
    /// with the same collective and the same group in the same order. Calls that differ in the collective or the group
    /// may overlap.
    ///
    /// # Errors
    ///
    /// Returns an error if the message cannot be sent. The error is a message that names the process at fault.
    fn send(&self, collective: u32, group: &[usize], message: &Message<'_>) -> Result<(), String>;

    /// Waits for the next message that the process `from` has sent for a collective and a group.
    ///
    /// # Errors
    ///
    /// Returns an error if no message can arrive, or if none arrives in time. The error is a message that names the
    /// process at fault.
    fn receive(&self, collective: u32, group: &[usize], from: usize) -> Result<Vec<u8>, String>;

    /// Takes back the memory of a message that [`receive`](Self::receive) returned, so that later messages can use it.
    fn recycle(&self, message: Vec<u8>) {
        drop(message);
    }

    /// Reports that the launch cannot continue in this process. Waiting calls of [`RemoteMembers::receive`], in this
    /// process and in the other processes, then return an error. The engine calls this method at most once, possibly
    /// while a call waits.
    fn fail(&self, why: &str);
}
