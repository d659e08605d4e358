//! Records the threads that wait for events, and the runs that produce the events. A run is a call of
//! `PJRT_LoadedExecutable_Execute`.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::objects::Object;
use super::reports::Reports;
use crate::core::thread_id;
use crate::generated::FUNCTIONS;

/// Maximum number of runs that the layer keeps. The limit bounds the memory of a long process. The layer drops the
/// oldest run to record another run.
const RUNS: usize = 4096;
/// Maximum number of runs that a graph lists for one waiting thread. The limit keeps the graph short if many runs
/// depend on each other.
const DEPTH: usize = 8;

/// The waiting threads and the newest runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The waits for events, by the id of the waiting thread.
    waiting: HashMap<u64, Waiting>,
    runs: VecDeque<Run>,
    /// Number of the newest run.
    last: u64,
    /// Whether a background thread reports long waits.
    is_watched: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    event: usize,
    /// The id of the function that returned the event.
    created_by: u16,
    /// The number of the run that produces the event, or 0.
    run: u64,
    since: Instant,
    is_reported: bool,
}

/// A run that a thread started.
#[derive(Debug)]
struct Run {
    number: u64,
    executable: usize,
    thread: u64,
    /// The numbers of the runs that produce its arguments.
    arguments: Vec<u64>,
}

impl Waits {
    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a run that this thread starts, and returns its number. `arguments` contains the numbers of the runs that
    /// produce its arguments.
    pub(super) fn add_run(&self, executable: usize, mut arguments: Vec<u64>) -> u64 {
        arguments.retain(|run| *run != 0);
        arguments.sort_unstable();
        arguments.dedup();
        self.with(|state| {
            state.last += 1;
            if state.runs.len() == RUNS {
                state.runs.pop_front();
            }
            let run = Run { number: state.last, executable, thread: thread_id(), arguments };
            state.runs.push_back(run);
            state.last
        })
    }

    /// Records that this thread begins to wait for an event. If the wait takes longer than `limit`, a background thread
    /// writes a graph of the waiting threads to the reports.
    pub(super) fn begin(&self, event: usize, object: Option<&Object>, limit: Option<Duration>, reports: &Reports) {
        let (created_by, run) = object.map_or((u16::MAX, 0), |object| (object.created_by, object.run));
        let waiting = Waiting { event, created_by, run, since: Instant::now(), is_reported: false };
        let watch = self.with(|state| {
            state.waiting.insert(thread_id(), waiting);
            limit.is_some() && !std::mem::replace(&mut state.is_watched, true)
        });
        if let (Some(limit), true) = (limit, watch) {
            let (waits, reports) = (self.clone(), reports.clone());
            let thread = std::thread::Builder::new().name("pjrt validate".to_owned());
            // If the background thread does not start, long waits are not reported.
            let _ = thread.spawn(move || waits.watch(limit, &reports));
        }
    }

    /// Records that this thread no longer waits.
    pub(super) fn end(&self) {
        self.with(|state| state.waiting.remove(&thread_id()));
    }

    fn watch(&self, limit: Duration, reports: &Reports) {
        loop {
            std::thread::sleep((limit / 4).max(Duration::from_millis(10)));
            let is_long = self.with(|state| {
                let waiting = state.waiting.values_mut().filter(|one| one.since.elapsed() >= limit && !one.is_reported);
                // A single graph contains all waiting threads.
                waiting.fold(false, |_, one| !std::mem::replace(&mut one.is_reported, true))
            });
            if is_long {
                reports.note(&format!("validate: a thread has waited for {} s\n{}", limit.as_secs_f64(), self.graph()));
            }
        }
    }

    /// Describes the waiting threads, and the runs that produce their events. The string is empty if no thread waits.
    pub(super) fn graph(&self) -> String {
        self.with(|state| {
            let mut text = String::new();
            if state.waiting.is_empty() {
                return text;
            }
            text.push_str("Threads that wait for an event, and the runs on which it depends:\n");
            let mut waiting: Vec<(&u64, &Waiting)> = state.waiting.iter().collect();
            waiting.sort_unstable_by_key(|(thread, _)| **thread);
            for (thread, waiting) in waiting {
                let from = FUNCTIONS.get(usize::from(waiting.created_by)).map_or("an unknown call", |f| f.name);
                let time = waiting.since.elapsed().as_secs_f64();
                // Writing to a `String` cannot fail.
                let _ = writeln!(text, "  thread {thread} has waited {time:.1} s for {:#x} of {from}", waiting.event);
                state.runs_before(waiting.run, &mut text);
            }
            text
        })
    }
}

impl State {
    /// Writes the run with the number `run` to `text`, and the runs on which its arguments depend directly or
    /// indirectly. Writes at most [`DEPTH`] runs, the nearest ones first.
    fn runs_before(&self, run: u64, text: &mut String) {
        let mut next = VecDeque::from([run]);
        let mut seen = vec![0];
        while let Some(number) = next.pop_front() {
            if seen.contains(&number) || seen.len() > DEPTH {
                continue;
            }
            seen.push(number);
            let Some(run) = self.runs.iter().find(|run| run.number == number) else { continue };
            let arguments: Vec<String> = run.arguments.iter().map(u64::to_string).collect();
            let after =
                if arguments.is_empty() { String::new() } else { format!(", after the runs {}", arguments.join(", ")) };
            let _ = writeln!(
                text,
                "    run {number} of the executable {:#x}, which thread {} started{after}",
                run.executable, run.thread
            );
            next.extend(&run.arguments);
        }
    }
}
