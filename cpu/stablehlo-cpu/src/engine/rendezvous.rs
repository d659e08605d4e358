//! The rendezvous of the members of a launch. Collectives exchange their data in such a rendezvous.
//!
//! A launch runs one program on every member of a [`Communicator`] at once, each on its own thread. A collective is a
//! rendezvous of a group of members. The last member to arrive does the common work, while the others wait. No member
//! waits for a member that can no longer arrive. If a member fails, is dropped before its run ends, or ends without
//! taking part, the waiting members get an error. They also get an error if all members wait in different collectives.
//!
//! The members may run in several processes ([`RemoteMembers`]). Each process then has a communicator of its own, in
//! which only its local members meet. The last local member of a group to arrive fetches the contributions of the
//! remote members.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::pool::{Buffer, Pool};
use super::remote::{Message, RemoteMembers};
use crate::error::RunError;

/// The members of one launch. There are `replicas * partitions` members. As in the specification, each member has the
/// flattened ID `replica * partitions + partition`. A communicator serves only one launch. Create a new one for the
/// next launch.
pub struct Communicator {
    replicas: usize,
    partitions: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// The members that other processes run.
    remote: Option<Arc<dyn RemoteMembers>>,
}

/// The buffers that each member contributes to a rendezvous, by position in the group.
type Contributions = Vec<Vec<Buffer>>;

/// The outcome of a rendezvous.
#[derive(Default)]
pub(crate) struct CollectiveOutcome {
    /// The members' contributions. Empty if the processes exchanged only the data that their own results need.
    pub(crate) contributions: Contributions,
    /// The result that is the same for all members.
    pub(crate) result: Vec<Buffer>,
    /// The results of the members of this process, by position in the group, if the results differ between members and
    /// were computed together.
    pub(crate) parts: Vec<Option<Vec<Buffer>>>,
}

/// A process with members in a group.
pub(crate) struct GroupProcess {
    pub(crate) number: usize,
    /// Whether this is the current process.
    pub(crate) is_own: bool,
    /// The positions of the process's members in the group.
    pub(crate) places: Vec<usize>,
}

/// The ID of a collective in the program, and the first member of the group that runs it.
type Key = (u32, usize);
type Outcome = Arc<OnceLock<Arc<CollectiveOutcome>>>;

struct Rendezvous {
    contributions: Vec<Option<Vec<Buffer>>>,
    /// Number of local members that have not arrived.
    missing: usize,
    group: Arc<[usize]>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// The member is running or has not started.
    Busy,
    Waiting,
    Finished,
    /// Another process runs the member.
    Remote,
}

struct State {
    /// The rendezvous in which at least one member waits.
    open: HashMap<Key, Rendezvous>,
    members: Vec<Status>,
    failure: Option<String>,
}

impl Communicator {
    /// Creates a communicator whose members have not started. A count of zero is treated as one.
    pub fn new(replicas: usize, partitions: usize) -> Arc<Communicator> {
        Self::create(replicas, partitions, None)
    }

    /// Creates a communicator with members in several processes. Use only the local members in this process.
    pub fn across(replicas: usize, partitions: usize, remote: Arc<dyn RemoteMembers>) -> Arc<Communicator> {
        Self::create(replicas, partitions, Some(remote))
    }

    fn create(replicas: usize, partitions: usize, remote: Option<Arc<dyn RemoteMembers>>) -> Arc<Communicator> {
        let (replicas, partitions) = (replicas.max(1), partitions.max(1));
        let is_local =
            |id: &usize| remote.as_ref().is_none_or(|remote| remote.process_of(*id) == Some(remote.own_process()));
        let status = |id| if is_local(&id) { Status::Busy } else { Status::Remote };
        let members = (0..replicas.saturating_mul(partitions)).map(status).collect();
        let state = State { open: HashMap::new(), members, failure: None };
        Arc::new(Communicator { replicas, partitions, state: Mutex::new(state), changed: Condvar::new(), remote })
    }

    /// Returns the number of replicas.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Returns the number of partitions of each replica.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Creates the member for a replica and a partition. Create each member exactly once, and create all members before
    /// the first one runs. Run each member on its own thread, because members wait for each other. Never use a thread
    /// pool that may have fewer threads than the communicator has members.
    pub fn member(self: &Arc<Communicator>, replica: usize, partition: usize) -> Member {
        Member { communicator: self.clone(), replica, partition, ended: AtomicBool::new(false) }
    }

    /// Returns all members, ordered by flattened ID.
    pub fn members(self: &Arc<Communicator>) -> Vec<Member> {
        let ids = (0..self.replicas).flat_map(|r| (0..self.partitions).map(move |p| (r, p)));
        ids.map(|(replica, partition)| self.member(replica, partition)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the launch and wakes all waiting members. Only the first failure is reported.
    fn fail(&self, state: &mut State, message: impl FnOnce() -> String) {
        if state.failure.is_none() {
            let message = message();
            if let Some(remote) = &self.remote {
                remote.fail(&message);
            }
            state.failure = Some(message);
            // Free the contributions now, because the last member may end much later.
            state.open.clear();
        }
        self.changed.notify_all();
    }

    /// Ends the launch. Members that wait for other members, now or later, fail with the message `why`. Members that
    /// compute continue until their next collective. To end them earlier, use [`Stop`](super::Stop).
    pub fn stop(&self, why: &str) {
        let mut state = self.lock();
        self.fail(&mut state, || why.to_owned());
    }

    fn name(&self, id: usize) -> String {
        format!("member {id} (replica {}, partition {})", id / self.partitions, id % self.partitions)
    }
}

impl State {
    fn failed(&self) -> Result<(), RunError> {
        self.failure.clone().map_or(Ok(()), |message| Err(RunError::Launch(message)))
    }

    /// Returns the reason why a rendezvous can never be completed. Either an absent member has ended, or all members of
    /// this process that have not ended wait for one another. Returns `None` if there is no such reason.
    fn hopeless(&self) -> Option<String> {
        for rendezvous in self.open.values() {
            let absent = |(at, &id): (usize, &usize)| {
                (rendezvous.contributions[at].is_none() && self.members[id] == Status::Finished).then_some(id)
            };
            if let Some(id) = rendezvous.group.iter().enumerate().find_map(absent) {
                return Some(format!("member {id} ended without taking part in a collective the others wait in"));
            }
        }
        let waiting = self.members.iter().filter(|&&m| m == Status::Waiting).count();
        let stuck = waiting > 0 && !self.members.contains(&Status::Busy);
        stuck.then(|| format!("{waiting} members wait in different collectives for one another"))
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator").field("replicas", &self.replicas).field("partitions", &self.partitions).finish()
    }
}

/// One member of a launch, for one run of one program. If it is dropped before its run ends, the other members fail.
pub struct Member {
    communicator: Arc<Communicator>,
    replica: usize,
    partition: usize,
    ended: AtomicBool,
}

impl Member {
    /// Returns the result of `replica_id` on this member.
    pub fn replica_id(&self) -> usize {
        self.replica
    }

    /// Returns the result of `partition_id` on this member.
    pub fn partition_id(&self) -> usize {
        self.partition
    }

    /// Returns the communicator that the member belongs to.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// Returns the member's flattened ID.
    pub(crate) fn id(&self) -> usize {
        self.replica * self.communicator.partitions + self.partition
    }

    /// Fails the member, for example because its inputs could not be computed. Does nothing if its run has already
    /// ended. The other members fail with a message that contains `why`.
    pub fn fail(&self, why: &str) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            let mut state = self.communicator.lock();
            self.communicator.fail(&mut state, || format!("{} failed: {why}", self.communicator.name(self.id())));
            self.finished(&mut state);
        }
    }

    /// Marks the member as finished after its run. Fails the launch if other members still wait for this member.
    pub(crate) fn finish(&self) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            let mut state = self.communicator.lock();
            self.finished(&mut state);
            if let Some(why) = state.hopeless() {
                self.communicator.fail(&mut state, || why);
            }
        }
    }

    fn finished(&self, state: &mut State) {
        if let Some(status) = state.members.get_mut(self.id()) {
            *status = Status::Finished;
        }
    }

    /// Meets the other members of `group` for collective `collective` of the program. The group contains distinct
    /// flattened IDs, including this member's ID, and all its members must pass the same group. The last member to
    /// arrive calls `make` with the contributions of the members, in the order of the group. The contributions of
    /// members in other processes are `None`.
    pub(crate) fn run_collective(
        &self,
        collective: u32,
        group: &Arc<[usize]>,
        contributions: Vec<Buffer>,
        make: impl FnOnce(Vec<Option<Vec<Buffer>>>) -> Result<CollectiveOutcome, RunError>,
    ) -> Result<Arc<CollectiveOutcome>, RunError> {
        let id = self.id();
        let place = group.iter().position(|&member| member == id);
        let place = place.ok_or_else(|| RunError::Internal(format!("member {id} is not of the group {group:?}")))?;
        let key = (collective, group[0]);
        let mut state = self.communicator.lock();
        state.failed()?;
        let State { open, members, .. } = &mut *state;
        let rendezvous = open.entry(key).or_insert_with(|| Rendezvous {
            contributions: vec![None; group.len()],
            missing: group.iter().filter(|&&member| members[member] != Status::Remote).count(),
            group: group.clone(),
            outcome: Outcome::default(),
        });
        rendezvous.contributions[place] = Some(contributions);
        rendezvous.missing -= 1;
        let outcome = rendezvous.outcome.clone();
        if rendezvous.missing == 0 {
            let contributions = state.open.remove(&key).map(|m| m.contributions).unwrap_or_default();
            drop(state);
            let met = Arc::new(make(contributions)?);
            let mut state = self.communicator.lock();
            state.failed()?;
            // The waiting members count as busy from now on, even before they wake up.
            for &member in group.iter() {
                if state.members[member] != Status::Remote {
                    state.members[member] = Status::Busy;
                }
            }
            let met = outcome.get_or_init(|| met).clone();
            self.communicator.changed.notify_all();
            return Ok(met);
        }
        state.members[id] = Status::Waiting;
        if let Some(why) = state.hopeless() {
            self.communicator.fail(&mut state, || why);
        }
        loop {
            if let Some(met) = outcome.get() {
                return Ok(met.clone());
            }
            state.failed()?;
            state = self.communicator.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Member {
    /// Returns the processes with members in a group, ordered by their first members in the group.
    pub(crate) fn processes(&self, group: &[usize]) -> Result<Vec<GroupProcess>, RunError> {
        let Some(remote) = &self.communicator.remote else {
            return Ok(vec![GroupProcess { number: 0, is_own: true, places: (0..group.len()).collect() }]);
        };
        let own = remote.own_process();
        let mut processes: Vec<GroupProcess> = Vec::new();
        for (place, &member) in group.iter().enumerate() {
            let number = remote.process_of(member);
            let number = number.ok_or_else(|| RunError::Internal(format!("no process runs member {member}")))?;
            match processes.iter_mut().find(|process| process.number == number) {
                Some(process) => process.places.push(place),
                None => processes.push(GroupProcess { number, is_own: number == own, places: vec![place] }),
            }
        }
        Ok(processes)
    }

    /// Returns the preferred size in bytes of messages to other processes.
    pub(crate) fn message_size(&self) -> Result<usize, RunError> {
        Ok(self.remote()?.message_size())
    }

    /// Sends a message of a collective to another process.
    pub(crate) fn send(&self, collective: u32, group: &[usize], message: &Message<'_>) -> Result<(), RunError> {
        self.remote()?.send(collective, group, message).map_err(RunError::Launch)
    }

    /// Waits for the next message of a collective from another process.
    pub(crate) fn receive(&self, collective: u32, group: &[usize], from: usize) -> Result<Vec<u8>, RunError> {
        self.remote()?.receive(collective, group, from).map_err(RunError::Launch)
    }

    fn remote(&self) -> Result<&dyn RemoteMembers, RunError> {
        let remote = self.communicator.remote.as_deref();
        remote.ok_or_else(|| RunError::Internal("there is no other process".to_owned()))
    }

    /// Sends a message to each other process of the group, and returns the next messages from these processes.
    pub(crate) fn exchange(
        &self,
        collective: u32,
        group: &[usize],
        messages: &[Message<'_>],
    ) -> Result<Vec<Vec<u8>>, RunError> {
        messages.iter().try_for_each(|message| self.send(collective, group, message))?;
        messages.iter().map(|message| self.receive(collective, group, message.to)).collect()
    }

    /// Gives the memory of received messages back to the transport, so that later messages can use it.
    pub(crate) fn recycle(&self, messages: Vec<Vec<u8>>) {
        if let Some(remote) = &self.communicator.remote {
            messages.into_iter().for_each(|message| remote.recycle(message));
        }
    }

    /// Returns an error if a message from a process does not have the size that the program requires.
    pub(crate) fn expect_size(process: &GroupProcess, message: &[u8], size: usize) -> Result<(), RunError> {
        if message.len() == size {
            return Ok(());
        }
        Err(RunError::Launch(format!(
            "process {} sent {} bytes for a collective in which it must send {size}; the processes run different programs",
            process.number,
            message.len()
        )))
    }

    /// Sends the contributions of the local members to the other processes. Returns the contributions of all members,
    /// in the order of the group. Each member contributes arrays of the same sizes.
    pub(crate) fn complete(
        &self,
        collective: u32,
        group: &[usize],
        processes: &[GroupProcess],
        mut contributions: Vec<Option<Vec<Buffer>>>,
        pool: &Pool,
    ) -> Result<Contributions, RunError> {
        let remote: Vec<&GroupProcess> = processes.iter().filter(|process| !process.is_own).collect();
        if !remote.is_empty() {
            let parts: Vec<&[u8]> = contributions.iter().flatten().flatten().map(Buffer::bytes).collect();
            let message = |process: &&GroupProcess| Message { to: process.number, parts: parts.clone() };
            let messages: Vec<Message<'_>> = remote.iter().map(message).collect();
            let arrived = self.exchange(collective, group, &messages)?;
            let first = contributions.iter().flatten().next();
            let sizes: Vec<usize> = first.into_iter().flatten().map(|buffer| buffer.bytes().len()).collect();
            let size: usize = sizes.iter().sum();
            for (process, bytes) in remote.into_iter().zip(&arrived) {
                Self::expect_size(process, bytes, size * process.places.len())?;
                let mut left = &bytes[..];
                for &at in &process.places {
                    let cut = |size: &usize| {
                        let (array, rest) = left.split_at(*size);
                        left = rest;
                        Buffer::copy_of(pool, array)
                    };
                    contributions[at] = Some(sizes.iter().map(cut).collect::<Result<_, _>>()?);
                }
            }
            self.recycle(arrived);
        }
        Ok(contributions.into_iter().flatten().collect())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed) {
            self.fail("it was dropped before its run ended");
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("replica", &self.replica).field("partition", &self.partition).finish()
    }
}
