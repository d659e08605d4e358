//! Runs a task in a separate process, with a time limit. If this process ends first, a
//! [guard](pjrt_conformance::process::guard) ends the task's processes.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pjrt_conformance::process::guard::{apart, die_with, words};
use pjrt_conformance::process::lines::MARK;
use serde_json::{Value, json};

use crate::full::env::become_command;

/// Interval between two checks whether a child has ended.
const PAUSE: Duration = Duration::from_millis(5);
/// Time that the guard has to end a task after its time limit or a request to stop. A process may end late if it is in
/// a call to a driver.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum wait for remaining output after the child has ended. A process that the child started may keep the pipe
/// open.
const REST: Duration = Duration::from_millis(500);
/// Maximum size in bytes of the child's output that is kept, because the child may write without limit.
const MOST: usize = 4 << 20;

/// The hidden command that runs a [`Task::Command`].
pub(crate) const COMMAND: &str = "__command";

/// A task for a separate process.
pub(crate) enum Task<'a> {
    /// Loads a plugin. The string is the request to `pjrt __probe`.
    Probe(String),
    /// Runs a command. The first string is the program.
    Command(&'a [OsString]),
}

/// How a task ended, and its output.
#[derive(Debug)]
pub(crate) enum Guarded {
    /// The task ended by itself. `words` describes the exit code or signal.
    Ended { words: String, success: bool, stdout: String, stderr: String },
    /// The task exceeded the time limit and was ended.
    TimedOut { stdout: String, stderr: String },
    /// The task was ended because the caller requested it.
    Stopped { stdout: String, stderr: String },
}

/// The reason why a task was ended early.
enum Early {
    Time,
    Request,
}

impl Task<'_> {
    /// Runs the task until it ends, until the time limit is reached, or until `stop` returns `true`.
    pub(crate) fn run(
        &self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Guarded, String> {
        let (guard, request) = match self {
            Self::Probe(request) => ("__guard", request.clone()),
            Self::Command(words) => {
                let words: Vec<_> = words.iter().map(|word| json!(word.as_encoded_bytes())).collect();
                ("__command_guard", json!(words).to_string() + "\n")
            }
        };
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut command = Command::new(program);
        command.arg(guard).envs(variables);
        apart(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start a process: {error}"))?;
        // Keep the pipe open until the task is over. When it is closed, the guard ends the task.
        let mut lifeline = child.stdin.take();
        if let Some(stdin) = &mut lifeline {
            // Ignore an error here. Writing fails if the child ends before it has read its input, and its exit status
            // then reveals the failure.
            let _ = stdin.write_all(request.as_bytes());
        }
        let (stdout, stderr) = (child.stdout.take().map(Output::of), child.stderr.take().map(Output::of));
        let status =
            wait(&mut child, limit, stop, lifeline).map_err(|error| format!("cannot watch a process: {error}"))?;
        let text = |output: Option<Output>| output.map(Output::text).unwrap_or_default();
        let (stdout, stderr) = (text(stdout), text(stderr));
        Ok(match status {
            Err(Early::Time) => Guarded::TimedOut { stdout, stderr },
            Err(Early::Request) => Guarded::Stopped { stdout, stderr },
            Ok(status) => {
                let (words, success) = ended(&stdout)
                    // There is no report if the task ended the guard, or if the guard could not start the task.
                    .unwrap_or_else(|| (format!("{}, and so did the process that watched it", words(status)), false));
                Guarded::Ended { words, success, stdout, stderr }
            }
        })
    }
}

impl Guarded {
    pub(crate) fn stdout(&self) -> &str {
        match self {
            Self::Ended { stdout, .. } | Self::TimedOut { stdout, .. } | Self::Stopped { stdout, .. } => stdout,
        }
    }

    pub(crate) fn stderr(&self) -> &str {
        match self {
            Self::Ended { stderr, .. } | Self::TimedOut { stderr, .. } | Self::Stopped { stderr, .. } => stderr,
        }
    }

    /// Returns the last nonempty line of the standard error.
    pub(crate) fn last_line(&self) -> String {
        let mut lines = self.stderr().lines().map(str::trim).filter(|line| !line.is_empty());
        lines.next_back().unwrap_or_default().to_owned()
    }
}

/// Returns the guard's report about the end of the task: a description, and whether the task succeeded. Returns `None`
/// if the guard wrote no report.
fn ended(stdout: &str) -> Option<(String, bool)> {
    let lines = stdout.lines().rev().filter_map(|line| line.strip_prefix(MARK));
    let mut lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find_map(|line| Some((line["ended"].as_str()?.to_owned(), line["success"] == true)))
}

/// Runs the guard, which watches a command.
pub(crate) fn guard() -> Result<(), String> {
    pjrt_conformance::process::guard::run(&[COMMAND])
}

/// Replaces this process with the command that the standard input names.
pub(crate) fn command(parent: u32) -> Result<crate::Report, String> {
    die_with(parent)?;
    let mut request = String::new();
    std::io::stdin().read_to_string(&mut request).map_err(|error| format!("cannot read the command: {error}"))?;
    let words: Vec<Vec<u8>> =
        serde_json::from_str(request.trim_end()).map_err(|error| format!("cannot read the command: {error}"))?;
    let words: Vec<OsString> = words.into_iter().map(from_bytes).collect();
    let [program, arguments @ ..] = &words[..] else { return Err("there is no command".to_owned()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    become_command(command, &program.to_string_lossy())
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// Converts the bytes of a word to a string, and replaces invalid UTF-8.
#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Waits for the guard. After the time limit, or if `stop` returns `true`, closes the lifeline and gives the guard
/// [`GRACE`] to end the task's processes.
fn wait(
    child: &mut Child,
    limit: Duration,
    stop: &dyn Fn() -> bool,
    lifeline: Option<ChildStdin>,
) -> std::io::Result<Result<ExitStatus, Early>> {
    let early = match wait_until(child, Instant::now().checked_add(limit), stop)? {
        Ok(status) => return Ok(Ok(status)),
        Err(early) => early,
    };
    drop(lifeline);
    wait_or_kill(child, GRACE)?;
    Ok(Err(early))
}

/// Waits for a process, and kills it after `limit`. Returns `None` if it was killed.
pub(crate) fn wait_or_kill(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    if let Ok(status) = wait_until(child, Instant::now().checked_add(limit), &|| false)? {
        return Ok(Some(status));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Waits for a process until `end`, or until `stop` returns `true`. If `end` is `None`, there is no time limit.
fn wait_until(
    child: &mut Child,
    end: Option<Instant>,
    stop: &dyn Fn() -> bool,
) -> std::io::Result<Result<ExitStatus, Early>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ok(status));
        }
        if stop() {
            return Ok(Err(Early::Request));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(Err(Early::Time));
        }
        std::thread::sleep(PAUSE);
    }
}

/// A thread that reads a pipe continuously, so that the child never blocks on a full pipe.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the other end of the pipe is closed.
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

    /// Returns the output of the child. Call this function after the child has ended.
    fn text(self) -> String {
        // Whether the pipe closed or the wait timed out, return the output read so far.
        let _ = self.closed.recv_timeout(REST);
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
