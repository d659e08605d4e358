//! The thread that makes all MPI calls.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::environment::{self, Universe};
use mpi::request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, Destination as _, Equivalence as _, Source as _};
use process_transport::{Error, Header, Inbox};

/// A message of at most this number of bytes is sent together with its header.
const SMALL: usize = 64 << 10;
/// Maximum number of bytes of one MPI message. MPI counts bytes in 31 bits.
const CHUNK: usize = 16 << 20;
/// How long the thread polls for messages without sleeping after the latest message.
const BUSY: Duration = Duration::from_millis(1);
/// How long the thread sleeps between two polls after [`BUSY`] has passed. A message to be sent ends the sleep.
const PAUSE: Duration = Duration::from_micros(100);
/// Maximum number of nested calls of [`Progress::send`].
const DEPTH: usize = 16;
/// Maximum time that a dropped transport waits for the other processes to drop their transports.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// Number of transports of this process that use MPI. A thread holds the lock while it finalizes MPI.
static USERS: Mutex<usize> = Mutex::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lock is never poisoned, because no code here panics while it holds a lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message to be sent.
pub(crate) struct Outgoing {
    pub(crate) to: usize,
    /// The header, and the bytes of a small message.
    first: Vec<u8>,
    /// The bytes of a large message.
    rest: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(to: usize, header: Header, parts: &[&[u8]], inbox: &Inbox) -> Self {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut first = header.encode(len).to_vec();
        let mut rest = if len <= SMALL { Vec::new() } else { inbox.memory(len).unwrap_or_default() };
        rest.clear();
        let body = if len <= SMALL { &mut first } else { &mut rest };
        body.reserve_exact(len);
        parts.iter().for_each(|part| body.extend_from_slice(part));
        Self { to, first, rest }
    }
}

/// Requests from the callers to the MPI thread.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<Requests>,
    changed: Condvar,
}

#[derive(Default)]
struct Requests {
    outgoing: Vec<Outgoing>,
    /// Time at which the transport was dropped.
    ended: Option<Instant>,
}

impl Queue {
    pub(crate) fn push(&self, messages: impl IntoIterator<Item = Outgoing>) {
        lock(&self.state).outgoing.extend(messages);
        self.changed.notify_all();
    }

    pub(crate) fn end(&self) {
        lock(&self.state).ended = Some(Instant::now());
        self.changed.notify_all();
    }

    fn take(&self) -> (Vec<Outgoing>, Option<Instant>) {
        let mut state = lock(&self.state);
        (mem::take(&mut state.outgoing), state.ended)
    }

    fn pause(&self) {
        let state = lock(&self.state);
        if state.outgoing.is_empty() {
            drop(self.changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// A user of MPI, counted in [`USERS`].
struct User;

impl User {
    fn new() -> Self {
        *lock(&USERS) += 1;
        Self
    }

    /// Removes this user. Finalizes MPI if this thread initialized MPI and no other user is left.
    fn finish(self, universe: Option<Universe>) {
        let mut users = lock(&USERS);
        if *users == 1 {
            drop(universe);
        } else {
            mem::forget(universe);
        }
        *users -= 1;
        mem::forget(self);
    }
}

impl Drop for User {
    fn drop(&mut self) {
        *lock(&USERS) -= 1;
    }
}

/// The inputs that the MPI thread needs to send and receive messages.
pub(crate) struct Task {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) queue: Arc<Queue>,
    /// Maximum time that a process may leave its messages unread before it counts as lost.
    pub(crate) stall: Duration,
    /// Channel on which the thread reports that messages can be sent.
    pub(crate) ready: Sender<()>,
}

/// Initializes MPI and runs the task. Sends the rank and the number of processes to `started`.
pub(crate) fn run(started: &Sender<Result<(usize, usize), Error>>, tasks: &Receiver<Task>) {
    let user = User::new();
    let (universe, world) = match start() {
        Ok(started) => started,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let number = |number| usize::try_from(number).unwrap_or(0);
    let _ = started.send(Ok((number(world.rank()), number(world.size()))));
    let Ok(task) = tasks.recv() else {
        // The other processes may not have initialized MPI, and `MPI_Finalize` would wait for them.
        mem::forget(universe);
        return;
    };
    // Use a separate communicator, so that messages of the rest of the program are not received here.
    let communicator = world.duplicate();
    let _ = task.ready.send(());
    let size = number(communicator.size());
    let mut progress = Progress {
        communicator,
        inbox: task.inbox,
        queue: task.queue,
        stall: task.stall,
        partial: (0..size).map(|_| None).collect(),
        has_left: (0..size).map(|rank| rank == number(world.rank())).collect(),
        latest: Instant::now(),
        depth: 0,
    };
    let all_left = progress.run();
    if all_left {
        drop(progress);
        user.finish(universe);
    } else {
        // `MPI_Comm_free` and `MPI_Finalize` may wait for the missing processes.
        mem::forget(progress);
        mem::forget(universe);
    }
}

/// Initializes MPI, or uses the MPI environment that the program initialized.
fn start() -> Result<(Option<Universe>, SimpleCommunicator), Error> {
    if environment::is_finalized() {
        return Err(Error::Invalid(
            "MPI was finalized in this process and cannot start again; create all clients before the first one ends, or \
             start MPI in the program and finalize it at its end"
                .to_owned(),
        ));
    }
    if let Some((universe, _)) = environment::initialize_with_threading(Threading::Multiple) {
        return Ok((Some(universe), SimpleCommunicator::world()));
    }
    let threading = environment::threading_support();
    if threading != Threading::Multiple {
        return Err(Error::Invalid(format!(
            "the program started MPI with the thread support {threading:?}, and the transport needs \
             MPI_THREAD_MULTIPLE; call MPI_Init_thread with it, or create the client before MPI starts"
        )));
    }
    Ok((None, SimpleCommunicator::world()))
}

struct Progress {
    communicator: SimpleCommunicator,
    inbox: Arc<Inbox>,
    queue: Arc<Queue>,
    stall: Duration,
    /// For each process, the large message that has partly arrived from it.
    partial: Vec<Option<Partial>>,
    /// For each process, whether it has dropped its transport. True for this process.
    has_left: Vec<bool>,
    /// Time at which the latest message was sent or received.
    latest: Instant,
    /// Number of calls of [`Progress::send`] in which the thread starts to send further messages.
    depth: usize,
}

struct Partial {
    header: Header,
    body: Vec<u8>,
    filled: usize,
}

impl Progress {
    /// Sends and receives until the transport ends. Returns whether all processes dropped their transports.
    fn run(&mut self) -> bool {
        loop {
            let (outgoing, ended) = self.queue.take();
            if !outgoing.is_empty() {
                self.latest = Instant::now();
                self.send(outgoing);
            } else if ended.is_some() && self.has_left.iter().all(|has_left| *has_left) {
                return true;
            } else if ended.is_some_and(|ended| ended.elapsed() > FAREWELL || self.misses_a_process()) {
                return false;
            }
            self.look();
        }
    }

    /// Returns whether a process was lost before it dropped its transport.
    fn misses_a_process(&self) -> bool {
        (0..).zip(&self.has_left).any(|(rank, has_left)| !has_left && self.inbox.expect_present(rank).is_err())
    }

    /// Returns whether a process still reads its messages. A process that has dropped its transport reads messages
    /// until the other processes have dropped their transports.
    fn reads(&self, rank: usize) -> bool {
        self.inbox.expect_present(rank).is_ok() || self.has_left.get(rank) == Some(&true)
    }

    /// Receives a message. If none has arrived, yields to other threads or sleeps.
    fn look(&mut self) {
        if self.receive() {
            self.latest = Instant::now();
        } else if self.latest.elapsed() < BUSY {
            std::thread::yield_now();
        } else {
            self.queue.pause();
        }
    }

    /// Sends messages. Meanwhile receives messages, and starts to send further messages of the queue. A process that does not read its messages counts as lost. MPI
    /// may still read the memory of the unread messages, so this method then does the remaining work of the thread and
    /// never returns.
    fn send(&mut self, outgoing: Vec<Outgoing>) {
        // The requests borrow the communicator only while they start, and the messages until the requests have ended.
        request::scope(|scope| {
            let mut requests = VecDeque::new();
            for message in outgoing.iter().filter(|message| self.reads(message.to)) {
                let Ok(rank) = i32::try_from(message.to) else { continue };
                let process = self.communicator.process_at_rank(rank);
                for bytes in std::iter::once(&message.first[..]).chain(message.rest.chunks(CHUNK)) {
                    requests.push_back((message.to, process.immediate_send(scope, bytes)));
                }
            }
            let mut start = Instant::now();
            while !requests.is_empty() {
                let before = requests.len();
                for _ in 0..before {
                    let Some((to, request)) = requests.pop_front() else { break };
                    if let Err(request) = request.test() {
                        requests.push_back((to, request));
                    }
                }
                if requests.len() < before {
                    start = Instant::now();
                }
                if self.receive() {
                    start = Instant::now();
                } else {
                    std::thread::yield_now();
                }
                if self.depth < DEPTH {
                    let (more, _) = self.queue.take();
                    if !more.is_empty() {
                        self.depth += 1;
                        self.send(more);
                        self.depth -= 1;
                        start = Instant::now();
                    }
                }
                let ended = lock(&self.queue.state).ended;
                let stall = if ended.is_some() { self.stall.min(FAREWELL) } else { self.stall };
                if start.elapsed() > stall {
                    for (to, _) in &requests {
                        self.inbox.lose(*to, "it does not read its messages");
                    }
                    self.run();
                    // The memory of the messages must stay valid until MPI has ended the requests, which may never
                    // happen.
                    loop {
                        std::thread::park();
                    }
                }
            }
        });
        outgoing.into_iter().for_each(|message| self.inbox.recycle(message.rest));
    }

    /// Receives one MPI message, if one has arrived. Returns whether a message had arrived.
    fn receive(&mut self) -> bool {
        let Some((message, status)) = self.communicator.any_process().immediate_matched_probe() else {
            return false;
        };
        let Ok(from) = usize::try_from(status.source_rank()) else { return true };
        let len = usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0);
        let Some(place) = self.partial.get_mut(from) else { return true };
        if let Some(partial) = place {
            let end = partial.filled.saturating_add(len);
            if let Some(bytes) = partial.body.get_mut(partial.filled..end) {
                message.matched_receive_into(bytes);
                partial.filled = end;
            }
            if partial.filled == partial.body.len()
                && let Some(Partial { header, body, .. }) = place.take()
            {
                self.deliver(from, header, body);
            }
            return true;
        }
        let mut bytes = vec![0; len];
        message.matched_receive_into(&mut bytes[..]);
        let decoded = bytes.first_chunk().and_then(Header::decode);
        let Some((header, size)) = decoded else {
            self.inbox.lose(from, Header::UNKNOWN);
            return true;
        };
        if bytes.len() == Header::SIZE + size {
            bytes.drain(..Header::SIZE);
            self.deliver(from, header, bytes);
            return true;
        }
        let Ok(mut body) = self.inbox.memory(size) else {
            self.inbox.lose(from, "there is no memory for its message");
            return true;
        };
        // In reused memory, this does not write the bytes that an earlier message has initialized.
        body.resize(size, 0);
        *place = Some(Partial { header, body, filled: 0 });
        true
    }

    fn deliver(&mut self, from: usize, header: Header, body: Vec<u8>) {
        if !self.inbox.accept(from, header, body)
            && let Some(has_left) = self.has_left.get_mut(from)
        {
            *has_left = true;
        }
    }
}
