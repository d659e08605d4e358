//! Options of a replay.

use std::sync::{Arc, Mutex, PoisonError};

use super::compare::Tolerance;

/// Options of a replay.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// How much the elements of the compared buffers may differ.
    pub tolerance: Tolerance,
    /// Maximum size in bytes of the data that the replay reads for one call, and of all arrays and programs that exist
    /// at the same time, except for outputs of runs. Each of them counts 1 KiB more than its data. `None` selects
    /// 64 MiB and 16 times the size of the file. A small file may refer to many data, because it contains equal pieces
    /// once.
    pub limit: Option<u64>,
    /// Whether the replay passes all recorded options to the plugin. By default, it passes only options that are known
    /// to be harmless, because an option may contain a path to which a plugin writes, or from which it loads code. A
    /// recording whose options are trusted is as powerful as a program.
    pub trusts_options: bool,
    /// The progress of the replay, for a thread that watches it.
    pub progress: Progress,
}

impl Options {
    /// Sets how much the elements of the compared buffers may differ.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets the maximum size in bytes of the data and arrays of a recording. See [`Options::limit`].
    #[must_use]
    pub fn with_limit(mut self, limit: Option<u64>) -> Self {
        self.limit = limit;
        self
    }

    /// Sets whether the replay passes all recorded options to the plugin. Use this only for your own recordings. See
    /// [`Options::trusts_options`].
    #[must_use]
    pub fn with_trusted_options(mut self, trusted: bool) -> Self {
        self.trusts_options = trusted;
        self
    }

    /// Sets where the replay stores its progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}

/// The progress of a replay. All clones share it. A program in a recording may never end, so a thread can end the
/// process if a step takes too long.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Step>>);

/// A step of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Position of the step, counted from 1. It is 0 before the first step.
    pub position: u64,
    /// Number of the call.
    pub call: u64,
    /// Name of the function, or a description of the step.
    pub function: String,
}

impl Progress {
    /// Returns the current step.
    #[must_use]
    pub fn step(&self) -> Step {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn enter(&self, call: u64, function: &str) {
        let mut step = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (step.position, step.call) = (step.position + 1, call);
        step.function.clear();
        step.function.push_str(function);
    }
}
