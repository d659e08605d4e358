//! `pjrt with --isolate`: a plugin in a process of its own, for one command.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Report;

/// Maximum time between the end of the command and the end of the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server for one command. Dropping it ends the server.
pub(crate) struct Isolated {
    server: Child,
    pub(crate) address: String,
    /// Contains the socket.
    _folder: TempDir,
}

impl Isolated {
    /// Starts `pjrt serve` with a plugin, at a socket that only this user can reach.
    pub(crate) fn start(plugin: &str, variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start a server for the plugin: {error}");
        let folder = tempfile::tempdir().map_err(failed)?;
        let address = format!("unix:{}", folder.path().join("socket").display());
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["serve", "--json", "--while-input", "--plugin", plugin, "--listen", &address]);
        // Ctrl-C ends the command, and its end ends the server.
        command.envs(variables).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut server = command.spawn().map_err(failed)?;
        let mut line = String::new();
        let read = server.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        let isolated = Self { server, address, _folder: folder };
        match read {
            Some(Ok(1..)) => Ok(isolated),
            // The server has printed the reason.
            _ => Err(format!("the server for the plugin `{plugin}` did not start")),
        }
    }

    /// Runs a command, and returns its exit code. The command gets the signals that would end this process.
    pub(crate) fn run(self, mut command: Command, program: &str) -> Result<Report, String> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| error.to_string())?;
        let handle = signals.handle();
        let mut child = command.spawn().map_err(|error| format!("cannot run {program}: {error}"))?;
        let pid = rustix::process::Pid::from_child(&child);
        let status = std::thread::scope(|scope| {
            scope.spawn(|| {
                for signal in signals.forever() {
                    let signal = match signal {
                        SIGTERM => rustix::process::Signal::TERM,
                        SIGHUP => rustix::process::Signal::HUP,
                        // The terminal has sent it to the command, too.
                        _ => continue,
                    };
                    // The command may have ended.
                    let _ = rustix::process::kill_process(pid, signal);
                }
            });
            let status = child.wait();
            handle.close();
            status
        });
        let status = status.map_err(|error| format!("cannot wait for {program}: {error}"))?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Ok(Report::new(String::new(), u8::try_from(code).unwrap_or(1)))
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // The server ends when its input is closed.
        drop(self.server.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.server.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // The server may have ended.
                let _ = self.server.kill();
                let _ = self.server.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
