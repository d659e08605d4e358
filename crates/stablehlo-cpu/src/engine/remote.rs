//! The border between processes: members of a launch that another process runs.

use std::fmt;

/// A message of one process to another in a collective.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// The process that receives it.
    pub to: usize,
    /// Its bytes, one part after the other.
    pub parts: Vec<&'a [u8]>,
}

/// Connects the members of a launch in this process to those in other processes.
///
/// Every process compiles the same program and creates a [`Communicator`](crate::Communicator) with the same numbers of
/// replicas and partitions. It takes the members that are local to it. When all local members of a group have reached a
/// collective, the last one exchanges their contributions. All processes combine the contributions in the same order as
/// one process would, so that the results are equal bit for bit.
pub trait RemoteMembers: Send + Sync + fmt::Debug {
    /// The number of this process.
    fn own_process(&self) -> usize;

    /// The process that runs the member with that flattened ID. Returns `None` if there is no such member.
    fn process_of(&self, member: usize) -> Option<usize>;

    /// Sends one message to each other process with members in the group, and returns what each of them sent, in the
    /// order of `messages`.
    ///
    /// Calls with the same number of the collective and the same group are in the same order in all processes. Calls
    /// that differ in one of them may overlap.
    ///
    /// # Errors
    ///
    /// The reason, which names the process at fault.
    fn exchange(&self, collective: u32, group: &[usize], messages: &[Message<'_>]) -> Result<Vec<Vec<u8>>, String>;

    /// Reports that the launch cannot go on in this process. Calls of [`RemoteMembers::exchange`] that wait, here and in
    /// the other processes, return with an error. Called at most once, possibly while such a call waits.
    fn fail(&self, why: &str);
}
