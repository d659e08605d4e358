//! The results of a replay.

use std::collections::BTreeMap;

use pjrt_types::Shape;

use super::compare::Difference;

/// The results of a replay.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The contents that were compared, in order.
    pub comparisons: Vec<Comparison>,
    /// Calls that ended differently than in the recording.
    pub problems: Vec<Problem>,
    /// Calls that were not replayed, and their number.
    pub skipped: BTreeMap<String, u64>,
    /// Parts of the arguments of calls that were replayed without these parts, and the number of calls.
    pub left_out: BTreeMap<String, u64>,
    /// The number of runs.
    pub runs: u64,
}

impl Report {
    /// Whether all comparisons found equal results, and all calls ended as in the recording.
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
    /// The number of the call that downloaded the contents, or of the run.
    pub call: u64,
    /// The run that computed the buffer: the number of its call, the name of the program and the index of the output.
    pub run: Option<(u64, String, usize)>,
    /// The element type and the shape.
    pub shape: Shape,
    /// The result.
    pub verdict: Verdict,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The contents are equal, or within the tolerance.
    Equal,
    /// The contents differ.
    Different(Difference),
    /// One of the two is an error: the expected one, and the one of the replay.
    Failed {
        /// The error in the recording, if there is one.
        expected: Option<String>,
        /// The error in the replay, if there is one.
        got: Option<String>,
    },
    /// The contents cannot be compared, for this reason.
    NotCompared(String),
}

/// A call that ended differently than in the recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The number of the call.
    pub call: u64,
    /// The name of the function.
    pub function: String,
    /// The outcome in the recording, and the one in the replay.
    pub what: String,
}
