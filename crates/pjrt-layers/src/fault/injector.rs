//! Lets calls fail or wait.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pjrt_types::ErrorCode;

use super::rule::{Failure, Rule, Rules};
use crate::core::Call;
use crate::function::Function;
use crate::generated::{COUNT, FUNCTIONS};
use crate::layer::{Layer, Step};

/// Lets calls fail or wait, by [`Rules`].
///
/// The plugin does not see a call that fails, and the outputs of its arguments stay as the framework set them. If several
/// rules apply to a call, their delays add up, and the first one with an error decides.
#[derive(Debug)]
pub struct Fault {
    rules: Vec<(Rule, Counts)>,
    seed: u64,
    /// The positions of the rules of each function.
    by_function: Vec<Vec<usize>>,
    summary: Summary,
}

/// The calls of a rule so far.
#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    failed: AtomicU64,
    delayed: AtomicU64,
}

/// The destination of the summary at exit.
#[derive(Debug)]
enum Summary {
    Nowhere,
    StandardError,
    Folder(PathBuf),
}

impl Fault {
    /// Creates the layer. Rules with a probability draw their calls from the seed and the calls' numbers: the same seed
    /// selects the same numbers again.
    #[must_use]
    pub fn new(rules: Rules, seed: u64) -> Self {
        let mut by_function = vec![Vec::new(); COUNT];
        for (at, rule) in rules.0.iter().enumerate() {
            for id in &rule.functions {
                by_function[*id].push(at);
            }
        }
        let rules = rules.0.into_iter().map(|rule| (rule, Counts::default())).collect();
        Self { rules, seed, by_function, summary: Summary::Nowhere }
    }

    /// Writes the number of calls of each rule when the process exits: to `fault-PID.txt` in a folder, or to the standard
    /// error.
    #[must_use]
    pub fn with_summary(mut self, folder: Option<PathBuf>) -> Self {
        self.summary = folder.map_or(Summary::StandardError, Summary::Folder);
        self
    }

    /// The text of an error. It contains all that is needed to repeat it.
    fn message(&self, at: usize, failure: Failure, function: &Function, call: u64) -> String {
        let (rule, _) = &self.rules[at];
        let start = if failure == Failure::OutOfMemory { "Out of memory: injected" } else { "Injected" };
        let mut text = format!(
            "{start} into {} by the layer `fault`, rule {} `{}`, at its call {call}",
            function.name,
            at + 1,
            rule.text
        );
        if rule.chance.is_some() {
            // A text in memory takes any number of bytes.
            let _ = write!(text, " with the seed {}", self.seed);
        }
        text
    }

    fn summary(&self) -> String {
        let mut text = format!("fault: rules in process {}\n", std::process::id());
        for (at, (rule, counts)) in self.rules.iter().enumerate() {
            let [calls, failed, delayed] =
                [&counts.calls, &counts.failed, &counts.delayed].map(|count| count.load(Ordering::Relaxed));
            let number = at + 1;
            let _ = writeln!(text, "  {number} `{}`: {calls} calls, {failed} failed, {delayed} delayed", rule.text);
        }
        text
    }
}

impl Layer for Fault {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn wants(&self, function: &Function) -> bool {
        let mut ids = self.rules.iter().flat_map(|(rule, _)| &rule.functions);
        ids.any(|id| FUNCTIONS[*id].name == function.name)
    }

    fn before(&self, call: &mut Call) -> Step {
        let mut delay = Duration::ZERO;
        let mut answer = None;
        for at in &self.by_function[call.id()] {
            let (rule, counts) = &self.rules[*at];
            let number = counts.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if !rule.applies(self.seed, *at as u64, number) {
                continue;
            }
            if let Some(more) = rule.delay {
                delay = delay.saturating_add(more);
                counts.delayed.fetch_add(1, Ordering::Relaxed);
            }
            if let (Some(failure), None) = (rule.failure, &answer) {
                answer = Some((*at, failure, number));
                counts.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let Some((at, failure, number)) = answer else { return Step::Continue(0) };
        let code = match failure {
            Failure::OutOfMemory => ErrorCode::RESOURCE_EXHAUSTED,
            Failure::Error(code) => code,
        };
        Step::answer(code, self.message(at, failure, call.function(), number))
    }

    fn exit(&self) {
        let text = self.summary();
        let result = match &self.summary {
            Summary::Nowhere => Ok(()),
            Summary::StandardError => io::stderr().write_all(text.as_bytes()),
            Summary::Folder(folder) => std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(folder.join(format!("fault-{}.txt", std::process::id())), &text)),
        };
        // No caller receives this error, so it is written to the standard error.
        if let Err(error) = result {
            let _ = writeln!(io::stderr(), "pjrt-layers: cannot write the summary: {error}\n{text}");
        }
    }
}
