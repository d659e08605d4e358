//! The border between processes: members of a launch that another process runs.

use std::fmt;

/// The contribution of one member to a collective: its position in the group, and the bytes of each of its arrays.
pub type Contribution<'a> = (usize, Vec<&'a [u8]>);

/// The contributions that one process sent.
#[derive(Clone, Debug)]
pub struct Received {
    /// The positions in the group of the members that it runs.
    pub places: Vec<usize>,
    /// The bytes of their arrays: those of the first member, one array after the other, then those of the next.
    pub bytes: Vec<u8>,
}

/// Connects the members of a launch in this process to those in other processes.
///
/// Every process compiles the same program and creates a [`Communicator`](crate::Communicator) with the same numbers of
/// replicas and partitions. It takes the members that are local to it. When all local members of a group have reached a
/// collective, the last one exchanges their contributions. All processes then compute the results in the same order as
/// one process would, so that the results are equal bit for bit.
pub trait RemoteMembers: Send + Sync + fmt::Debug {
    /// Whether this process runs the member with that flattened ID.
    fn is_local(&self, member: usize) -> bool;

    /// Sends the contributions of the local members of a group to the other processes with members in the group, and
    /// returns what each of them sent.
    ///
    /// Calls with the same number of the collective and the same group are in the same order in all processes. Calls
    /// that differ in one of them may overlap.
    ///
    /// # Errors
    ///
    /// The reason, which names the process at fault.
    fn exchange(&self, collective: u32, group: &[usize], own: &[Contribution<'_>]) -> Result<Vec<Received>, String>;

    /// Reports that the launch cannot go on in this process. Calls of [`RemoteMembers::exchange`] that wait, here and in
    /// the other processes, return with an error. Called at most once, possibly while such a call waits.
    fn fail(&self, why: &str);
}
