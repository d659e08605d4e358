//! The process between a program and a child that runs a plugin's code. It ends the processes that the plugin started
//! when the program ends.
//!
//! The program starts a guard, and the guard starts the child and waits until the child ends, or until its own standard
//! input is closed. The system closes that input when the program ends for any reason. Then the guard kills the
//! remaining processes. On Linux the guard adopts processes whose parents ended, so it also finds those that left the
//! child's process group and session. The guard never runs a plugin's code.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;

use crate::process::lines::tell;

/// Interval at which the guard checks the state of the child.
const PAUSE: Duration = Duration::from_millis(5);

/// Starts a command in a process group of its own. Signals from the terminal then reach only this process, which ends
/// the command.
pub fn apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Runs a guard: starts this program again with `arguments` and the guard's process id, and passes the first line of the
/// standard input on to it. When the child ends, writes a line with `ended` and `success` (see [`lines`](super::lines)).
///
/// # Errors
///
/// If the child cannot be started or watched.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    system::adopt_orphans();
    let failed = |error: std::io::Error| format!("cannot guard a child process: {error}");
    let mut input = BufReader::new(std::io::stdin());
    let mut request = String::new();
    input.read_line(&mut request).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(arguments).arg(std::process::id().to_string()).stdin(Stdio::piped());
    apart(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If a child does not read its input, its exit status reveals the failure.
        let _ = stdin.write_all(request.as_bytes());
    }
    let (open, closed) = channel::<()>();
    std::thread::spawn(move || {
        let _open = open;
        // The program sends nothing more. This returns when the program closes its end.
        let _ = std::io::copy(&mut input, &mut std::io::sink());
    });
    let ended = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break Some(status);
        }
        if closed.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
            break None;
        }
    };
    if ended.is_none() {
        system::end_group(child.id());
        // The child may have ended by itself in the meantime.
        let _ = child.kill();
        let _ = child.wait();
    }
    system::end_descendants();
    if let Some(status) = ended {
        tell(&json!({ "ended": words(status), "success": status.success() }));
    }
    Ok(())
}

/// Describes an exit status in words, with a signal's name.
pub fn words(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match signal {
            4 => "SIGILL",
            5 => "SIGTRAP",
            6 => "SIGABRT",
            8 => "SIGFPE",
            9 => "SIGKILL",
            11 => "SIGSEGV",
            13 => "SIGPIPE",
            15 => "SIGTERM",
            _ => return format!("signal {signal}"),
        };
        return name.to_owned();
    }
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// Asks the system to kill this process when its parent ends. Only Linux supports this.
///
/// # Errors
///
/// If the parent has already ended, or if Linux rejects the request.
pub fn die_with(parent: u32) -> Result<(), String> {
    system::die_with(parent)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;

    use rustix::process::{
        Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal,
        waitpid,
    };

    pub(super) fn adopt_orphans() {
        // Kernels before 3.4 do not support this. On such a kernel, the guard finds only direct children.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// [`end_descendants`] finds all members of the group.
    pub(super) fn end_group(_: u32) {}

    /// Kills this process's children until there are none. Children of a killed process become children of this one.
    pub(super) fn end_descendants() {
        loop {
            let mut killed = false;
            for child in children() {
                // A child that now belongs to another user cannot be killed.
                if kill_process(child, Signal::KILL).is_ok() {
                    let _ = waitpid(Some(child), WaitOptions::empty());
                    killed = true;
                }
            }
            if !killed {
                return;
            }
        }
    }

    fn children() -> Vec<Pid> {
        let this = getpid().as_raw_nonzero().get();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        let parent = |process: &i32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            // The name is in parentheses and may itself contain parentheses. The state and the parent follow it.
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
        };
        numbers.filter(|process| parent(process) == Some(this)).filter_map(Pid::from_raw).collect()
    }

    pub(super) fn die_with(parent: u32) -> Result<(), String> {
        let failed = |error: rustix::io::Errno| format!("cannot watch the parent process: {error}");
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
        // The parent may have ended before the call.
        let now = getppid().and_then(|parent| u32::try_from(parent.as_raw_nonzero().get()).ok());
        if now == Some(parent) { Ok(()) } else { Err("the parent process ended".to_owned()) }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    use rustix::process::{Pid, Signal, kill_process_group};

    pub(super) fn adopt_orphans() {}

    /// On this system, processes that left the group are not found.
    pub(super) fn end_group(leader: u32) {
        if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
            // The group may be empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    pub(super) fn end_descendants() {}

    pub(super) fn die_with(_: u32) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(not(unix))]
mod system {
    pub(super) fn adopt_orphans() {}

    pub(super) fn end_group(_: u32) {}

    pub(super) fn end_descendants() {}

    pub(super) fn die_with(_: u32) -> Result<(), String> {
        Ok(())
    }
}
