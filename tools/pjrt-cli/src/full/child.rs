//! Runs a probe, which is a child process that loads a plugin. Reads the steps that the child process reports.

use std::time::Duration;

use device_plugin::{EnvPlan, Environment, ProcessTopology};
use plugin_registry::PluginEntry;
use serde_json::Value;

use crate::full::guarded::{self, Guarded};
use crate::full::probe::{Task, request};
use pjrt_conformance::process::lines::MARK;

/// Number of lines at the end of the child's standard error that are kept.
const LINES: usize = 5;

/// The result of a probe.
#[derive(Debug)]
pub(crate) struct Probe {
    /// The completed steps as JSON objects. The field `step` is the name of the step.
    pub(crate) steps: Vec<Value>,
    /// The step that was running when the process ended early.
    during: Option<String>,
    end: End,
    /// The last lines of the process's standard error.
    pub(crate) stderr: Vec<String>,
}

#[derive(Debug)]
enum End {
    Finished,
    Exited(String),
    TimedOut(Duration),
}

impl Probe {
    /// Returns the JSON object of the completed step `name`, or `None` if this step was not completed.
    pub(crate) fn step(&self, name: &str) -> Option<&Value> {
        self.steps.iter().find(|step| step["step"] == name)
    }

    /// Describes how the process ended. Returns `None` if it finished.
    pub(crate) fn failure(&self) -> Option<String> {
        let how = match &self.end {
            End::Finished => return None,
            End::Exited(how) => format!("the process ended with {how}"),
            End::TimedOut(limit) => format!("no answer within {limit:?}; the process was killed"),
        };
        let said: Vec<&str> = self.stderr.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        Some(if said.is_empty() { how } else { format!("{how}: {}", said.join(" / ")) })
    }

    /// Returns whether the process was killed because it exceeded the time limit.
    pub(crate) fn timed_out(&self) -> bool {
        matches!(self.end, End::TimedOut(_))
    }

    /// Returns the step during which the process ended early. Returns `start` if no step had begun, and `None` if the
    /// process finished.
    pub(crate) fn failed_step(&self) -> Option<&str> {
        if matches!(self.end, End::Finished) { None } else { Some(self.during.as_deref().unwrap_or("start")) }
    }
}

/// Loads a plugin in a separate process, and performs a task there. The process has the environment variables that the
/// plugin needs if it runs in a single process.
pub(crate) fn probe(entry: &PluginEntry, task: &Task<'_>, limit: Duration) -> Result<Probe, String> {
    let plan = plan(entry)?;
    let variables = plan.for_child().map(|(name, value)| (name.into(), value.into()));
    let guarded = guarded::Task::Probe(request(entry, task)).run(variables, limit, &|| false)?;
    let mut steps = Vec::new();
    let mut during = None;
    let mut finished = false;
    for line in guarded.stdout().lines().filter_map(|line| line.strip_prefix(MARK)) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(begun) = line["begin"].as_str() {
            during = Some(begun.to_owned());
        } else if line["ended"].is_string() {
            // The guard reported how the task ended. `guarded` contains this report.
        } else if line["step"] == "end" {
            finished = true;
        } else {
            during = None;
            steps.push(line);
        }
    }
    let end = match &guarded {
        Guarded::Ended { success: true, .. } if finished => End::Finished,
        Guarded::Ended { words, .. } => End::Exited(words.clone()),
        Guarded::TimedOut { .. } | Guarded::Stopped { .. } => End::TimedOut(limit),
    };
    if finished && during.is_none() {
        during = Some("exit".to_owned());
    }
    let lines: Vec<&str> = guarded.stderr().lines().map(str::trim).collect();
    let stderr = lines[lines.len().saturating_sub(LINES)..].iter().map(|&line| shorten(line)).collect();
    Ok(Probe { steps, during, end, stderr })
}

/// Returns the variables and options that a plugin needs if it runs in a single process.
pub(crate) fn plan(entry: &PluginEntry) -> Result<EnvPlan, String> {
    let plan = entry.plan(&ProcessTopology::single(), &Environment::of_this_process());
    plan.map_err(|error| error.to_string())
}

fn shorten(line: &str) -> String {
    const LONGEST: usize = 200;
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
