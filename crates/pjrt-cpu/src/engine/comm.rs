//! Where the members of one launch meet: the rendezvous behind the collectives.
//!
//! A launch runs one program on every member of a [`World`] at once, each on a thread of its own. A collective is a
//! meeting of a group of members: the last to arrive does the common work, the others wait. Nobody waits for ever:
//! a member that fails, is dropped before its run ended, or ended without coming releases the others with an error,
//! and so does a world in which everybody waits for somebody else.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::RunError;
use super::pool::Buffer;

/// The members of one launch: `replicas` times `partitions`, numbered replica first (the specification's flattened
/// ids: `replica * partitions + partition`). A world serves one launch; make a new one for the next.
pub struct World {
    replicas: usize,
    partitions: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// What every member brought to a meeting, in the order of the group.
type Brought = Vec<Vec<Buffer>>;
/// What a meeting came to: the values everybody brought, and the common result.
pub(crate) struct Met {
    pub(crate) brought: Brought,
    pub(crate) made: Vec<Buffer>,
}

/// A collective of the program, and the first member of the group that meets for it.
type Key = (u32, usize);
type Outcome = Arc<OnceLock<Arc<Met>>>;

struct Meeting {
    brought: Vec<Option<Vec<Buffer>>>,
    arrived: usize,
    group: Arc<[usize]>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Runs, or will.
    Busy,
    Waiting,
    Finished,
}

struct State {
    meetings: HashMap<Key, Meeting>,
    members: Vec<Status>,
    failure: Option<String>,
}

impl World {
    /// A world whose members have not started. Numbers of zero count as one.
    pub fn new(replicas: usize, partitions: usize) -> Arc<World> {
        let (replicas, partitions) = (replicas.max(1), partitions.max(1));
        let members = vec![Status::Busy; replicas.saturating_mul(partitions)];
        let state = State { meetings: HashMap::new(), members, failure: None };
        Arc::new(World { replicas, partitions, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Number of replicas.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Number of partitions of each replica.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// One member. Take each exactly once, all of them before the first starts to run, and run each on its own
    /// thread (never on one of a pool that may be smaller than the world): the others wait for those not taken.
    pub fn member(self: &Arc<World>, replica: usize, partition: usize) -> Member {
        Member { world: self.clone(), replica, partition, ended: AtomicBool::new(false) }
    }

    /// All members, in the order of their flattened ids.
    pub fn members(self: &Arc<World>) -> Vec<Member> {
        let ids = (0..self.replicas).flat_map(|r| (0..self.partitions).map(move |p| (r, p)));
        ids.map(|(replica, partition)| self.member(replica, partition)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases everybody with an error; the first failure is the one told.
    fn fail(&self, state: &mut State, message: impl FnOnce() -> String) {
        if state.failure.is_none() {
            state.failure = Some(message());
            // What was brought is given up at once, not when the last member leaves.
            state.meetings.clear();
        }
        self.changed.notify_all();
    }

    /// Ends the launch: members that wait for others, now or later, get an error that says `why`. Members that compute
    /// go on until they meet somebody; [`Stop`](super::Stop) ends them.
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

    /// Who a meeting waits for though they have ended, or everybody, if nobody is left to come.
    fn hopeless(&self) -> Option<String> {
        for meeting in self.meetings.values() {
            let absent = |(at, &id): (usize, &usize)| {
                (meeting.brought[at].is_none() && self.members[id] == Status::Finished).then_some(id)
            };
            if let Some(id) = meeting.group.iter().enumerate().find_map(absent) {
                return Some(format!("member {id} ended without taking part in a collective the others wait in"));
            }
        }
        let waiting = self.members.iter().filter(|&&m| m == Status::Waiting).count();
        let stuck = waiting > 0 && !self.members.contains(&Status::Busy);
        stuck.then(|| format!("{waiting} members wait in different collectives for one another"))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("replicas", &self.replicas).field("partitions", &self.partitions).finish()
    }
}

/// One member of a launch, for one run of one program. Dropping it before its run ended fails the others.
pub struct Member {
    world: Arc<World>,
    replica: usize,
    partition: usize,
    ended: AtomicBool,
}

impl Member {
    /// What `replica_id` is on this member.
    pub fn replica_id(&self) -> usize {
        self.replica
    }

    /// What `partition_id` is on this member.
    pub fn partition_id(&self) -> usize {
        self.partition
    }

    /// The world it is of.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Its flattened id.
    pub(crate) fn id(&self) -> usize {
        self.replica * self.world.partitions + self.partition
    }

    /// Ends the member's part without a run, such as when its inputs could not be made: the others get an error that
    /// says `why`.
    pub fn fail(&self, why: &str) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            let mut state = self.world.lock();
            self.world.fail(&mut state, || format!("{} failed: {why}", self.world.name(self.id())));
            self.finished(&mut state);
        }
    }

    /// The run came to its end.
    pub(crate) fn finish(&self) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            let mut state = self.world.lock();
            self.finished(&mut state);
            if let Some(why) = state.hopeless() {
                self.world.fail(&mut state, || why);
            }
        }
    }

    fn finished(&self, state: &mut State) {
        if let Some(status) = state.members.get_mut(self.id()) {
            *status = Status::Finished;
        }
    }

    /// Meets the other members of `group` for collective `collective` of the program; the group lists flattened ids
    /// without repetition, this member's among them, and all of it pass the same. The last to arrive calls `make`
    /// with what everybody brought, in the order of the group.
    pub(crate) fn meet(
        &self,
        collective: u32,
        group: &Arc<[usize]>,
        brought: Vec<Buffer>,
        make: impl FnOnce(&[Vec<Buffer>]) -> Result<Vec<Buffer>, RunError>,
    ) -> Result<Arc<Met>, RunError> {
        let id = self.id();
        let place = group.iter().position(|&member| member == id);
        let place = place.ok_or_else(|| RunError::Internal(format!("member {id} is not of the group {group:?}")))?;
        let key = (collective, group[0]);
        let mut state = self.world.lock();
        state.failed()?;
        let meeting = state.meetings.entry(key).or_insert_with(|| Meeting {
            brought: vec![None; group.len()],
            arrived: 0,
            group: group.clone(),
            outcome: Outcome::default(),
        });
        meeting.brought[place] = Some(brought);
        meeting.arrived += 1;
        let outcome = meeting.outcome.clone();
        if meeting.arrived == group.len() {
            let brought = state.meetings.remove(&key).map(|m| m.brought).unwrap_or_default();
            drop(state);
            let brought: Brought = brought.into_iter().flatten().collect();
            let made = make(&brought)?;
            let met = Arc::new(Met { brought, made });
            let mut state = self.world.lock();
            state.failed()?;
            // The others count as busy from now on, though they have yet to wake up.
            group.iter().for_each(|&member| state.members[member] = Status::Busy);
            let met = outcome.get_or_init(|| met).clone();
            self.world.changed.notify_all();
            return Ok(met);
        }
        state.members[id] = Status::Waiting;
        if let Some(why) = state.hopeless() {
            self.world.fail(&mut state, || why);
        }
        loop {
            if let Some(met) = outcome.get() {
                return Ok(met.clone());
            }
            state.failed()?;
            state = self.world.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
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
