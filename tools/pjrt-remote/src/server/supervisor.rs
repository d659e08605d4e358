//! Serves with the plugin in a process of its own.
//!
//! The supervisor accepts clients and passes their connections to the worker, a process that has loaded the plugin. If
//! the worker ends, the system closes its connections, so its clients notice at once, and the supervisor starts another
//! one. Meanwhile new clients wait.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::net::address::Address;
use crate::net::stream::Stream;
use crate::server::access::Access;
use crate::server::listener::Server;
use crate::server::socket::Socket;

/// Time for which a worker must have been ready, so that the next one starts at once.
const STABLE: Duration = Duration::from_secs(5);
/// First and longest time between the end of a worker that ran for a shorter time and the start of the next one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Maximum length of the line with which a worker announces that it is ready.
const MAX_LINE: u64 = 64 << 10;
/// Time to wait after a connection could not be accepted, for example because the process has too many open files.
const FAILED: Duration = Duration::from_millis(50);
/// Time in which a worker must end after it has closed its end of the socket.
const ENDING: Duration = Duration::from_secs(1);
/// Time in which a worker must take a connection.
const PASSING: Duration = Duration::from_secs(5);

/// Accepts clients for a server in another process. Dropping it removes the file of a Unix socket.
pub struct Supervisor {
    socket: Socket,
    is_stopped: AtomicBool,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("address", self.address()).finish_non_exhaustive()
    }
}

/// What happens to the workers of a [`Supervisor`].
#[derive(Debug)]
pub enum WorkerEvent<'a> {
    /// A worker is ready. Contains the text that it announced.
    Ready(&'a str),
    /// A worker ended. Another one will start.
    Ended(ExitStatus),
}

/// Why the supervisor no longer watches a worker.
enum End {
    Stopped,
    WorkerEnded,
}

impl Supervisor {
    /// Opens an address, like [`Server::bind`].
    ///
    /// # Errors
    ///
    /// The errors of [`Server::bind`] apply.
    pub fn bind(address: &Address, access: &Access) -> io::Result<Self> {
        Ok(Self { socket: Socket::bind(address, access)?, is_stopped: AtomicBool::new(false) })
    }

    /// Returns the address. If the requested TCP port was 0, this is the port that the system chose.
    pub fn address(&self) -> &Address {
        self.socket.address()
    }

    /// Accepts clients until [`Self::stop`] is called. `start` starts a worker, whose standard input is the descriptor
    /// and which calls [`Server::serve_passed`] with it.
    ///
    /// The end of the worker is requested when this function returns, but the worker may take some time. Returns the
    /// worker, if one runs.
    ///
    /// # Errors
    ///
    /// Returns an error if no worker becomes ready. Later workers are tried again.
    pub fn run(
        &self,
        mut start: impl FnMut(OwnedFd) -> io::Result<Child>,
        mut event: impl FnMut(WorkerEvent<'_>),
    ) -> io::Result<Option<Child>> {
        let (mut pause, mut was_ready) = (PAUSES.0, false);
        while !self.is_stopped.load(Ordering::SeqCst) {
            let started = UnixStream::pair().and_then(|(control, theirs)| {
                control.set_write_timeout(Some(PASSING))?;
                Ok((control, start(theirs.into())?))
            });
            let mut ready = None;
            match started {
                Ok((control, mut worker)) => {
                    match self.watch(&control, &worker, &mut ready, &mut event) {
                        Ok(End::Stopped) => return Ok(Some(worker)),
                        Ok(End::WorkerEnded) => {}
                        Err(error) => tracing::debug!(%error, "a worker cannot be watched"),
                    }
                    was_ready |= ready.is_some();
                    // The worker closes its end of the socket before it reports an error, or without ending.
                    let deadline = Instant::now() + ENDING;
                    while worker.try_wait()?.is_none() && Instant::now() < deadline {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    let _ = worker.kill();
                    let status = worker.wait()?;
                    if !was_ready {
                        return Err(io::Error::other(format!(
                            "the process with the plugin ended before it was ready: {status}"
                        )));
                    }
                    event(WorkerEvent::Ended(status));
                }
                Err(error) if was_ready => tracing::warn!(%error, "cannot start the process with the plugin"),
                Err(error) => return Err(error),
            }
            if ready.is_none_or(|ready: Instant| ready.elapsed() < STABLE) {
                self.socket.sleep(pause)?;
                pause = (2 * pause).min(PAUSES.1);
            } else {
                pause = PAUSES.0;
            }
        }
        Ok(None)
    }

    /// Passes connections to a worker until it ends, or until [`Self::stop`] is called. Notes when it is `ready`.
    fn watch(
        &self,
        control: &UnixStream,
        worker: &Child,
        ready: &mut Option<Instant>,
        event: &mut impl FnMut(WorkerEvent<'_>),
    ) -> io::Result<End> {
        let mut line = String::new();
        // A process that the plugin has started may keep the worker's end of the socket open.
        let process = process_descriptor(worker);
        let process = process.as_ref().map_or(control.as_fd(), AsFd::as_fd);
        self.socket.wait_for([control.as_fd(), process], false)?;
        if self.is_stopped.load(Ordering::SeqCst) {
            return Ok(End::Stopped);
        }
        control.set_read_timeout(Some(PASSING))?;
        BufReader::new(control).take(MAX_LINE).read_line(&mut line)?;
        let Some(text) = line.strip_suffix('\n') else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        *ready = Some(Instant::now());
        event(WorkerEvent::Ready(text));
        let mut sender = Stream::from_descriptor(control.try_clone()?.into())?;
        loop {
            // A worker sends nothing more, so it has ended if its end of the socket is readable.
            let has_ended = self.socket.wait_for([control.as_fd(), process], true)?;
            if self.is_stopped.load(Ordering::SeqCst) {
                return Ok(End::Stopped);
            }
            if has_ended {
                return Ok(End::WorkerEnded);
            }
            let passed = self.socket.accept_waiting().and_then(|stream| sender.pass(stream));
            match passed {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::info!(%error, "a client could not connect");
                    self.socket.sleep(FAILED)?;
                }
            }
        }
    }

    /// Makes [`Self::run`] return.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.socket.stop();
    }
}

/// Returns a descriptor that is readable when a process has ended, on systems that have one.
#[cfg(target_os = "linux")]
fn process_descriptor(process: &Child) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    pidfd_open(Pid::from_child(process), PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn process_descriptor(_: &Child) -> Option<OwnedFd> {
    None
}

impl Server {
    /// Serves the clients whose connections a [`Supervisor`] passes over `control`, until the supervisor closes it.
    /// First announces that the server is ready, with a text of one line.
    ///
    /// # Errors
    ///
    /// Returns an error if the supervisor cannot be reached.
    pub fn serve_passed(&self, control: OwnedFd, access: &Access, ready: &str) -> io::Result<()> {
        let mut control = Stream::from_descriptor(control)?;
        control.write_with(format!("{ready}\n").as_bytes(), &[])?;
        while let Some(stream) = control.receive_passed()? {
            if let Err(error) = self.start(stream, access) {
                tracing::info!(%error, "a client could not connect");
            }
        }
        Ok(())
    }
}
