//! Tests the collectives over devices whose queues are threads.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod algorithms;
mod exchange;
mod failures;
mod queue;
mod schedules;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use device_plugin::{Error, Result};
use device_runtime::collectives::Member;

/// Maximum time of a run. A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a function for each member of a run, each on its own thread. Returns the results in the order of the ids. A
/// member whose function panics has no result. Fails if the members do not end within [`LIMIT`].
fn run<T: Send + 'static>(
    count: usize,
    part: impl Fn(Member) -> Result<T> + Clone + Send + 'static,
) -> Vec<Option<Result<T>>> {
    let (sender, receiver) = channel();
    for member in Member::create(count) {
        let (sender, part) = (sender.clone(), part.clone());
        thread::spawn(move || {
            let id = member.id();
            let result = thread::spawn(move || part(member)).join().ok();
            sender.send((id, result)).unwrap();
        });
    }
    let mut results: Vec<_> = (0..count).map(|_| None).collect();
    for _ in 0..count {
        match receiver.recv_timeout(LIMIT) {
            Ok((id, result)) => results[id] = result,
            Err(RecvTimeoutError::Timeout) => panic!("the members did not end within {LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("a thread of the test panicked"),
        }
    }
    results
}

/// Returns the results of a run in which no member fails.
fn succeed<T: Send + 'static>(count: usize, part: impl Fn(Member) -> Result<T> + Clone + Send + 'static) -> Vec<T> {
    run(count, part).into_iter().map(|result| result.unwrap().unwrap()).collect()
}

/// Ends the thread of a member, without the message of a panic.
fn die() -> Error {
    std::panic::resume_unwind(Box::new("a member ends on purpose"))
}
