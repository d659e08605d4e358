//! A Redis server for a single test.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server on a free port of this host. It stores no files, and ends when this value is dropped.
pub(crate) struct RedisServer {
    process: Child,
    port: u16,
    folder: PathBuf,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl RedisServer {
    /// Starts a server. Returns `None` and prints a line if the program is not installed.
    pub(crate) fn start(test: &str) -> Option<Self> {
        // Another program may take the port before the server does.
        for _ in 0..5 {
            let port = free_port();
            match Self::start_on(port, &[]) {
                Ok(server) => return Some(server),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    println!("SKIPPED {test}: no program redis-server");
                    return None;
                }
                Err(error) => println!("redis-server on port {port}: {error}"),
            }
        }
        panic!("redis-server does not start");
    }

    /// Starts a server on that port, with further arguments.
    pub(crate) fn start_on(port: u16, arguments: &[&str]) -> std::io::Result<Self> {
        let count = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
            .arg(&folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
        // The server would block if its pipe were full.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self { process, port, folder };
        if ready { Ok(server) } else { Err(std::io::Error::other("it ended")) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
