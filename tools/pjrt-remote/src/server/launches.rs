//! Launch ids. Clients choose them without knowing of each other, but a plugin distinguishes runs of all its callers by
//! them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::server::limits::OUTSTANDING;

/// The launch ids of a server.
pub(crate) struct LaunchIds {
    next: AtomicI32,
    /// Whether runs span several processes, which then agree on their ids.
    are_agreed: bool,
}

impl LaunchIds {
    pub(crate) fn new(are_agreed: bool) -> Self {
        Self { next: AtomicI32::new(1), are_agreed }
    }

    /// Returns an id that no run has.
    fn unused(&self) -> i32 {
        loop {
            match self.next.fetch_add(1, Ordering::Relaxed) {
                // The id of runs without one.
                0 => {}
                id => return id,
            }
        }
    }
}

/// The launch ids of one client, and those that the plugin gets for them. Keeps more of them than the client can have
/// unanswered runs.
#[derive(Default)]
pub(crate) struct Launches {
    recent: HashMap<i32, i32>,
    before: HashMap<i32, i32>,
}

impl Launches {
    /// Returns the plugin's id for a run. Runs to which the client gives the same id have the same one.
    pub(crate) fn begin(&mut self, id: i32, ids: &LaunchIds) -> i32 {
        if id == 0 {
            return id;
        }
        if self.recent.len() >= OUTSTANDING as usize && !self.recent.contains_key(&id) {
            self.before = std::mem::take(&mut self.recent);
        }
        let before = &self.before;
        let new = || match before.get(&id) {
            Some(own) => *own,
            None if ids.are_agreed => id,
            None => ids.unused(),
        };
        *self.recent.entry(id).or_insert_with(new)
    }

    /// Returns the plugin's id for runs of this client.
    pub(crate) fn find(&self, id: i32) -> Option<i32> {
        self.recent.get(&id).or_else(|| self.before.get(&id)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_clients_differ_and_stay_while_runs_may_be_pending() {
        let ids = LaunchIds::new(false);
        let (mut first, mut second) = (Launches::default(), Launches::default());
        let (own, other) = (first.begin(7, &ids), second.begin(7, &ids));
        assert_ne!(own, other);
        assert_eq!((first.find(7), second.find(7), first.find(8)), (Some(own), Some(other), None));
        assert_eq!((first.begin(0, &ids), first.find(0)), (0, None));
        let most = i32::try_from(OUTSTANDING).unwrap();
        (100..100 + most).for_each(|id| assert_ne!(first.begin(id, &ids), other));
        assert_eq!(first.begin(7, &ids), own);
        (0..3 * most).for_each(|id| assert_eq!(first.begin(1000 + id, &ids), first.begin(1000 + id, &ids)));
        assert_eq!(first.find(7), None, "old ids are forgotten");
        assert_eq!(Launches::default().begin(7, &LaunchIds::new(true)), 7);
    }
}
