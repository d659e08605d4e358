//! Starts a probe's processes, watches them, and ends them when they exceed the time limit. If this process ends first,
//! its [guard](pjrt_conformance::process::guard) ends them.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use device_plugin::{EnvPlan, Environment, ProcessTopology};
use plugin_registry::PluginEntry;
use serde_json::Value;

use crate::probe::{Task, request};
use pjrt_conformance::process::guard::{apart, words};
use pjrt_conformance::process::lines::MARK;

/// Interval at which the state of a child is checked.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the guard may take to end a probe that exceeded its limit. A process that is in a driver call may end late.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for remaining output after the child ended. A process that the child started may keep the pipe
/// open.
const REST: Duration = Duration::from_millis(500);
/// Maximum bytes of the child's output that are kept, because a plugin may write without limit.
const MOST: usize = 4 << 20;
/// Lines of the child's diagnostics that are kept.
const LINES: usize = 5;

/// The result of a probe.
#[derive(Debug)]
pub(crate) struct Probe {
    /// The steps that completed, each with its name as `step`.
    pub(crate) steps: Vec<Value>,
    /// The step during which the process ended early.
    during: Option<String>,
    end: End,
    /// The last lines of the process's diagnostics.
    pub(crate) stderr: Vec<String>,
}

#[derive(Debug)]
enum End {
    Finished,
    Exited(String),
    TimedOut(Duration),
}

impl Probe {
    /// The outcome of a step that completed.
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

    /// Whether the process was ended because it exceeded the time limit.
    pub(crate) fn timed_out(&self) -> bool {
        matches!(self.end, End::TimedOut(_))
    }

    /// The step during which the process ended early.
    pub(crate) fn failed_step(&self) -> Option<&str> {
        if matches!(self.end, End::Finished) { None } else { Some(self.during.as_deref().unwrap_or("start")) }
    }
}

/// Loads a plugin in a separate process, set up as the only process of a program, and performs a task there.
pub(crate) fn probe(entry: &PluginEntry, task: &Task<'_>, limit: Duration) -> Result<Probe, String> {
    let plan = plan(entry)?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.arg("__guard").envs(plan.for_child());
    apart(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start a process to probe in: {error}"))?;
    // Stays open until the probe is over. The guard ends the probe when this is closed.
    let mut lifeline = child.stdin.take();
    if let Some(stdin) = &mut lifeline {
        // If a child does not read its input, its exit status reveals the failure.
        let _ = stdin.write_all(request(entry, task).as_bytes());
    }
    let (stdout, stderr) = (child.stdout.take().map(Output::of), child.stderr.take().map(Output::of));
    let status = wait(&mut child, limit, lifeline).map_err(|error| format!("cannot watch the probe: {error}"))?;
    let text = |output: Option<Output>| output.map(Output::text).unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    let mut steps = Vec::new();
    let mut during = None;
    let mut finished = false;
    let mut ended = None;
    for line in stdout.lines().filter_map(|line| line.strip_prefix(MARK)) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(begun) = line["begin"].as_str() {
            during = Some(begun.to_owned());
        } else if let Some(how) = line["ended"].as_str() {
            ended = Some((how.to_owned(), line["success"] == true));
        } else if line["step"] == "end" {
            finished = true;
        } else {
            during = None;
            steps.push(line);
        }
    }
    let end = match (status, ended) {
        (None, _) => End::TimedOut(limit),
        (Some(_), Some((_, true))) if finished => End::Finished,
        (Some(_), Some((how, _))) => End::Exited(how),
        // The plugin ended the guard, or the guard could not start it.
        (Some(status), None) => End::Exited(format!("{}, and so did the process that watched it", words(status))),
    };
    if finished && during.is_none() {
        during = Some("exit".to_owned());
    }
    let lines: Vec<&str> = stderr.lines().map(str::trim).collect();
    let stderr = lines[lines.len().saturating_sub(LINES)..].iter().map(|&line| shorten(line)).collect();
    Ok(Probe { steps, during, end, stderr })
}

/// The variables and options that a plugin needs if it runs in a single process.
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

/// Waits for the guard. After the limit, this closes the lifeline and gives the guard [`GRACE`] to end the probe's
/// processes.
fn wait(child: &mut Child, limit: Duration, lifeline: Option<ChildStdin>) -> std::io::Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, Instant::now().checked_add(limit))? {
        return Ok(Some(status));
    }
    drop(lifeline);
    if wait_until(child, Instant::now().checked_add(GRACE))?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(None)
}

/// Waits for a process until `end`. Without `end`, waits without a limit.
fn wait_until(child: &mut Child, end: Option<Instant>) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// A pipe that a thread reads as it fills, so that the child never blocks on a full pipe.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the pipe's other end is closed.
    closed: Receiver<()>,
}

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (open, closed) = channel();
        let kept = bytes.clone();
        std::thread::spawn(move || {
            let _open: Sender<()> = open;
            let mut chunk = vec![0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..count]);
                if kept.len() > MOST {
                    kept.drain(..MOST / 2);
                }
            }
        });
        Self { bytes, closed }
    }

    /// The output of the child. Call this after the child ended.
    fn text(self) -> String {
        // Whether the pipe closed or the wait timed out, return the output read so far.
        let _ = self.closed.recv_timeout(REST);
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
