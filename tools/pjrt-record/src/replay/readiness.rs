//! Tracks which buffers wait for data that the replay has not sent.
//!
//! A replay runs in one thread. If it read a buffer before a later call of the recording provides the contents, or if
//! no call provides them, the read would never return.

/// Maximum number of runs that wait for data at once. A plugin may block a launch while many earlier runs are pending.
const MOST_RUNS: usize = 8;
/// Maximum number of nodes that a check for circles visits.
const MOST_VISITS: usize = 1000;

/// The contents of one or more buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(usize);

#[derive(Debug, Default)]
struct State {
    /// Number of calls and other contents for which the contents wait.
    missing: usize,
    /// The contents that wait for these contents.
    dependents: Vec<Node>,
    is_run: bool,
}

/// The contents that the replay has not sent yet, and the contents that depend on them.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    states: Vec<State>,
    /// Number of runs that wait.
    runs: usize,
}

impl Readiness {
    /// Adds contents that a later call provides.
    pub(super) fn open(&mut self) -> Node {
        self.states.push(State { missing: 1, ..State::default() });
        Node(self.states.len() - 1)
    }

    /// Returns whether the contents do not wait. Buffers without a node never wait.
    pub(super) fn is_ready(&self, node: Option<Node>) -> bool {
        node.and_then(|node| self.states.get(node.0)).is_none_or(|state| state.missing == 0)
    }

    /// Returns an error if a run with these arguments could block the replay, because too many earlier runs wait.
    pub(super) fn check_run(&self, arguments: &[Option<Node>]) -> Result<(), String> {
        if self.runs < MOST_RUNS || arguments.iter().all(|node| self.is_ready(*node)) {
            return Ok(());
        }
        Err(format!("the run and {MOST_RUNS} earlier runs wait for data that no earlier call of the recording sends"))
    }

    /// Adds contents that a call computes from other contents. Returns `None` if the other contents do not wait.
    pub(super) fn derive(&mut self, from: impl IntoIterator<Item = Option<Node>>, is_run: bool) -> Option<Node> {
        let node = Node(self.states.len());
        let mut missing = 0;
        for from in from.into_iter().flatten().filter(|from| !self.is_ready(Some(*from))).collect::<Vec<_>>() {
            // A buffer may be an argument several times.
            if let Some(state) = self.states.get_mut(from.0)
                && state.dependents.last() != Some(&node)
            {
                state.dependents.push(node);
                missing += 1;
            }
        }
        if missing == 0 {
            return None;
        }
        self.runs += usize::from(is_run);
        self.states.push(State { missing, dependents: Vec::new(), is_run });
        Some(node)
    }

    /// Makes open contents depend on other contents. Returns an error if the other contents depend on the open
    /// contents, directly or through other contents.
    pub(super) fn fulfill(&mut self, open: Node, from: Option<Node>) -> Result<(), String> {
        let Some(from) = from.filter(|from| !self.is_ready(Some(*from))) else {
            self.settle(open);
            return Ok(());
        };
        let (mut list, mut next) = (vec![open], 0);
        while let Some(node) = list.get(next).copied() {
            if node == from {
                return Err("the contents of the alias buffer would depend on themselves".to_owned());
            }
            let dependents = self.states.get(node.0).map_or(&[][..], |state| &state.dependents);
            if list.len() + dependents.len() > MOST_VISITS {
                return Err(format!("more than {MOST_VISITS} buffers depend on the alias buffer"));
            }
            list.extend_from_slice(dependents);
            next += 1;
        }
        if let Some(state) = self.states.get_mut(from.0) {
            state.dependents.push(open);
        }
        Ok(())
    }

    /// Provides open contents. Does nothing if they were provided before.
    pub(super) fn settle(&mut self, open: Node) {
        let mut list = vec![open];
        while let Some(node) = list.pop() {
            let Some(state) = self.states.get_mut(node.0).filter(|state| state.missing > 0) else { continue };
            state.missing -= 1;
            if state.missing == 0 {
                self.runs -= usize::from(state.is_run);
                list.append(&mut state.dependents);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_settle_through_chains() {
        let mut readiness = Readiness::default();
        let (first, second) = (readiness.open(), readiness.open());
        let mut last = readiness.derive([Some(first), Some(second), Some(first), None], true);
        for _ in 0..100_000 {
            last = readiness.derive([last], false);
        }
        readiness.settle(first);
        assert!(readiness.is_ready(Some(first)) && !readiness.is_ready(last));
        readiness.settle(first);
        assert!(!readiness.is_ready(last));
        readiness.settle(second);
        assert!(readiness.is_ready(last));
        assert_eq!((readiness.runs, readiness.derive([last, None], true)), (0, None));
    }

    #[test]
    fn circles_are_rejected() {
        let mut readiness = Readiness::default();
        let (one, other) = (readiness.open(), readiness.open());
        readiness.fulfill(one, Some(one)).unwrap_err();
        let copy = readiness.derive([Some(one)], false);
        readiness.fulfill(one, copy).unwrap_err();
        readiness.fulfill(one, Some(other)).unwrap();
        readiness.fulfill(other, copy).unwrap_err();
        readiness.settle(other);
        assert!(readiness.is_ready(copy));
    }

    #[test]
    fn waiting_runs_are_limited() {
        let mut readiness = Readiness::default();
        let open = Some(readiness.open());
        for _ in 0..MOST_RUNS {
            readiness.check_run(&[None, open]).unwrap();
            readiness.derive([open], true);
        }
        readiness.check_run(&[None, open]).unwrap_err();
        readiness.check_run(&[None, None]).unwrap();
        readiness.settle(Node(0));
        readiness.check_run(&[open]).unwrap();
    }
}
