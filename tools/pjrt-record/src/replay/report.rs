//! The results of a replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use pjrt_types::Shape;

use super::compare::Difference;

/// The results of a replay.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Comparisons of buffer contents, in the order of the recording.
    pub comparisons: Vec<Comparison>,
    /// Calls whose outcome differs from the outcome in the recording.
    pub problems: Vec<Problem>,
    /// Number of calls that were not replayed. The key is the name of the function, or a description of the argument
    /// that prevented the replay.
    pub skipped: BTreeMap<String, u64>,
    /// Number of calls that were replayed without an argument. The key is a description of this argument.
    pub left_out: BTreeMap<String, u64>,
    /// Number of calls that were replayed without a recorded option, because the option is not known to be harmless.
    /// The key is a description of the option. See [`Options::trusts_options`](super::Options::trusts_options).
    pub dropped_options: BTreeMap<String, u64>,
    /// Number of runs, which are executions of programs.
    pub runs: u64,
}

impl Report {
    /// Returns whether no comparison found a difference, and all calls ended as in the recording.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.problems.is_empty()
            && self.comparisons.iter().all(|one| matches!(one.verdict, Verdict::Equal | Verdict::NotCompared(_)))
    }
}

/// The comparison of the contents of one buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// Number of the call that downloaded the contents, or of the run that computed them.
    pub call: u64,
    /// The run that computed the buffer: the number of the call, the name of the program, and the index of the output.
    pub run: Option<(u64, Arc<str>, usize)>,
    /// Element type and shape of the buffer.
    pub shape: Shape,
    /// Result of the comparison.
    pub verdict: Verdict,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The contents are equal, or differ by at most the tolerance. Also applies if reading them failed both in the
    /// recording and in the replay.
    Equal,
    /// The contents differ.
    Different(Difference),
    /// Reading the contents failed in the recording or in the replay, but not in both.
    Failed {
        /// The error in the recording, if there is one.
        expected: Option<String>,
        /// The error in the replay, if there is one.
        got: Option<String>,
    },
    /// The contents cannot be compared. The string is the reason.
    NotCompared(String),
}

/// A call whose outcome differs from the outcome in the recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Number of the call.
    pub call: u64,
    /// Name of the function.
    pub function: String,
    /// The outcome in the recording, and the outcome in the replay.
    pub what: String,
}
