//! The groups of cases that wait for a worker.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::suite::Suite;

/// Maximum number of cases in a group. Because of this limit, several workers share the cases of a large area.
const GROUP: usize = 40;
/// Number of workers that must fail to load the plugin before all remaining cases are skipped. After as many failures
/// to create a client, the remaining cases that need a client are skipped.
const STRIKES: usize = 2;

/// The waiting groups of cases. Also contains the reasons why the plugin does not load or cannot create a client, if
/// known.
#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    groups: VecDeque<Vec<String>>,
    load_failures: usize,
    client_failures: usize,
    not_loaded: Option<String>,
    no_client: Option<String>,
}

impl Queue {
    /// Creates groups of at most [`GROUP`] consecutive cases of the same area. Each isolated case forms a group of its
    /// own at the end of the queue.
    pub(super) fn new(suite: &Suite, ids: &[String]) -> Self {
        let mut groups: VecDeque<Vec<String>> = VecDeque::new();
        let mut alone = Vec::new();
        let mut last_area = "";
        for id in ids {
            let area = id.split('.').next().unwrap_or_default();
            if suite.find(id).is_some_and(|case| case.isolated) {
                alone.push(vec![id.clone()]);
                continue;
            }
            match groups.back_mut() {
                Some(group) if area == last_area && group.len() < GROUP => group.push(id.clone()),
                _ => groups.push_back(vec![id.clone()]),
            }
            last_area = area;
        }
        groups.extend(alone);
        Self(Mutex::new(State { groups, ..State::default() }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next group, the reason why the plugin does not load, and the reason why no client can be created. A
    /// reason is `None` unless [`STRIKES`] workers failed in the stage that it describes. Returns `None` if the queue
    /// is empty.
    pub(super) fn next(&self) -> Option<(Vec<String>, Option<String>, Option<String>)> {
        let mut state = self.state();
        let group = state.groups.pop_front()?;
        Some((group, state.not_loaded.clone(), state.no_client.clone()))
    }

    /// Puts the cases that a worker did not run at the front of the queue.
    pub(super) fn put_back(&self, rest: Vec<String>) {
        if !rest.is_empty() {
            self.state().groups.push_front(rest);
        }
    }

    /// Counts a worker that failed in a stage. Returns `true` once, when the plugin has failed to load so often that
    /// the remaining cases are skipped. The caller must then report `reason` as a failure, because skipped cases are
    /// not failures.
    pub(super) fn failed(&self, stage: &str, reason: &str) -> bool {
        let mut state = self.state();
        if stage == "client" {
            state.client_failures += 1;
            if state.client_failures >= STRIKES {
                state.no_client = Some(format!("no client, because {reason} in {STRIKES} processes"));
            }
            return false;
        }
        state.load_failures += 1;
        state.load_failures >= STRIKES && state.not_loaded.replace(reason.to_owned()).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use crate::suite::Suite;

    #[test]
    fn failures_of_a_stage_block_the_rest() {
        let queue = Queue::new(&Suite::new(), &["a.b.c".to_owned(), "b.b.c".to_owned(), "c.b.c".to_owned()]);
        assert!(!queue.failed("client", "it hangs"));
        assert_eq!(queue.next().unwrap(), (vec!["a.b.c".to_owned()], None, None));
        assert!(!queue.failed("client", "it hangs"));
        assert!(queue.next().unwrap().2.unwrap().contains("it hangs"));
        assert!(!queue.failed("load", "x"));
        assert!(queue.failed("load", "y"), "the first time that cases are skipped");
        assert!(!queue.failed("load", "y"));
        assert_eq!(queue.next().unwrap().1.as_deref(), Some("y"));
        assert_eq!(queue.next(), None);
    }
}
