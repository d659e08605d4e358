//! `pjrt with --isolate`: a plugin in a process of its own, for one command.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Report;
use crate::full::guarded::wait_or_kill;
use crate::full::private_folder::private_folder;
use crate::interrupt;

/// Maximum time between the end of the command and the end of the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a signal to this process ends.
enum Target {
    /// The server that starts. It ends when its input is closed.
    Server(Option<ChildStdin>),
    Command(Pid),
    Nothing,
}

/// The target, and the first signal.
struct Signalled {
    target: Target,
    signal: Option<i32>,
}

fn lock(signalled: &Mutex<Signalled>) -> MutexGuard<'_, Signalled> {
    signalled.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command while `pjrt serve` serves a plugin at a socket that only this user can reach. Returns the exit code
/// of the command, which gets the signals that would end this process.
pub(crate) fn run(
    plugin: &str,
    variables: &[(OsString, OsString)],
    mut command: Command,
    program: &str,
) -> Result<Report, String> {
    let handled = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(handled).map_err(|error| format!("cannot handle signals: {error}"))?;
    let handle = signals.handle();
    let signalled = Mutex::new(Signalled { target: Target::Nothing, signal: None });
    let status = std::thread::scope(|scope| {
        scope.spawn(|| signals.forever().for_each(|signal| forward(signal, &signalled)));
        let status = Server::start(plugin, variables, &signalled).and_then(|server| {
            command.env(pjrt_remote::SERVER, &server.address);
            wait(command, program, &signalled)
        });
        handle.close();
        status
    });
    let code = match (status, lock(&signalled).signal) {
        (Ok(Some(status)), _) => match status.code() {
            Some(code) => u8::try_from(code).unwrap_or(1),
            None => interrupt::code(status.signal().unwrap_or_default()),
        },
        // The command has not started.
        (_, Some(signal)) => interrupt::code(signal),
        (Ok(None), None) => 1,
        (Err(message), None) => return Err(message),
    };
    Ok(Report::new(String::new(), code))
}

/// Runs a command, unless a signal has arrived.
fn wait(mut command: Command, program: &str, signalled: &Mutex<Signalled>) -> Result<Option<ExitStatus>, String> {
    let mut child = {
        let mut signalled = lock(signalled);
        if signalled.signal.is_some() {
            return Ok(None);
        }
        let child = command.spawn().map_err(|error| format!("cannot run {program}: {error}"))?;
        signalled.target = Target::Command(Pid::from_child(&child));
        child
    };
    let pid = Pid::from_child(&child);
    // The number of the process stays in use until `Child::wait`.
    let ended = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    // Without this system call, the number may be in use again for a moment.
    let _ = rustix::io::retry_on_intr(ended);
    lock(signalled).target = Target::Nothing;
    child.wait().map(Some).map_err(|error| format!("cannot wait for {program}: {error}"))
}

/// Ends the target of a signal.
fn forward(signal: i32, signalled: &Mutex<Signalled>) {
    let mut signalled = lock(signalled);
    signalled.signal.get_or_insert(signal);
    match &mut signalled.target {
        Target::Server(input) => drop(input.take()),
        // The terminal has sent it to the command, too.
        Target::Command(_) if signal == SIGINT && is_in_foreground() => {}
        Target::Command(pid) => {
            let signal = match signal {
                SIGINT => Signal::INT,
                SIGHUP => Signal::HUP,
                _ => Signal::TERM,
            };
            // The command may have ended.
            let _ = kill_process(*pid, signal);
        }
        Target::Nothing => {}
    }
}

/// Returns whether Ctrl-C at the terminal sends a signal to this process and its command.
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty").ok();
    let foreground = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    foreground == Some(rustix::process::getpgrp())
}

/// Returns whether this process ignores a signal, as below `nohup`.
fn is_ignored(signal: i32) -> bool {
    // Only Linux has the file.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

/// A server for one command. Dropping it ends the server.
struct Server<'a> {
    process: Child,
    address: String,
    signalled: &'a Mutex<Signalled>,
    /// The input of the server.
    input: Option<ChildStdin>,
    /// Contains the socket.
    _folder: TempDir,
}

impl<'a> Server<'a> {
    /// Starts `pjrt serve` with a plugin.
    fn start(
        plugin: &str,
        variables: &[(OsString, OsString)],
        signalled: &'a Mutex<Signalled>,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start a server for the plugin: {error}");
        let folder = private_folder("pjrt-with-")?;
        let address = format!("unix:{}", folder.path().join("socket").display());
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["serve", "--json", "--while-input", "--plugin", plugin, "--listen", &address]);
        // Ctrl-C ends the command, and its end ends the server.
        command.envs(variables.iter().cloned()).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(failed)?;
        let (input, out) = (process.stdin.take(), process.stdout.take());
        let mut server = Self { process, address, signalled, input: None, _folder: folder };
        {
            let mut signalled = lock(signalled);
            // A signal that has arrived ends the server, too.
            signalled.target = Target::Server(input.filter(|_| signalled.signal.is_none()));
        }
        let mut line = String::new();
        let read = out.map(|out| BufReader::new(out).read_line(&mut line));
        server.take_input();
        match read {
            Some(Ok(1..)) => Ok(server),
            // The server has printed the reason.
            _ => Err(format!("the server for the plugin `{plugin}` did not start")),
        }
    }

    /// Takes the input back, which no signal closes any more.
    fn take_input(&mut self) {
        if let Target::Server(input) = std::mem::replace(&mut lock(self.signalled).target, Target::Nothing) {
            self.input = input;
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // The server ends when its input is closed.
        drop(self.input.take());
        // There is nobody to whom an error could be reported.
        let _ = wait_or_kill(&mut self.process, PATIENCE);
    }
}
