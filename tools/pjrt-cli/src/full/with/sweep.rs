//! `pjrt with --sweep`: runs a command repeatedly, and makes a different call fail in each run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Report;
use crate::full::guarded::{Guarded, Task};
use crate::full::private_folder::private_folder;
use crate::full::progress::Progress;
use crate::full::time_limit::duration;
use crate::paint::Meaning;
use crate::table::Table;

/// Name and version of the JSON report's format.
const SCHEMA: &str = "pjrt-fault-sweep/1";
/// Index of the outcome column in the table.
const OUTCOME: usize = 3;

/// The options of a sweep.
#[derive(clap::Args)]
pub(crate) struct SweepArgs {
    /// Run the command many times, and let another call fail in each run. Needs the layer `fault`.
    #[arg(long)]
    pub(crate) sweep: bool,
    /// Let only calls of these functions fail: a function's name, the beginning of names and `*`, `memory`, `compile`
    /// or `transfer`.
    #[arg(long, value_name = "NAME", default_value = "*", requires = "sweep")]
    sweep_function: String,
    /// The error of the call: a code such as INTERNAL, or `oom`.
    #[arg(long, value_name = "CODE", default_value = "INTERNAL", requires = "sweep")]
    sweep_error: String,
    /// The first call that fails.
    #[arg(long, value_name = "N", default_value = "1", requires = "sweep", value_parser = clap::value_parser!(u64).range(1..))]
    sweep_start: u64,
    /// Let every N-th call fail.
    #[arg(long, value_name = "N", default_value = "1", requires = "sweep", value_parser = clap::value_parser!(u64).range(1..))]
    sweep_step: u64,
    /// How long each run may take, such as `10s` or `2m`, before it counts as a hang.
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "sweep", value_parser = duration)]
    timeout: Duration,
    /// Print the report of the sweep as JSON.
    #[arg(long, requires = "sweep")]
    pub(crate) json: bool,
}

/// How a run of the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The run ended like a run without a fault.
    Unaffected,
    /// The run ended with an exit code that differs from the exit code of a run without a fault.
    Failed,
    Crash,
    Hang,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Unaffected, Self::Failed, Self::Crash, Self::Hang];

    fn name(self) -> &'static str {
        match self {
            Self::Unaffected => "unaffected",
            Self::Failed => "failed",
            Self::Crash => "crash",
            Self::Hang => "hang",
        }
    }
}

/// One run of the command.
struct Run {
    /// The index of the call that failed, counted from 1.
    call: u64,
    /// The function whose call failed, or `None` if the run did not reach the call.
    function: Option<String>,
    outcome: Outcome,
    /// The exit code or the signal, in words.
    end: String,
    seconds: f64,
    /// Whether the command's output contains the injected error.
    shows_error: bool,
    last_line: String,
}

/// The command, and the environment variables to set for it.
pub(super) struct Target<'a> {
    pub(super) command: &'a [OsString],
    pub(super) variables: Vec<(OsString, OsString)>,
}

/// Runs the command once without a fault, and then repeatedly. In each of these runs, a different call fails.
pub(super) fn sweep(args: &SweepArgs, target: &Target<'_>) -> Result<Report, String> {
    if std::env::var_os("PJRT_LAYERS_FAULT").is_some() {
        return Err("--sweep sets the rules of the layer `fault`: unset PJRT_LAYERS_FAULT".to_owned());
    }
    let rule = |call: u64| match args.sweep_error.as_str() {
        "oom" => format!("{} call={call} oom", args.sweep_function),
        code => format!("{} call={call} error={code}", args.sweep_function),
    };
    rule(1).parse::<pjrt_layers::fault::Rules>().map_err(|error| format!("the sweep's rule: {error}"))?;
    let stop = Stop::new()?;
    // For the files of the layers.
    let files = private_folder("pjrt-sweep-")?;
    let progress = Progress::one("running the command without a fault");
    let run = |number: u64, text: &str| -> Result<(Guarded, Option<String>, f64), String> {
        let folder = files.path().join(number.to_string());
        let mut variables = target.variables.clone();
        variables.push(("PJRT_LAYERS_FAULT".into(), text.into()));
        variables.push(("PJRT_LAYERS_OUTPUT".into(), folder.clone().into()));
        let start = Instant::now();
        let guarded = Task::Command(target.command).run(variables, args.timeout, &|| stop.requested())?;
        let seconds = start.elapsed().as_secs_f64();
        let function = injected(&folder);
        // Remove the folder, because it may be large. Other layers write to it, too.
        let _ = fs::remove_dir_all(&folder);
        Ok((guarded, function, seconds))
    };
    let (without, ..) = run(0, &format!("{} chance=0 error=INTERNAL", args.sweep_function))?;
    let expected = match &without {
        Guarded::Ended { words, .. } if crash(words).is_none() => words.clone(),
        Guarded::Stopped { .. } => return Ok(Report::new(String::new(), stop.code())),
        other => {
            return Err(format!(
                "without a fault, the command {}: {}",
                if matches!(other, Guarded::TimedOut { .. }) { "did not end in time" } else { "crashes" },
                other.last_line()
            ));
        }
    };
    let mut runs = Vec::new();
    let mut call = args.sweep_start;
    let complete = loop {
        progress.step(format!("call {call}"));
        let (guarded, function, seconds) = run(call, &rule(call))?;
        if matches!(guarded, Guarded::Stopped { .. }) {
            break false;
        }
        let found = Run::new(call, function, &guarded, &expected, seconds);
        let is_last = found.function.is_none();
        if !is_last || found.outcome != Outcome::Unaffected {
            runs.push(found);
        }
        if is_last {
            break true;
        }
        call = call.saturating_add(args.sweep_step);
    };
    drop(progress);
    let text = if args.json { as_json(args, target, &expected, &runs, complete) } else { as_text(&runs, complete) };
    let bad = runs.iter().any(|run| matches!(run.outcome, Outcome::Crash | Outcome::Hang));
    Ok(Report::painted(text, if complete { u8::from(bad) } else { stop.code() }))
}

impl Run {
    fn new(call: u64, function: Option<String>, guarded: &Guarded, expected: &str, seconds: f64) -> Self {
        let (outcome, end) = match guarded {
            Guarded::Ended { words, .. } => match crash(words) {
                Some(signal) => (Outcome::Crash, signal),
                None if words == expected => (Outcome::Unaffected, words.clone()),
                None => (Outcome::Failed, words.clone()),
            },
            _ => (Outcome::Hang, "killed".to_owned()),
        };
        let shows_error = guarded.stderr().contains("by the layer `fault`");
        Self { call, function, outcome, end, seconds, shows_error, last_line: guarded.last_line() }
    }

    fn to_json(&self) -> Value {
        let Self { call, function, outcome, end, seconds, shows_error, last_line } = self;
        json!({
            "call": call, "function": function, "outcome": outcome.name(), "end": end, "seconds": seconds,
            "shows_error": shows_error, "last_line": last_line,
        })
    }
}

/// Returns the signal that ended a process, or `None` if the process ended with an ordinary exit code. `words`
/// describes how the process ended. Also recognizes the exit codes (128 + signal) with which a shell reports that its
/// command crashed, such as 139 for SIGSEGV.
fn crash(words: &str) -> Option<String> {
    let Some(code) = words.strip_prefix("exit code ") else { return Some(words.to_owned()) };
    let name = match code.parse::<u32>().ok()?.checked_sub(128)? {
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        11 => "SIGSEGV",
        _ => return None,
    };
    Some(format!("{name} (exit code {code})"))
}

/// Returns the function whose call failed first, according to the files of the layer `fault`. Returns `None` if no call
/// failed.
fn injected(folder: &Path) -> Option<String> {
    let names = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("fault-") && name.ends_with(".jsonl")
    };
    let mut logs: Vec<PathBuf> = names.filter(is_log).collect();
    logs.sort_unstable();
    let text = fs::read_to_string(logs.first()?).ok()?;
    let line: Value = serde_json::from_str(text.lines().next()?).ok()?;
    Some(line["function"].as_str()?.to_owned())
}

fn summary(runs: &[Run]) -> Vec<(Outcome, usize)> {
    Outcome::ALL.map(|outcome| (outcome, runs.iter().filter(|run| run.outcome == outcome).count())).to_vec()
}

fn as_text(runs: &[Run], complete: bool) -> String {
    let mut out = String::new();
    if !runs.is_empty() {
        let mut table = Table::new(["CALL", "FUNCTION", "END", "OUTCOME", "ERROR SHOWN", "LAST LINE"]);
        for run in runs {
            table.row([
                run.call.to_string(),
                run.function.clone().unwrap_or_else(|| "none failed".to_owned()),
                run.end.clone(),
                run.outcome.name().to_owned(),
                if run.shows_error { "yes" } else { "no" }.to_owned(),
                run.last_line.clone(),
            ]);
        }
        out.push_str(&table.painted("", |column, text| {
            (column == OUTCOME).then_some(match text {
                "crash" | "hang" => Meaning::Bad,
                "failed" => Meaning::Notable,
                _ => Meaning::Good,
            })
        }));
        out.push('\n');
    }
    let counts: Vec<String> =
        summary(runs).into_iter().map(|(outcome, count)| format!("{count} {}", outcome.name())).collect();
    line!(out, "{} calls failed: {}", runs.len(), counts.join(", "));
    if !complete {
        line!(out, "The sweep was interrupted.");
    }
    out
}

fn as_json(args: &SweepArgs, target: &Target<'_>, expected: &str, runs: &[Run], complete: bool) -> String {
    let words: Vec<_> = target.command.iter().map(|word| word.to_string_lossy()).collect();
    let summary: serde_json::Map<String, Value> =
        summary(runs).into_iter().map(|(outcome, count)| (outcome.name().to_owned(), json!(count))).collect();
    let report = json!({
        "schema": SCHEMA,
        "command": words,
        "functions": args.sweep_function,
        "error": args.sweep_error,
        "start": args.sweep_start,
        "step": args.sweep_step,
        "timeout_seconds": args.timeout.as_secs_f64(),
        "without_fault": expected,
        "complete": complete,
        "summary": summary,
        "runs": runs.iter().map(Run::to_json).collect::<Vec<_>>(),
    });
    format!("{report:#}\n")
}

/// Records whether the user interrupted the sweep. This process must end the processes of the command itself. They have
/// their own process group, so they do not receive the terminal's signals.
#[cfg(unix)]
struct Stop(std::sync::Arc<std::sync::atomic::AtomicUsize>);

#[cfg(unix)]
impl Stop {
    fn new() -> Result<Self, String> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let signal = std::sync::Arc::default();
        for number in [SIGINT, SIGTERM] {
            let value = usize::try_from(number).unwrap_or(1);
            signal_hook::flag::register_usize(number, std::sync::Arc::clone(&signal), value)
                .map_err(|error| format!("cannot handle signals: {error}"))?;
        }
        Ok(Self(signal))
    }

    fn requested(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) != 0
    }

    /// Returns the exit code that shells report for a process that a signal ended.
    fn code(&self) -> u8 {
        u8::try_from(128 + self.0.load(std::sync::atomic::Ordering::Relaxed)).unwrap_or(1)
    }
}

/// A substitute on systems other than Unix, which never requests a stop. There, the terminal ends the processes of the
/// command.
#[cfg(not(unix))]
struct Stop;

#[cfg(not(unix))]
impl Stop {
    fn new() -> Result<Self, String> {
        Ok(Self)
    }

    fn requested(&self) -> bool {
        false
    }

    fn code(&self) -> u8 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_report_signals_as_codes() {
        assert_eq!(crash("exit code 0"), None);
        assert_eq!(crash("exit code 1"), None);
        assert_eq!(crash("exit code 130"), None);
        assert_eq!(crash("exit code 134").as_deref(), Some("SIGABRT (exit code 134)"));
        assert_eq!(crash("SIGSEGV").as_deref(), Some("SIGSEGV"));
    }
}
