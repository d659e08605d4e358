//! The rendezvous of the members of one run.

// The unit tests run all interleavings of threads. The integration tests use the types of the standard library.
#[cfg(test)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
#[cfg(not(test))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use device_plugin::{Error, ErrorCode, Result};

/// One member of a run. A run executes one program on several devices at once, with one member for each device.
///
/// The members meet in collectives, in which each of them may wait for others. A member never waits for a member that
/// can no longer arrive. It gets an error instead if
///
/// - a member has failed, see [`Member::fail`],
/// - a member is dropped before its program has ended,
/// - a member for which it waits has ended, see [`Member::finish`],
/// - all members that have not ended wait for each other, for example in different collectives, or
/// - a member has stopped the run, see [`Member::stop`].
///
/// The error has the code `ABORTED`, and the first error ends the run: all later calls of all members return it.
///
/// Call the methods of a member on one thread at a time, and use a thread for each member.
pub struct Member {
    run: Arc<Run>,
    id: usize,
    ended: AtomicBool,
}

/// The parts of a run that all members share.
struct Run {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    members: Vec<Status>,
    /// The meetings that not all members have left.
    meetings: HashMap<Key, Posts>,
    /// The number of meetings that a member has begun in a collective with a group.
    begun: HashMap<(usize, Group), u64>,
    failure: Option<String>,
}

#[derive(Clone, Copy)]
enum Status {
    /// The member is running or has not started.
    Busy,
    Waiting(Wait),
    Ended,
}

/// The value for which a member waits.
#[derive(Clone, Copy)]
struct Wait {
    key: Key,
    /// The rank of the member that posts the value.
    rank: usize,
    /// The index of the value among the values that this member posts.
    index: usize,
}

/// A collective and the first member of one of its groups. The groups of a collective are disjoint.
type Group = (u64, usize);

/// Identifies a meeting: the collective and the group, and the number of earlier meetings of both.
type Key = (Group, u64);

/// The values that the members of a meeting have posted.
struct Posts {
    group: Arc<[usize]>,
    /// The values of each member, by rank.
    values: Vec<Vec<Box<dyn Any + Send>>>,
    /// The number of members that have left the meeting.
    left: usize,
}

impl Run {
    /// Locks the state. Ignores poisoning, because only a clone of a posted value can panic, and it changes nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run and wakes all members. Only the first failure is reported.
    fn fail(&self, state: &mut State, why: String) {
        state.failure.get_or_insert(why);
        self.changed.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(why) => Err(Error::new(ErrorCode::ABORTED, why.clone())),
            None => Ok(()),
        }
    }

    fn is_posted(&self, wait: &Wait) -> bool {
        self.meetings.get(&wait.key).is_some_and(|posts| posts.values[wait.rank].len() > wait.index)
    }

    /// Returns the members that wait, with the members for which they wait and the collectives.
    fn waits(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.members.iter().enumerate().filter_map(|(member, status)| {
            let Status::Waiting(Wait { key, rank, .. }) = status else { return None };
            Some((member, self.meetings.get(key)?.group[*rank], key.0.0))
        })
    }

    /// Returns the reason why a waiting member would wait forever, if there is one.
    fn hopeless(&self) -> Option<String> {
        let has_ended = |peer: usize| matches!(self.members[peer], Status::Ended);
        if let Some((member, peer, collective)) = self.waits().find(|(_, peer, _)| has_ended(*peer)) {
            return Some(format!(
                "member {peer} ended without its part of collective {collective}, for which member {member} waits"
            ));
        }
        if self.members.iter().any(|status| matches!(status, Status::Busy)) || self.waits().next().is_none() {
            return None;
        }
        let wait =
            |(member, peer, collective)| format!("member {member} waits for member {peer} in collective {collective}");
        Some(format!("the members wait for each other: {}", self.waits().map(wait).collect::<Vec<_>>().join(", ")))
    }
}

impl Member {
    /// Creates the members of a run, with the ids from 0 to `count - 1`. `Runtime` calls this function for the launches
    /// of an execution on several devices, see [`LaunchRequest::member`](crate::LaunchRequest::member).
    pub fn create(count: usize) -> Vec<Self> {
        let state = State { members: vec![Status::Busy; count], ..State::default() };
        let run = Arc::new(Run { state: Mutex::new(state), changed: Condvar::new() });
        (0..count).map(|id| Self { run: Arc::clone(&run), id, ended: AtomicBool::new(false) }).collect()
    }

    /// Returns the id of the member. For a launch, it is the flattened id of the device: `replica * partitions +
    /// partition`.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Exchanges a value with the other members of a group. Waits until all of them have called this function, and
    /// returns their values in the order of the group.
    ///
    /// `collective` identifies the collective in the program. `group` contains the ids of the members that take part,
    /// including this one. All members of the group must pass the same group, and values of the same type. A collective
    /// may have several groups without common members. A program may run a collective several times.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the group is invalid, or `ABORTED` if the run has failed. Both errors end the run.
    pub fn exchange<T: Clone + Send + 'static>(&self, collective: u64, group: &[usize], value: T) -> Result<Vec<T>> {
        self.fail_on_error(|| {
            let meeting = self.meet(collective, group)?;
            meeting.post(value)?;
            (0..group.len()).map(|rank| meeting.wait(rank, 0)).collect()
        })
    }

    /// Ends the member after its program has ended. If another member waits for this one, the run fails.
    pub fn finish(&self) {
        self.end(|state| state.hopeless());
    }

    /// Fails the member, for example because its device has failed. The other members get an error that contains the
    /// member and `why`. Does nothing if the member has ended.
    pub fn fail(&self, why: &str) {
        self.end(|_| Some(format!("member {} failed: {why}", self.id)));
    }

    /// Ends the run. All members that wait, now or later, get an error with this message.
    pub fn stop(&self, why: &str) {
        self.run.fail(&mut self.run.lock(), why.to_owned());
    }

    /// Ends the member. Fails the run if the function returns a reason.
    fn end(&self, failure: impl FnOnce(&State) -> Option<String>) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            let mut state = self.run.lock();
            state.members[self.id] = Status::Ended;
            if let Some(why) = failure(&state) {
                self.run.fail(&mut state, why);
            }
        }
    }

    /// Calls a function. If it returns an error, fails the member, so that no other member waits for it.
    pub(super) fn fail_on_error<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        call().inspect_err(|error| self.fail(error.message()))
    }

    /// Joins the next meeting of a group in a collective.
    pub(super) fn meet(&self, collective: u64, group: &[usize]) -> Result<Meeting<'_>> {
        let mut state = self.run.lock();
        state.check()?;
        let invalid = |why: String| Err(Error::invalid_argument(format!("collective {collective}: {why}")));
        if self.ended.load(Ordering::Relaxed) {
            return invalid(format!("member {} has ended", self.id));
        }
        let Some(rank) = group.iter().position(|&id| id == self.id) else {
            return invalid(format!("member {} is not in the group {group:?}", self.id));
        };
        let mut seen = vec![false; state.members.len()];
        let is_new = |&id: &usize| seen.get_mut(id).is_some_and(|seen| !std::mem::replace(seen, true));
        if !group.iter().all(is_new) {
            let count = state.members.len();
            return invalid(format!("the group {group:?} must contain members of {count}, and each at most once"));
        }
        let begun = state.begun.entry((self.id, (collective, group[0]))).or_default();
        let key = ((collective, group[0]), *begun);
        *begun += 1;
        let posts = state.meetings.entry(key).or_insert_with(|| Posts {
            group: group.into(),
            values: group.iter().map(|_| Vec::new()).collect(),
            left: 0,
        });
        if *posts.group != *group {
            let other = format!("another member passes the group {:?}", posts.group);
            return invalid(format!("member {} passes the group {group:?}, but {other}", self.id));
        }
        Ok(Meeting { member: self, key, rank })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.fail("it was dropped before its program ended");
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The part of a member in one run of a collective. Each member posts values, and waits for those of the others.
pub(super) struct Meeting<'a> {
    member: &'a Member,
    key: Key,
    rank: usize,
}

impl Meeting<'_> {
    /// Returns the rank of the member: its position in the group.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    /// Posts the next value of this member.
    pub(super) fn post<T: Send + 'static>(&self, value: T) -> Result<()> {
        let run = &self.member.run;
        let mut state = run.lock();
        state.check()?;
        let State { members, meetings, .. } = &mut *state;
        let Some(posts) = meetings.get_mut(&self.key) else { return Ok(()) };
        let own = &mut posts.values[self.rank];
        own.push(Box::new(value));
        // The members that wait for the value count as busy from now on, even before they wake up.
        let is_served = |wait: &Wait| wait.key == self.key && wait.rank == self.rank && wait.index < own.len();
        for status in members.iter_mut() {
            if matches!(status, Status::Waiting(wait) if is_served(wait)) {
                *status = Status::Busy;
            }
        }
        run.changed.notify_all();
        Ok(())
    }

    /// Waits until the member at `rank` has posted its value at `index`, and returns the value.
    pub(super) fn wait<T: Clone + 'static>(&self, rank: usize, index: usize) -> Result<T> {
        let (run, wait) = (&self.member.run, Wait { key: self.key, rank, index });
        let mut state = run.lock();
        loop {
            state.check()?;
            if state.is_posted(&wait) {
                let value = state.meetings[&self.key].values[rank][index].downcast_ref::<T>();
                return value.cloned().ok_or_else(|| {
                    let collective = self.key.0.0;
                    Error::invalid_argument(format!("members exchange different types in collective {collective}"))
                });
            }
            state.members[self.member.id] = Status::Waiting(wait);
            match state.hopeless() {
                Some(why) => run.fail(&mut state, why),
                None => state = run.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        let mut state = self.member.run.lock();
        let Some(posts) = state.meetings.get_mut(&self.key) else { return };
        posts.left += 1;
        if posts.left == posts.group.len() {
            let posts = state.meetings.remove(&self.key);
            // The destructors of the values may need other locks.
            drop(state);
            drop(posts);
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::model::Builder;
    use loom::thread::spawn;

    use super::*;

    /// Runs the interleavings of two members with at most three preemptions. A member that waits forever fails the
    /// test. `check` receives the values of member 0, or the message of its error.
    fn model(
        part: impl Fn(&Member) -> Result<Vec<usize>> + Clone + Send + Sync + 'static,
        other: impl Fn(&Member) + Clone + Send + Sync + 'static,
        check: impl Fn(Result<Vec<usize>, String>) + Send + Sync + 'static,
    ) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let [first, second] = <[Member; 2]>::try_from(Member::create(2)).unwrap();
            let other = other.clone();
            let thread = spawn(move || other(&second));
            let result = part(&first);
            first.finish();
            thread.join().unwrap();
            check(result.map_err(|error| error.message().to_owned()));
        });
    }

    #[test]
    fn members_exchange_values() {
        let exchange = |member: &Member| {
            member.exchange(0, &[0, 1], 1)?;
            member.exchange(0, &[0, 1], member.id())
        };
        let other = move |member: &Member| {
            assert_eq!(exchange(member).unwrap(), [0, 1]);
            member.finish();
        };
        model(exchange, other, |result| assert_eq!(result.unwrap(), [0, 1]));
    }

    #[test]
    fn no_member_waits_forever() {
        let exchange = |member: &Member| member.exchange(0, &[0, 1], 0);
        let ends = |message: &'static str| move |result: Result<_, String>| assert_eq!(result.unwrap_err(), message);
        model(exchange, |_| {}, ends("member 1 failed: it was dropped before its program ended"));
        model(exchange, |member| member.fail("why"), ends("member 1 failed: why"));
        let message = "member 1 ended without its part of collective 0, for which member 0 waits";
        model(exchange, Member::finish, ends(message));
        model(exchange, |member| member.stop("the reason"), ends("the reason"));
        let other = |member: &Member| {
            member.exchange(5, &[1, 0], 0).unwrap_err();
        };
        let message = "the members wait for each other: member 0 waits for member 1 in collective 0, member 1 waits for \
                       member 0 in collective 5";
        model(exchange, other, ends(message));
    }
}
