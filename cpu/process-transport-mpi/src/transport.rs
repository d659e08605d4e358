//! The public types of the transport over MPI.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use process_transport::{Error, Header, Inbox, Kind, Stream, Transport};

use crate::progress::{self, FAREWELL, Queue, Task};

/// Default for the maximum time that a process may leave its messages unread before it counts as lost.
const STALL: Duration = Duration::from_secs(60);
/// Size in bytes into which to divide a large transfer. With messages of 1 MiB or 32 MiB, an all-reduce of 64 MiB takes
/// 1.3 to 1.5 times as long.
const MESSAGE: usize = 4 << 20;

/// A process in which MPI is initialized, before it is connected to the other processes.
#[derive(Debug)]
pub struct MpiProcess {
    rank: usize,
    size: usize,
    address: String,
    stall: Duration,
    tasks: Sender<Task>,
    thread: JoinHandle<()>,
}

/// Returns the address of a process. MPI itself connects the processes, so they only compare addresses.
fn address(rank: usize, size: usize) -> String {
    format!("mpi1 {rank} {size}")
}

impl MpiProcess {
    /// Initializes MPI in a new thread. If the program has already initialized MPI, it must have requested
    /// `MPI_THREAD_MULTIPLE`, and must finalize MPI itself.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] if MPI was finalized before or does not allow calls from several threads. Returns
    /// [`Error::System`] if the thread cannot start. If MPI cannot start, MPI itself ends the program.
    pub fn start() -> Result<Self, Error> {
        let (started, start) = channel();
        let (tasks, task) = channel();
        let thread = Builder::new().name("MPI".to_owned()).spawn(move || progress::run(&started, &task));
        let thread = thread.map_err(|error| Error::System(format!("a thread for MPI: {error}")))?;
        let (rank, size) =
            start.recv().map_err(|_| Error::System("the thread for MPI ended when MPI started".to_owned()))??;
        Ok(Self { rank, size, address: address(rank, size), stall: STALL, tasks, thread })
    }

    /// Sets how long a process may leave its messages unread before it counts as lost. The default is 60 s.
    #[must_use]
    pub fn with_stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall = timeout;
        self
    }

    /// Returns the rank and the number of processes in MPI, as a string for the other processes.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects this process to all other processes. `addresses` contains the addresses of all processes, in the order
    /// of their ranks. Every process must call this method.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] if a rank or the number of processes differs from MPI's. Returns [`Error::System`] if
    /// MPI does not connect the processes in time.
    pub fn connect(self, rank: usize, addresses: &[String], timeout: Duration) -> Result<MpiTransport, Error> {
        let size = addresses.len();
        if (rank, size) != (self.rank, self.size) {
            return Err(Error::Invalid(format!(
                "this is process {rank} of {size}, and MPI has it as process {} of {}; start all processes with mpirun \
                 -n {size}, and let each use its rank of MPI",
                self.rank, self.size
            )));
        }
        if let Some((other, theirs)) = (0..).zip(addresses).find(|(other, text)| **text != address(*other, size)) {
            return Err(Error::Invalid(format!(
                "process {other} of {size} has the address {theirs:?}, and MPI gives it {:?}; let all processes use MPI, \
                 start them with one mpirun -n {size}, and let each use its rank of MPI",
                address(other, size)
            )));
        }
        let (inbox, queue) = (Arc::new(Inbox::new(size)), Arc::new(Queue::new(size)));
        let (ready, wait) = channel();
        let task = Task { inbox: Arc::clone(&inbox), queue: Arc::clone(&queue), stall: self.stall, ready };
        let ended = || Error::System("the thread for MPI has ended".to_owned());
        self.tasks.send(task).map_err(|_| ended())?;
        wait.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => ended(),
            RecvTimeoutError::Timeout => Error::System(format!(
                "MPI_Comm_dup did not return within {} s; a process has ended, or does not use MPI",
                timeout.as_secs_f32()
            )),
        })?;
        Ok(MpiTransport { rank, size, inbox, queue, thread: Some(self.thread) })
    }
}

/// A [`Transport`] over MPI.
///
/// One thread makes all MPI calls. When the transport is dropped, it waits up to 10 s for the other processes to drop
/// their transports. MPI is finalized only if this transport initialized it, no other transport of this process uses
/// it, and all processes have dropped their transports.
///
/// MPI does not report killed processes. By default, `mpirun` ends all processes when one is killed. If it is
/// configured not to do so, the other processes get [`Error::Timeout`], or [`Error::Lost`] after a call of
/// [`Transport::lose`].
pub struct MpiTransport {
    rank: usize,
    size: usize,
    inbox: Arc<Inbox>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn message_size(&self) -> usize {
        MESSAGE
    }

    fn send(&self, to: usize, stream: Stream, tag: u64, parts: &[&[u8]]) -> Result<(), Error> {
        if to == self.rank {
            return Err(Error::Invalid(format!("process {to} has no connection to itself")));
        }
        self.inbox.expect_present(to)?;
        let header = Header { kind: Kind::Message, stream, tag };
        self.queue.send(to, header, parts);
        self.inbox.expect_present(to)
    }

    fn receive(&self, from: usize, stream: Stream, tag: u64, deadline: Instant) -> Result<Vec<u8>, Error> {
        self.inbox.receive(from, stream, tag, deadline)
    }

    fn recycle(&self, message: Vec<u8>) {
        self.inbox.recycle(message);
    }

    fn fail(&self, stream: Stream, peers: &[usize], why: &str) {
        self.inbox.fail(stream, Error::Stopped(why.to_owned()));
        let header = Header { kind: Kind::Failure, stream, tag: 0 };
        let others = peers.iter().filter(|peer| **peer != self.rank && **peer < self.size);
        others.for_each(|peer| self.queue.send(*peer, header, &[why.as_bytes()]));
    }

    fn close(&self, stream: Stream) {
        self.inbox.close(stream);
    }

    fn lose(&self, rank: usize, why: &str) {
        self.inbox.lose(rank, why);
    }
}

impl Drop for MpiTransport {
    fn drop(&mut self) {
        let goodbye = Header { kind: Kind::Goodbye, stream: Stream::default(), tag: 0 };
        let others = (0..self.size).filter(|rank| *rank != self.rank);
        others.for_each(|rank| self.queue.send(rank, goodbye, &[]));
        self.queue.end();
        // An MPI call may wait for a process that has ended. After the deadline, leave the thread running.
        let deadline = Instant::now() + FAREWELL + Duration::from_secs(2);
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for MpiTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpiTransport").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}
