//! Runs one worker process with its group of cases.

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outcome::Outcome;
use crate::process::guard::apart;
use crate::process::worker::Request;
use crate::runner::output::Diagnostics;
use crate::suite::Suite;

/// Maximum time for a guard to end its worker. A killed worker that is blocked in a device driver ends only when the
/// driver returns.
const GRACE: Duration = Duration::from_secs(5);
/// Minimum time limit for each of the stages outside of cases, such as loading the plugin and creating a client. These
/// stages may take longer than a case.
const LEAST_STAGE: Duration = Duration::from_secs(60);
/// Maximum number of output lines in the result of a failed case.
const LINES: usize = 12;

/// The command that starts a [guard process](crate::process::guard), and the plugin that the guard's worker opens.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Path of the program. When started with `arguments`, it must call [`guard::run`](crate::process::guard::run).
    pub program: PathBuf,
    /// Arguments that make the program run as a guard.
    pub arguments: Vec<OsString>,
    /// Environment variables that the plugin needs.
    pub variables: Vec<(OsString, OsString)>,
    /// Description of the plugin, which the worker passes to its [`Opener`](crate::process::worker::Opener).
    pub target: Value,
}

/// The result of one run of a case.
#[derive(Clone, Debug)]
pub(super) struct RawResult {
    pub(super) id: String,
    pub(super) outcome: Outcome,
    pub(super) reason: String,
    pub(super) ms: f64,
    pub(super) output: Vec<String>,
}

/// A message from a worker.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// The result of a case.
    Result(RawResult),
    /// A description of the plugin or of its client.
    About(Value),
}

/// Function that handles messages from a worker. If it returns [`ControlFlow::Break`], the runner ends the worker.
type Handler<'a> = dyn FnMut(Message) -> ControlFlow<()> + 'a;

/// The outcome of a worker that ran a group of cases, apart from the results of the cases.
#[derive(Debug, Default)]
pub(super) struct GroupEnd {
    /// Ids of the cases that did not run.
    pub(super) rest: Vec<String>,
    /// The stage (`load` or `client`) in which the worker ended or failed, and the reason.
    pub(super) stage: Option<(String, String)>,
    /// Description of a process failure outside of any case, for example during exit.
    pub(super) fault: Option<String>,
}

/// The current activity of the worker.
enum State {
    Between,
    Stage(String, Instant),
    Case(String, Instant, Duration),
    /// The worker calls `exit` after the check of the case with this id. The number is the check's duration in
    /// milliseconds.
    Exits(String, f64),
    Finished,
}

/// Runs a group of cases in a new worker. Calls `on_message` for each result and for each description of the plugin or
/// its client.
pub(super) fn run(
    launcher: &Launcher,
    request: &Request,
    suite: &Suite,
    time_limit: Duration,
    on_message: &mut Handler<'_>,
) -> Result<GroupEnd, String> {
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.arguments).envs(launcher.variables.iter().map(|(name, value)| (name, value)));
    apart(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start a worker process: {error}"))?;
    let mut lifeline = child.stdin.take();
    let line = serde_json::to_string(request).map_err(|error| error.to_string())?;
    if let Some(stdin) = &mut lifeline {
        // Ignore the error. If the guard has already ended, `conclude` reports the reason.
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
    }
    let diagnostics = Diagnostics::default();
    let stderr = child.stderr.take().map(|pipe| diagnostics.follow(pipe));
    let Some(stdout) = child.stdout.take() else { return Err("the worker has no standard output".to_owned()) };
    let lines = diagnostics.lines(stdout);
    let mut watch = Watch {
        suite,
        time_limit,
        diagnostics,
        state: State::Stage("start".to_owned(), Instant::now()),
        done: 0,
        end: GroupEnd::default(),
        held: None,
        ended: None,
        timed_out: false,
        stopped: false,
    };
    watch.follow(&lines, on_message);
    close(&mut child, lifeline);
    if let Some(closed) = stderr {
        // Wait only for a short time, because a process that the plugin started may keep the pipe open.
        let _ = closed.recv_timeout(Duration::from_millis(500));
    }
    watch.conclude(on_message);
    watch.end.rest = request.cases.get(watch.done..).unwrap_or_default().to_vec();
    Ok(watch.end)
}

/// Closes the guard's standard input, so that the guard ends its worker, and waits until the guard ends. Kills the
/// guard if it does not end within [`GRACE`].
fn close(child: &mut Child, lifeline: Option<ChildStdin>) {
    drop(lifeline);
    let end = Instant::now() + GRACE;
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // The guard did not end in time. On Linux, the worker also ends when the guard is killed.
    let _ = child.kill();
    let _ = child.wait();
}

struct Watch<'a> {
    suite: &'a Suite,
    time_limit: Duration,
    diagnostics: Diagnostics,
    state: State,
    /// Number of cases that have a result.
    done: usize,
    end: GroupEnd,
    /// The result of an isolated case, until its worker has ended. If the worker fails after the case, for example
    /// because the case damaged its memory, the case has crashed.
    held: Option<RawResult>,
    /// Description of the worker's exit status, and whether the status is a success.
    ended: Option<(String, bool)>,
    timed_out: bool,
    /// Whether the message handler requested the end of the worker.
    stopped: bool,
}

impl Watch<'_> {
    /// Returns the latest time at which the worker may leave its current state.
    fn deadline(&self) -> Instant {
        let stage = self.time_limit.max(LEAST_STAGE);
        match &self.state {
            State::Stage(_, start) => *start + stage,
            State::Case(_, start, limit) => *start + *limit,
            State::Between | State::Exits(..) | State::Finished => Instant::now() + stage,
        }
    }

    fn follow(&mut self, lines: &Receiver<Value>, on_message: &mut Handler<'_>) {
        loop {
            let deadline = self.deadline();
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if self.line(&line, on_message) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.timed_out = true;
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Handles a message line of the worker or the guard. Returns whether to stop reading lines.
    fn line(&mut self, line: &Value, on_message: &mut Handler<'_>) -> bool {
        let ms = line["ms"].as_f64().unwrap_or(0.0);
        if let Some(how) = line["ended"].as_str() {
            self.ended = Some((how.to_owned(), line["success"] == true));
            return true;
        } else if let Some(stage) = line["stage"].as_str() {
            self.stage(stage, line["begins"] == true);
        } else if let Some(id) = line["begin"].as_str() {
            let limit = self.suite.find(id).and_then(|case| case.time_limit);
            self.state =
                State::Case(id.to_owned(), Instant::now(), limit.unwrap_or(self.time_limit).max(self.time_limit));
        } else if let Some(id) = line["exits"].as_str() {
            self.state = State::Exits(id.to_owned(), ms);
        } else if let Some(id) = line["end"].as_str() {
            let outcome = line["outcome"].as_str().and_then(|name| name.parse().ok()).unwrap_or(Outcome::Fail);
            let reason = line["reason"].as_str().unwrap_or_default().to_owned();
            let result = RawResult { id: id.to_owned(), outcome, reason, ms, output: Vec::new() };
            if self.suite.find(id).is_some_and(|case| case.isolated) {
                self.held = Some(result);
            } else {
                self.result(result, on_message);
            }
            self.state = State::Between;
        } else if let Some(reason) = line["not_loaded"].as_str() {
            self.end.stage = Some(("load".to_owned(), format!("the plugin does not load: {reason}")));
        } else if line["finished"] == true {
            self.state = State::Finished;
        } else {
            self.stopped |= on_message(Message::About(line.clone())).is_break();
        }
        self.stopped
    }

    fn stage(&mut self, stage: &str, begins: bool) {
        let case = match std::mem::replace(&mut self.state, State::Between) {
            // The time to create the shared client does not count towards the time limit of the case.
            State::Case(id, _, limit) if !begins => Some((id, limit)),
            State::Case(id, _, limit) => {
                self.state = State::Case(id, Instant::now() + self.time_limit.max(LEAST_STAGE), limit);
                None
            }
            _ => None,
        };
        if let Some((id, limit)) = case {
            self.end.stage = None;
            self.state = State::Case(id, Instant::now(), limit);
        } else if begins && matches!(self.state, State::Case(..)) {
            self.end.stage = Some((stage.to_owned(), String::new()));
        } else if begins {
            self.state = State::Stage(stage.to_owned(), Instant::now());
        }
    }

    fn result(&mut self, mut result: RawResult, on_message: &mut Handler<'_>) {
        self.done += 1;
        if result.outcome.is_failure() {
            result.output = self.diagnostics.of_case(&result.id, LINES);
        }
        self.stopped |= on_message(Message::Result(result)).is_break();
    }

    /// Reports the outcome of the case during which the worker ended or was too slow. If the worker failed outside of a
    /// case, records the failed stage or the fault. Does nothing if the message handler ended the worker.
    fn conclude(&mut self, on_message: &mut Handler<'_>) {
        if self.stopped {
            return;
        }
        let mut fault = None;
        let how = match &self.ended {
            _ if self.timed_out => "did not answer in time and was killed".to_owned(),
            Some((how, _)) => format!("ended with {how}"),
            None => "ended, and so did its guard process".to_owned(),
        };
        let success = !self.timed_out && self.ended.as_ref().is_some_and(|(_, success)| *success);
        let outcome = if self.timed_out { Outcome::Timeout } else { Outcome::Crash };
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Case(id, start, limit) => {
                let ms = start.elapsed().as_secs_f64() * 1e3;
                let reason = if self.timed_out {
                    format!("the case did not end within {limit:?}; its process was killed")
                } else {
                    format!("the process {how} during the case")
                };
                if let Some((stage, why)) = &mut self.end.stage {
                    *why = format!("the process {how} while it created the {stage}");
                }
                self.result(RawResult { id, outcome, reason, ms, output: Vec::new() }, on_message);
            }
            State::Exits(id, ms) if success => {
                let (outcome, reason) = (Outcome::Pass, String::new());
                self.result(RawResult { id, outcome, reason, ms, output: Vec::new() }, on_message);
            }
            State::Exits(id, ms) => {
                let reason = format!("the process {how} after the case called exit");
                self.result(RawResult { id, outcome, reason, ms, output: Vec::new() }, on_message);
            }
            State::Stage(stage, _) if stage == "teardown" => {
                fault = Some(format!("the process {how} while it destroyed the client after its cases"));
            }
            State::Stage(stage, _) => {
                let diagnostics = self.diagnostics.tail(3).join(" / ");
                self.end.stage = Some(("load".to_owned(), format!("the process {how} during {stage}: {diagnostics}")));
            }
            State::Finished if !success => {
                fault = Some(format!("the process {how} after all its cases, while it exited"));
            }
            State::Between if !success => fault = Some(format!("the process {how} between two cases")),
            State::Finished | State::Between => {}
        }
        match (self.held.take(), fault) {
            (None, fault) => self.end.fault = fault,
            (Some(held), None) => self.result(held, on_message),
            (Some(held), Some(reason)) => self.result(RawResult { outcome, reason, ..held }, on_message),
        }
    }
}
