//! A member that fails, is dropped, ends or stops at each step of a program with several collectives.

use std::sync::Arc;

use device_plugin::{Error, ErrorCode, Result};
use device_runtime::collectives::{Member, Place, Schedule, Transport};

use crate::queue::{Done, Log, Memory, Queue, arrays};
use crate::{die, run};

const COUNT: usize = 4;
/// The member that fails.
const FAILING: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    /// The transport returns an error.
    Transport,
    /// The thread of the member unwinds, which drops the member.
    Drop,
    /// The program stops the run.
    Stop,
}

/// A transport that fails at an operation.
struct Failing<'a> {
    queue: Queue,
    member: &'a Member,
    /// The number of operations before the failure.
    left: usize,
    failure: Failure,
}

impl Failing<'_> {
    fn step(&mut self) -> Result<()> {
        if self.member.id() != FAILING {
            return Ok(());
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Err(match self.failure {
                Failure::Transport => Error::new(ErrorCode::DATA_LOSS, "bad cable"),
                Failure::Drop => die(),
                Failure::Stop => {
                    self.member.stop("the test stops the run");
                    return Ok(());
                }
            });
        };
        self.left = left;
        Ok(())
    }
}

impl Transport for Failing<'_> {
    type Memory = Memory;
    type Completion = Done;

    fn copy(&mut self, from: Place<'_, Memory>, to: Place<'_, Memory>, bytes: usize, after: &[Done]) -> Result<Done> {
        self.step()?;
        self.queue.copy(from, to, bytes, after)
    }

    fn reduce(
        &mut self,
        from: Place<'_, Memory>,
        into: Place<'_, Memory>,
        bytes: usize,
        after: &[Done],
    ) -> Result<Done> {
        self.step()?;
        self.queue.reduce(from, into, bytes, after)
    }
}

/// The program: one collective after another, with these schedules. Returns the number of operations of the member.
fn program(member: &Member, schedules: &[Schedule], left: usize, failure: Failure) -> Result<usize> {
    let queue = Queue::new(member, COUNT, 1, &Log::new(COUNT));
    let mut transport = Failing { queue, member, left, failure };
    for (number, schedule) in (0..).zip(schedules) {
        let arrays = arrays(member, vec![1; 8], 8 * COUNT, schedule);
        let completions = member.run(number, &[3, 1, 0, 2], schedule, arrays, &mut transport)?;
        completions.iter().for_each(Done::wait);
    }
    member.finish();
    Ok(left - transport.left)
}

fn schedules() -> Vec<Schedule> {
    vec![
        Schedule::ring_all_reduce(COUNT, 8, 1).unwrap(),
        Schedule::tree_all_reduce(COUNT, 8, 1).unwrap(),
        Schedule::all_gather(&[8; COUNT]).unwrap(),
        Schedule::reduce_scatter(&[2; COUNT], 1).unwrap(),
        Schedule::broadcast(COUNT, 3, 8).unwrap(),
        Schedule::all_to_all(&vec![vec![2; COUNT]; COUNT]).unwrap(),
        Schedule::permute(COUNT, &[(0, 3), (3, 0), (1, 2)], 8).unwrap(),
    ]
}

#[test]
fn failure_at_each_operation() {
    let schedules = Arc::new(schedules());
    let of_members = Arc::clone(&schedules);
    let counted = run(COUNT, move |member| program(&member, &of_members, usize::MAX, Failure::Drop));
    let operations = counted.into_iter().nth(FAILING).unwrap().unwrap().unwrap();
    assert!(operations > schedules.len(), "{operations}");
    for failure in [Failure::Transport, Failure::Drop, Failure::Stop] {
        for left in 0..operations {
            let of_members = Arc::clone(&schedules);
            let mut results = run(COUNT, move |member| program(&member, &of_members, left, failure));
            let own = results.remove(FAILING);
            match failure {
                Failure::Transport => assert_eq!(own.unwrap().unwrap_err().message(), "bad cable"),
                Failure::Drop => assert!(own.is_none()),
                Failure::Stop => assert_eq!(own.unwrap().unwrap_err().message(), "the test stops the run"),
            }
            let expected = match failure {
                Failure::Transport => "member 2 failed: bad cable",
                Failure::Drop => "member 2 failed: it was dropped before its program ended",
                Failure::Stop => "the test stops the run",
            };
            for result in results {
                let error = result.unwrap().unwrap_err();
                assert_eq!((error.code(), error.message()), (ErrorCode::ABORTED, expected), "operation {left}");
            }
        }
    }
}

/// A member ends before each of the collectives.
#[test]
fn early_end_before_each_collective() {
    let schedules = Arc::new(schedules());
    for end in 0..schedules.len() {
        let of_members = Arc::clone(&schedules);
        let mut results = run(COUNT, move |member| {
            let count = if member.id() == FAILING { end } else { of_members.len() };
            program(&member, &of_members[..count], usize::MAX, Failure::Drop)
        });
        results.remove(FAILING).unwrap().unwrap();
        for result in results {
            let error = result.unwrap().unwrap_err();
            let start = format!("member 2 ended without its part of collective {end}, for which member ");
            assert_eq!(error.code(), ErrorCode::ABORTED);
            assert!(error.message().starts_with(&start), "{error}");
        }
    }
}

#[test]
fn arguments_that_do_not_match_the_schedule() {
    let result = |members: usize, has_scratch: bool| {
        let results = run(3, move |member| {
            let schedule = Schedule::ring_all_reduce(members, 8, 1)?;
            let mut queue = Queue::new(&member, 3, 1, &Log::new(3));
            let mut arrays = arrays(&member, vec![1; 8], 8, &schedule);
            arrays.scratch = arrays.scratch.filter(|_| has_scratch);
            member.run(4, &[0, 1, 2], &schedule, arrays, &mut queue).map(|_| ())
        });
        results
            .into_iter()
            .map(|result| result.unwrap().map_err(|error| error.message().to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(result(3, true), vec![Ok(()); 3]);
    let contains = |results: Vec<Result<(), String>>, reason: &str| {
        results.into_iter().all(|result| result.is_err_and(|message| message.contains(reason)))
    };
    assert!(contains(result(4, true), "collective 4: a schedule for 4 members in a group of 3"));
    assert!(contains(result(3, false), "collective 4 needs 3 bytes of temporary memory"));
}
