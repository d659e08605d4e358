//! Servers of key-value stores. Each test starts its own server.

use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The server programs that a test can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// A Redis server that writes no data files.
    Redis,
    /// A cluster of one etcd server.
    Etcd,
}

/// A server on a free port of this host. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    kind: ServerKind,
    process: Child,
    port: u16,
    folder: PathBuf,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl ServerKind {
    fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Etcd => "etcd",
        }
    }

    /// Starts a server on a free port. If the program is not installed, prints that `test` is skipped and returns
    /// `None`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start in five attempts.
    pub fn start(self, test: &str) -> Option<Server> {
        // Another program may take the port before the server binds it.
        for _ in 0..5 {
            let port = free_port();
            match self.start_on(port, &[]) {
                Ok(server) => return Some(server),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    println!("SKIPPED {test}: no program {}", self.program());
                    return None;
                }
                Err(error) => println!("{} on port {port}: {error}", self.program()),
            }
        }
        panic!("{} does not start", self.program());
    }

    /// Starts a server on the given port, with further arguments for its program.
    ///
    /// # Errors
    ///
    /// Returns an error if the program is not installed, or if it ends before it is ready.
    pub fn start_on(self, port: u16, arguments: &[&str]) -> io::Result<Server> {
        let count = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("pjrt-{}-{}-{count}", self.program(), std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)?;
        let (output, input) = io::pipe()?;
        let mut command = Command::new(self.program());
        match self {
            Self::Redis => {
                command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
                command.arg("--dir");
            }
            Self::Etcd => {
                let client = format!("http://127.0.0.1:{port}");
                command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
                command.args(["--listen-peer-urls", "http://127.0.0.1:0", "--logger", "zap", "--data-dir"]);
            }
        }
        command.arg(&folder).args(arguments).stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let process = command.spawn();
        // The command owns the ends of the pipe to which the server writes. Close them, so that reading ends when the
        // server ends.
        drop(command);
        let mut server = match process {
            Ok(process) => Server { kind: self, process, port, folder },
            Err(error) => {
                std::fs::remove_dir_all(&folder)?;
                return Err(error);
            }
        };
        let mut lines = BufReader::new(output).lines();
        let ready = match self {
            Self::Redis => "Ready to accept connections",
            Self::Etcd => "serving client traffic",
        };
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains(ready));
        // Keep reading, because the server would block if the pipe were full.
        std::thread::spawn(move || lines.for_each(drop));
        if is_ready {
            Ok(server)
        } else {
            let status = server.process.wait()?;
            Err(io::Error::other(format!("it ended: {status}")))
        }
    }
}

impl Server {
    /// Returns the port for clients of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address for clients of the server.
    pub fn address(&self) -> String {
        let scheme = match self.kind {
            ServerKind::Redis => "redis",
            ServerKind::Etcd => "http",
        };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Stops all threads of the server with `SIGSTOP`, so that it answers no request until [`resume`](Self::resume).
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be stopped.
    #[cfg(unix)]
    pub fn stop(&self) {
        use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};
        let process = self.process_id();
        kill_process(process, Signal::STOP).expect("the signal is sent");
        // After the signal is sent, threads of the server may still run. The status changes when the last one stops.
        let status =
            waitid(WaitId::Pid(process), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let status = status.expect("the server is a child process").expect("the call waits for a change");
        assert!(status.stopped(), "the server ended: {status:?}");
    }

    /// Resumes a stopped server.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be resumed.
    #[cfg(unix)]
    pub fn resume(&self) {
        rustix::process::kill_process(self.process_id(), rustix::process::Signal::CONT).expect("the signal is sent");
    }

    #[cfg(unix)]
    fn process_id(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns a port of this host that no program uses at the time of the call.
///
/// # Panics
///
/// Panics if the host has no free port.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("the listener has an address").port()
}
