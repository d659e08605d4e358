//! Reports of broken rules.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::rules::{HEADER, Rule};
use crate::output::OutputFile;

/// Maximum number of reports that are written in full for each combination of a rule and a function. The limit keeps
/// the output short if a program repeats a mistake.
const SHOWN: usize = 5;

/// Report of a call that breaks a rule.
#[derive(Clone, Debug)]
pub struct Report {
    /// The broken rule.
    pub rule: &'static Rule,
    /// The function that was called.
    pub function: &'static str,
    /// A description of the mistake in this call.
    pub what: String,
    /// The function names of the last calls with the object to which the report refers. The oldest call is first.
    pub last_calls: Vec<&'static str>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, function, what, last_calls } = self;
        writeln!(f, "[{}] {function}: {what}", rule.id)?;
        writeln!(f, "  rule: {} ({HEADER}; {} in the SDK)", rule.clause, rule.anchor())?;
        if !last_calls.is_empty() {
            writeln!(f, "  last calls with the object: {}", last_calls.join(", "))?;
        }
        writeln!(f, "  remedy: {}", rule.remedy)
    }
}

/// The destination of reports, and the reports that the layer has made so far.
#[derive(Clone, Debug, Default)]
pub struct Reports(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    all: Vec<Report>,
    counts: HashMap<(&'static str, &'static str), usize>,
    file: Option<OutputFile>,
    is_quiet: bool,
}

impl Reports {
    /// Creates reports that are written to `validate-PID.txt` in a folder, or to the standard error if `folder` is
    /// `None`.
    #[must_use]
    pub fn to_folder(folder: Option<PathBuf>) -> Self {
        let file = folder.map(|folder| OutputFile::new(&folder, "validate", "txt"));
        Self(Arc::new(Mutex::new(State { file, ..State::default() })))
    }

    /// Creates reports that are only collected in memory.
    #[must_use]
    pub fn collected() -> Self {
        Self(Arc::new(Mutex::new(State { is_quiet: true, ..State::default() })))
    }

    /// Returns the first 5 reports for each combination of a rule and a function.
    #[must_use]
    pub fn all(&self) -> Vec<Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    pub(super) fn add(&self, report: Report) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.counts.entry((report.rule.id, report.function)).or_default();
        *count += 1;
        if *count <= SHOWN {
            state.write(&report.to_string());
            state.all.push(report);
        }
    }

    /// Writes the summary. It contains the number of reports, the objects `live` that were never destroyed, and the
    /// description `waits` of the waiting threads.
    pub(super) fn finish(&self, live: &[(&'static str, &'static str, usize)], waits: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = state.counts.values().sum();
        let mut text = format!("validate: {total} reports in process {}\n", std::process::id());
        let mut counts: Vec<_> =
            state.counts.iter().map(|((rule, function), count)| (*rule, *function, *count)).collect();
        counts.sort_unstable();
        for (rule, function, count) in counts {
            text.push_str(&format!("  {count:>8}  [{rule}] {function}\n"));
        }
        if !live.is_empty() {
            text.push_str("Objects that were not destroyed, by the function that created them:\n");
            for (kind, function, count) in live {
                text.push_str(&format!("  {count:>8}  {kind} of {function}\n"));
            }
        }
        text.push_str(waits);
        state.write(&text);
    }

    /// Writes a message that is not a report.
    pub(super) fn note(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(text);
    }
}

impl State {
    fn write(&mut self, text: &str) {
        if self.is_quiet {
            return;
        }
        let result = match &mut self.file {
            None => io::stderr().write_all(text.as_bytes()),
            Some(file) => file.file().and_then(|file| file.write_all(text.as_bytes())),
        };
        // No caller receives this error, so it is written to the standard error.
        if let Err(error) = result {
            let _ = writeln!(io::stderr(), "pjrt-layers: cannot write a report: {error}\n{text}");
        }
    }
}
