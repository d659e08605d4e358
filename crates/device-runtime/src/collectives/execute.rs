//! Runs the part of one member in a schedule.

use device_plugin::{Error, Result};

use super::member::{Meeting, Member};
use super::schedule::{ArrayKind, Location, Schedule, Step};

/// The operations on device memory that collectives need. A vendor implements it for the queue of one launch. The
/// implementation contains the element type and the function of the reduction.
///
/// The operations run in the order of the calls. They may go on after the call, in a queue of the member's device. Each
/// call returns the completion of its operation. An operation must not begin before those whose completions are in
/// `after` have ended, with or without an error. They have all begun, on other devices of the group. A driver that
/// cannot order operations of different devices may block until they have ended. If all calls block until their
/// operation has ended, the completion can be `()`.
pub trait Transport {
    /// A handle for device memory that other members can read. Other members keep a clone during the collective.
    type Memory: Clone + Send + 'static;

    /// The driver's object for the end of an operation, such as an event or a fence.
    type Completion: Clone + Send + 'static;

    /// Begins to copy `bytes` bytes to memory of this member, from memory of this member or of another one.
    ///
    /// If the run fails, the copy may outlive the launch of the other member. Keep a clone of `from.memory` until the
    /// copy has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. It ends the run.
    fn copy(
        &mut self,
        from: Place<'_, Self::Memory>,
        to: Place<'_, Self::Memory>,
        bytes: usize,
        after: &[Self::Completion],
    ) -> Result<Self::Completion>;

    /// Begins to combine `bytes` bytes with those of `into`, `into = reduce(into, from)`. Both belong to this member.
    /// Only schedules of reductions call this method.
    ///
    /// # Errors
    ///
    /// Returns an error if the reduction cannot begin. It ends the run.
    fn reduce(
        &mut self,
        from: Place<'_, Self::Memory>,
        into: Place<'_, Self::Memory>,
        bytes: usize,
        after: &[Self::Completion],
    ) -> Result<Self::Completion>;
}

/// The beginning of a range of device memory.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Place<'a, M> {
    /// The id of the member to which the memory belongs.
    pub member: usize,
    /// The memory of the array.
    pub memory: &'a M,
    /// Offset in the array in bytes.
    pub offset: usize,
}

/// The arrays with which a member takes part in a collective. They must not overlap.
#[derive(Clone, Debug)]
pub struct Arrays<M, C> {
    /// The operand.
    pub input: M,
    /// The result.
    pub output: M,
    /// Temporary memory of [`Schedule::scratch_bytes`] bytes. May be `None` if this size is 0.
    pub scratch: Option<M>,
    /// The operations after which the arrays can be used: those that write the input, and those that use the other
    /// memory.
    pub ready: Vec<C>,
}

/// What a member posts: its arrays at the beginning, and after each round the completions of all its operations so far.
#[derive(Clone)]
enum Post<M, C> {
    Arrays(Arrays<M, C>),
    Done(Vec<C>),
}

impl Member {
    /// Performs the part of this member in a collective. Waits until the other members have begun their operations, but
    /// not until these have ended. `collective` and `group` have the meaning of those of [`Member::exchange`]. All
    /// members of the group must pass the same schedule.
    ///
    /// Returns completions of the last operations of all members in the group. The result is complete, and the arrays
    /// can be changed and freed, after all of these have ended. If one of them fails, the result is not valid, so the
    /// launch must fail, too.
    ///
    /// # Errors
    ///
    /// Returns an error of the transport, `INVALID_ARGUMENT` if the arguments do not match the schedule, or `ABORTED`
    /// if the run has failed. Each of these errors ends the run. Operations that have begun may still use the arrays.
    pub fn run<T: Transport>(
        &self,
        collective: u64,
        group: &[usize],
        schedule: &Schedule,
        arrays: Arrays<T::Memory, T::Completion>,
        transport: &mut T,
    ) -> Result<Vec<T::Completion>> {
        self.fail_on_error(|| {
            if schedule.members() != group.len() {
                let (members, group) = (schedule.members(), group.len());
                return Err(Error::invalid_argument(format!(
                    "collective {collective}: a schedule for {members} members in a group of {group}"
                )));
            }
            if schedule.scratch_bytes() > 0 && arrays.scratch.is_none() {
                let bytes = schedule.scratch_bytes();
                return Err(Error::invalid_argument(format!(
                    "collective {collective} needs {bytes} bytes of temporary memory"
                )));
            }
            let meeting = self.meet(collective, group)?;
            meeting.post(Post::Arrays(arrays.clone()))?;
            let mut all = vec![None; group.len()];
            all[meeting.rank()] = Some(arrays.clone());
            let done = arrays.ready.clone();
            Part { meeting, group, all, waits: arrays.ready, done, reads: Vec::new(), transport }.run(schedule)
        })
    }
}

/// The part of one member in a collective.
struct Part<'a, T: Transport> {
    meeting: Meeting<'a>,
    group: &'a [usize],
    /// The arrays of the members that are known so far, by rank.
    all: Vec<Option<Arrays<T::Memory, T::Completion>>>,
    /// The operations for which the first operation must wait.
    waits: Vec<T::Completion>,
    /// The completions of all operations of this member.
    done: Vec<T::Completion>,
    /// The steps of other members that read memory of this member, with the number of the round.
    reads: Vec<(usize, Step)>,
    transport: &'a mut T,
}

impl<T: Transport> Part<'_, T> {
    fn run(mut self, schedule: &Schedule) -> Result<Vec<T::Completion>> {
        let own = self.meeting.rank();
        for (number, round) in schedule.rounds().iter().enumerate() {
            for step in round.copies.iter().filter(|step| step.to.rank == own) {
                let completion = self.begin(number, step, T::copy)?;
                self.done = vec![completion];
            }
            for step in round.reductions.iter().filter(|step| step.to.rank == own) {
                let completion = self.begin(number, step, T::reduce)?;
                self.done = vec![completion];
            }
            let is_read = |step: &&Step| step.from.rank == own && step.to.rank != own;
            self.reads.extend(round.copies.iter().filter(is_read).map(|step| (number, *step)));
            self.meeting.post(Post::<T::Memory, _>::Done(self.done.clone()))?;
        }
        let mut completions = Vec::with_capacity(self.group.len());
        for rank in 0..self.group.len() {
            completions.extend(self.done_before(rank, schedule.rounds().len())?);
        }
        Ok(completions)
    }

    /// Begins a copy or a reduction of this member.
    fn begin<F>(&mut self, number: usize, step: &Step, begin: F) -> Result<T::Completion>
    where
        F: FnOnce(&mut T, Place<'_, T::Memory>, Place<'_, T::Memory>, usize, &[T::Completion]) -> Result<T::Completion>,
    {
        let mut after = std::mem::take(&mut self.waits);
        if step.from.rank != step.to.rank {
            after.extend(self.done_before(step.from.rank, number)?);
        }
        // Other members may still read what this step overwrites.
        let (readers, reads) =
            std::mem::take(&mut self.reads).into_iter().partition(|(_, read)| read.is_overwritten_by(step));
        self.reads = reads;
        for (round, read) in readers {
            after.extend(self.done_before(read.to.rank, round + 1)?);
        }
        let (from, to) = (place(&self.all, self.group, step.from)?, place(&self.all, self.group, step.to)?);
        begin(self.transport, from, to, step.bytes, &after)
    }

    /// Waits until a member has begun its operations of all rounds before this one. Returns the completions.
    fn done_before(&mut self, rank: usize, round: usize) -> Result<Vec<T::Completion>> {
        if self.all[rank].is_none()
            && let Post::Arrays(arrays) = self.meeting.wait(rank, 0)?
        {
            self.all[rank] = Some(arrays);
        }
        match self.meeting.wait(rank, round)? {
            Post::<T::Memory, _>::Arrays(arrays) => Ok(arrays.ready),
            Post::Done(completions) => Ok(completions),
        }
    }
}

/// Returns the memory of a location. `all` and `group` contain the arrays and the ids of the members.
fn place<'a, M, C>(all: &'a [Option<Arrays<M, C>>], group: &[usize], at: Location) -> Result<Place<'a, M>> {
    let memory = all[at.rank].as_ref().and_then(|arrays| match at.array {
        ArrayKind::Input => Some(&arrays.input),
        ArrayKind::Output => Some(&arrays.output),
        ArrayKind::Scratch => arrays.scratch.as_ref(),
    });
    let member = group[at.rank];
    let memory = memory.ok_or_else(|| Error::internal(format!("member {member} has no {:?} array", at.array)))?;
    Ok(Place { member, memory, offset: at.offset })
}
