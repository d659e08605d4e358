//! The guard, which is a process between a program and a child that runs a plugin's code. When the program ends, the
//! guard kills the child. On Linux, the guard also kills the processes that the plugin started when the program or the
//! child ends.
//!
//! The program starts the guard, and the guard starts the child. The guard waits until the child ends or until its own
//! standard input is closed. The operating system closes this input when the program ends for any reason. The guard
//! then kills the child if it still runs. On Linux, the guard adopts processes whose parents ended, and kills all its
//! descendants. It therefore also finds processes that left the child's process group and session. On other Unix
//! systems, the guard kills the child's process group, but only if the program ends first. The guard never runs a
//! plugin's code.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;

use crate::process::lines::tell;

/// Interval at which the guard checks the state of the child.
const PAUSE: Duration = Duration::from_millis(5);

/// Configures a command to start in a process group of its own. A signal from the terminal then reaches only the
/// current process. The current process must therefore end the process of the command. Has no effect on systems other
/// than Unix.
pub fn apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Runs a guard. Starts this program again as the child, with `arguments` and the guard's process id, and passes the
/// first line of the standard input to the child. If the child ends by itself, writes a message with the fields `ended`
/// and `success` (see [`lines`](super::lines)).
///
/// # Errors
///
/// Returns an error if the child cannot be started or watched.
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
        // Ignore the error. If the child does not read its input, its exit status reveals the failure.
        let _ = stdin.write_all(request.as_bytes());
    }
    let (open, closed) = channel::<()>();
    std::thread::spawn(move || {
        let _open = open;
        // The program sends no more input. `copy` returns when the program closes its end of the pipe.
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
        // Ignore the errors, because the child may have ended by itself in the meantime.
        let _ = child.kill();
        let _ = child.wait();
    }
    system::end_descendants();
    if let Some(status) = ended {
        tell(&json!({ "ended": words(status), "success": status.success() }));
    }
    Ok(())
}

/// Describes an exit status, for example `SIGSEGV` or `exit code 1`.
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

/// Requests that the system kill this process when its parent ends. Has no effect on systems other than Linux.
///
/// # Errors
///
/// Returns an error if the parent has already ended, or if Linux rejects the request.
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
        // Ignore the error. Kernels before 3.4 do not support subreapers. On such a kernel, the guard finds only direct
        // children.
        let _ = set_child_subreaper(Some(getpid()));
    }

    /// Does nothing on Linux, because [`end_descendants`] kills all processes in the group of the child.
    pub(super) fn end_group(_: u32) {}

    /// Kills the children of this process until none is left that it can kill. When a child is killed, its own children
    /// become children of this process.
    pub(super) fn end_descendants() {
        loop {
            let mut killed = false;
            for child in children() {
                // Killing a child fails if the child now belongs to another user.
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
            // The process name is in parentheses and may itself contain parentheses. The state and the parent's id
            // follow the name.
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
        };
        numbers.filter(|process| parent(process) == Some(this)).filter_map(Pid::from_raw).collect()
    }

    pub(super) fn die_with(parent: u32) -> Result<(), String> {
        let failed = |error: rustix::io::Errno| format!("cannot watch the parent process: {error}");
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
        // The parent may have ended before the death signal was set.
        let now = getppid().and_then(|parent| u32::try_from(parent.as_raw_nonzero().get()).ok());
        if now == Some(parent) { Ok(()) } else { Err("the parent process ended".to_owned()) }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    use rustix::process::{Pid, Signal, kill_process_group};

    pub(super) fn adopt_orphans() {}

    /// Kills the process group with the leader `leader`, which is the child. On Unix systems other than Linux, the
    /// guard cannot find processes that left the group.
    pub(super) fn end_group(leader: u32) {
        if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
            // Ignore the error, because the group may be empty.
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
