//! The connections of a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::net::closer::Closer;
use crate::net::stream::Stream;
use crate::server::failure::{Outcome, exhausted};
use crate::server::limits::GREETING;
use crate::wire::messages::{ClientStatus, Hello};

/// The connections of a server.
pub(crate) struct Sessions {
    open: Mutex<Open>,
    /// A connection ended.
    ended: Condvar,
    is_stopped: AtomicBool,
    max_clients: usize,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Connection>,
    next: u64,
}

struct Connection {
    closer: Arc<Closer>,
    /// The client, if its first message was accepted.
    client: Option<Admitted>,
}

struct Admitted {
    program: String,
    process: u32,
    since: Instant,
    held: Arc<Held>,
}

/// What a client holds.
#[derive(Default)]
pub(crate) struct Held {
    /// Number of buffers and executables.
    pub(crate) objects: AtomicUsize,
    /// Total size of the buffers on the host.
    pub(crate) bytes: AtomicU64,
}

impl Open {
    fn count(&self, is_client: bool) -> usize {
        self.connections.values().filter(|connection| connection.client.is_some() == is_client).count()
    }
}

/// A connection of [`Sessions`]. Dropping it removes the connection.
pub(crate) struct Opened {
    sessions: Arc<Sessions>,
    number: u64,
    pub(crate) closer: Arc<Closer>,
}

impl Sessions {
    pub(crate) fn new(max_clients: usize) -> Self {
        Self { open: Mutex::default(), ended: Condvar::new(), is_stopped: AtomicBool::new(false), max_clients }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Adds a connection whose first message has not arrived.
    ///
    /// # Errors
    ///
    /// Returns the reason why the server refuses the connection.
    pub(crate) fn add(self: &Arc<Self>, stream: &Stream) -> Outcome<Opened> {
        let mut open = self.lock();
        if open.count(false) >= GREETING {
            return Err(exhausted(&format!(
                "{GREETING} connections to the server have not sent their first message; try again in some seconds"
            )));
        }
        let stream =
            stream.try_clone().map_err(|error| exhausted(&format!("the server cannot add a client: {error}")))?;
        let closer = Arc::new(Closer::default());
        closer.add(stream);
        let number = open.next;
        open.next += 1;
        open.connections.insert(number, Connection { closer: Arc::clone(&closer), client: None });
        Ok(Opened { sessions: Arc::clone(self), number, closer })
    }

    /// Accepts no further connections.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Closes all connections, and waits at most `patience` until they have ended. Returns whether they have.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        self.stop();
        let open = self.lock();
        open.connections.values().for_each(|connection| connection.closer.close());
        let wait = self.ended.wait_timeout_while(open, patience, |open| !open.connections.is_empty());
        !wait.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Opened {
    /// Counts the connection as a client, and returns the counters of what it holds.
    ///
    /// # Errors
    ///
    /// Returns the reason why the server refuses the client.
    pub(crate) fn admit(&self, hello: &Hello) -> Outcome<Arc<Held>> {
        let mut open = self.sessions.lock();
        let (clients, max) = (open.count(true), self.sessions.max_clients);
        if clients >= max {
            return Err(exhausted(&format!(
                "{clients} clients are connected, and the server accepts {max}; end one, or start the server with a \
                 higher `pjrt serve --clients`"
            )));
        }
        let held = Arc::new(Held::default());
        if let Some(connection) = open.connections.get_mut(&self.number) {
            let (program, process) = (hello.program.clone(), hello.process);
            connection.client = Some(Admitted { program, process, since: Instant::now(), held: Arc::clone(&held) });
        }
        Ok(held)
    }

    /// Returns the clients of the server, in the order in which they connected.
    pub(crate) fn clients(&self) -> Vec<ClientStatus> {
        let open = self.sessions.lock();
        let mut clients: Vec<_> = open
            .connections
            .iter()
            .filter_map(|(number, connection)| Some((number, connection.client.as_ref()?)))
            .collect();
        clients.sort_by_key(|(number, _)| **number);
        let status = |client: &Admitted| ClientStatus {
            program: client.program.clone(),
            process: client.process,
            connected_ms: u64::try_from(client.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            objects: client.held.objects.load(Ordering::Relaxed) as u64,
            bytes: client.held.bytes.load(Ordering::Relaxed),
        };
        clients.into_iter().map(|(_, client)| status(client)).collect()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.sessions.lock().connections.remove(&self.number);
        self.sessions.ended.notify_all();
    }
}
