//! Runs the workers, repeats failures, and creates the report.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::expectations::Expectations;
use crate::machine;
use crate::outcome::Outcome;
use crate::process::worker::Request;
use crate::report::{Attempt, CaseResult, PluginInfo, Report, RunInfo, SCHEMA};
use crate::runner::group::{self, Launcher, Message, RawResult};
use crate::runner::queue::Queue;
use crate::suite::Suite;

/// Maximum number of failed cases that are repeated. The limit bounds the duration of a run if the plugin fails most
/// cases.
const MOST_REPEATED: usize = 60;

/// The settings of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Number of workers.
    pub jobs: usize,
    /// Time limit of a case. Cases that need more time have a longer limit of their own.
    pub time_limit: Duration,
    /// Seed for the pseudo-random data of cases.
    pub seed: u64,
    /// Minimum time for each case that calls functions from several threads in random order. A longer time finds rarer
    /// races. The time limit of every case is longer by this time.
    pub stress: Duration,
    /// How often an unexpected failure is repeated, to detect flaky cases.
    pub repeats: usize,
    /// Whether the run stops at the first unexpected outcome, or at the first process failure outside of any case.
    pub fail_fast: bool,
    /// Patterns that selected the cases. Only the report uses them.
    pub filter: Vec<String>,
    /// Profile that selected the cases. Only the report uses it.
    pub profile: Option<String>,
    /// Options of the client. Only the report uses them.
    pub options: Vec<String>,
    /// Report of an earlier run. Its results are kept, and its cases do not run again.
    pub earlier: Option<Report>,
    /// Start of the command that reproduces a single case. The report appends the id of the case.
    pub reproduce: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            time_limit: Duration::from_secs(30),
            seed: 0,
            stress: Duration::ZERO,
            repeats: 1,
            fail_fast: false,
            filter: Vec::new(),
            profile: None,
            options: Vec::new(),
            earlier: None,
            reproduce: "pjrt conform PLUGIN --filter".to_owned(),
        }
    }
}

/// The progress of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Update<'a> {
    /// A case has this result. The field `expected` does not yet take the expectations into account.
    Result(&'a CaseResult),
    /// A group of cases has ended. The report contains the results so far.
    Partial(&'a Report),
}

struct Run<'a> {
    launcher: &'a Launcher,
    suite: &'a Suite,
    settings: &'a Settings,
    expectations: &'a Expectations,
    on_update: &'a (dyn Fn(Update<'_>) + Sync),
    state: Mutex<Report>,
    /// Whether the run has stopped early.
    stopped: AtomicBool,
    start: Instant,
}

/// Runs the cases with the given ids and returns the report. `plugin` contains the name of the plugin and, if the
/// plugin is a file, its path.
///
/// # Errors
///
/// Returns an error if a worker cannot be started, if a thread of the run panics, or if the earlier report is about
/// another plugin library.
pub fn run(
    launcher: &Launcher,
    suite: &Suite,
    ids: &[String],
    mut plugin: PluginInfo,
    settings: &Settings,
    expectations: &Expectations,
    on_update: &(dyn Fn(Update<'_>) + Sync),
) -> Result<Report, String> {
    if let Some((size, sha256)) =
        Some(plugin.path.as_str()).filter(|path| !path.is_empty()).and_then(|path| machine::hash(Path::new(path)))
    {
        plugin.size = size;
        plugin.sha256 = sha256;
    }
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        complete: false,
        suite_version: env!("CARGO_PKG_VERSION").to_owned(),
        plugin,
        machine: machine::this_machine(),
        run: RunInfo {
            seed: settings.seed,
            jobs: settings.jobs,
            time_limit_s: settings.time_limit.as_secs_f64(),
            filter: settings.filter.clone(),
            profile: settings.profile.clone(),
            options: settings.options.clone(),
            started: machine::now(),
            seconds: 0.0,
        },
        results: Vec::new(),
        faults: Vec::new(),
    };
    let mut kept = Vec::new();
    if let Some(earlier) = &settings.earlier {
        if earlier.plugin.sha256 != report.plugin.sha256 {
            return Err("the report to resume from is of another library: run without --resume".to_owned());
        }
        report.plugin = earlier.plugin.clone();
        kept = earlier.results.iter().filter(|result| ids.contains(&result.id)).cloned().collect();
        report.faults.clone_from(&earlier.faults);
    }
    let remaining: Vec<String> =
        ids.iter().filter(|id| !kept.iter().any(|result| result.id == **id)).cloned().collect();
    report.results = kept;
    let queue = Queue::new(suite, &remaining);
    let run = Run {
        launcher,
        suite,
        settings,
        expectations,
        on_update,
        state: Mutex::new(report),
        stopped: AtomicBool::new(false),
        start: Instant::now(),
    };
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..settings.jobs.max(1)).map(|_| scope.spawn(|| run.work(&queue))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a thread of the run panicked".to_owned())))
            .collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    run.judge();
    run.repeat()?;
    let seconds = run.start.elapsed().as_secs_f64();
    let mut report = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.complete = !run.stopped.into_inner();
    report.run.seconds = seconds;
    sort(suite, &mut report.results);
    Ok(report)
}

/// Sorts results in the order of the suite.
fn sort(suite: &Suite, results: &mut [CaseResult]) {
    let order: HashMap<&str, usize> = suite.cases().iter().enumerate().map(|(at, case)| (case.id(), at)).collect();
    results.sort_by_key(|result| order.get(result.id.as_str()).copied().unwrap_or(usize::MAX));
}

impl Run<'_> {
    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, cases: Vec<String>, no_client: Option<String>) -> Request {
        let Settings { seed, stress, .. } = *self.settings;
        Request { target: self.launcher.target.clone(), cases, seed, stress, no_client }
    }

    /// Runs groups of cases until the queue is empty or the run stops.
    fn work(&self, queue: &Queue) -> Result<(), String> {
        while let Some((cases, not_loaded, no_client)) = queue.next() {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Some(reason) = not_loaded {
                for id in cases {
                    let (outcome, reason) = (Outcome::Skipped, reason.clone());
                    let _ = self.add(RawResult { id, outcome, reason, ms: 0.0, output: Vec::new() });
                }
                continue;
            }
            let request = self.request(cases, no_client);
            let end = group::run(
                self.launcher,
                &request,
                self.suite,
                self.settings.time_limit + self.settings.stress,
                &mut |message| match message {
                    Message::Result(result) => self.add(result),
                    Message::About(about) => self.learn(&about),
                },
            )?;
            if let Some((stage, reason)) = &end.stage
                && queue.failed(stage, reason)
            {
                self.fault(reason.clone());
            }
            if let Some(fault) = end.fault {
                let first = request.cases.first().map_or("", String::as_str);
                let last = request.cases.last().map_or("", String::as_str);
                self.fault(format!("{fault} ({first} to {last})"));
            }
            queue.put_back(end.rest);
            let partial = self.report().clone();
            (self.on_update)(Update::Partial(&partial));
        }
        Ok(())
    }

    /// Adds a failure outside of any case to the report. Stops the run if `fail_fast` is set.
    fn fault(&self, fault: String) {
        self.report().faults.push(fault);
        self.stopped.fetch_or(self.settings.fail_fast, Ordering::Relaxed);
    }

    /// Adds a result to the report. Returns [`ControlFlow::Break`] if the run must stop.
    fn add(&self, raw: RawResult) -> ControlFlow<()> {
        let case = self.suite.find(&raw.id);
        let result = CaseResult {
            expected: !raw.outcome.is_failure(),
            explanation: String::new(),
            clause: case.map(|case| case.clause().to_owned()).unwrap_or_default(),
            why: case.map(|case| case.why().to_owned()).unwrap_or_default(),
            profiles: case
                .map(|case| case.profiles().names().iter().map(|name| (*name).to_owned()).collect())
                .unwrap_or_default(),
            reproduce: format!("{} '{}'", self.settings.reproduce, raw.id),
            id: raw.id,
            outcome: raw.outcome,
            reason: raw.reason,
            ms: raw.ms,
            flaky: false,
            output: raw.output,
            attempts: Vec::new(),
        };
        (self.on_update)(Update::Result(&result));
        let mut report = self.report();
        let (expected, _) = self.expectations.judge(&report.subject(), &result.id, result.outcome);
        report.results.push(result);
        self.stopped.fetch_or(self.settings.fail_fast && !expected, Ordering::Relaxed);
        self.flow()
    }

    /// Returns [`ControlFlow::Break`] if the run must stop.
    fn flow(&self) -> ControlFlow<()> {
        if self.stopped.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Copies the description of the plugin or of its client from a worker's message to the report. Returns
    /// [`ControlFlow::Break`] if the run must stop.
    fn learn(&self, about: &Value) -> ControlFlow<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut report = self.report();
        let plugin = &about["plugin"];
        if plugin.is_object() {
            report.plugin.api_version = text(&plugin["api_version"]);
            report.plugin.attributes = serde_json::from_value(plugin["attributes"].clone()).unwrap_or_default();
            report.plugin.extensions = serde_json::from_value(plugin["extensions"].clone()).unwrap_or_default();
        }
        let client = &about["client"];
        if client.is_object() {
            report.plugin.platform_name = text(&client["platform_name"]);
            report.plugin.platform_version = text(&client["platform_version"]);
            report.plugin.device_kinds = serde_json::from_value(client["device_kinds"].clone()).unwrap_or_default();
        }
        self.flow()
    }

    /// Marks each result as expected or unexpected.
    fn judge(&self) {
        let mut report = self.report();
        let subject = report.subject();
        for result in &mut report.results {
            let (expected, explanation) = self.expectations.judge(&subject, &result.id, result.outcome);
            result.expected = expected;
            result.explanation = explanation;
        }
    }

    /// Repeats unexpected failures that have not been repeated yet, at most [`MOST_REPEATED`] of them. Each repeated
    /// run has a worker process of its own.
    fn repeat(&self) -> Result<(), String> {
        let failed: Vec<(usize, String, Outcome)> = {
            let report = self.report();
            let failed =
                report.results.iter().enumerate().filter(|(_, result)| {
                    !result.expected && result.outcome.is_failure() && result.attempts.is_empty()
                });
            failed.map(|(at, result)| (at, result.id.clone(), result.outcome)).take(MOST_REPEATED).collect()
        };
        for (at, id, first) in failed {
            for _ in 0..self.settings.repeats {
                let request = self.request(vec![id.clone()], None);
                let mut attempt = None;
                let limit = self.settings.time_limit + self.settings.stress;
                group::run(self.launcher, &request, self.suite, limit, &mut |message| {
                    if let Message::Result(result) = message {
                        attempt = Some(result);
                    }
                    ControlFlow::Continue(())
                })?;
                if let Some(raw) = attempt
                    && let Some(result) = self.report().results.get_mut(at)
                {
                    result.flaky |= raw.outcome != first;
                    result.attempts.push(Attempt { outcome: raw.outcome, reason: raw.reason });
                }
            }
        }
        Ok(())
    }
}
