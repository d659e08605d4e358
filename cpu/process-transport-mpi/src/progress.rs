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

use crate::block::{Block, Blocks};

/// A message of at most this number of bytes is sent together with its header.
const SMALL: usize = 64 << 10;
/// Maximum size in bytes of a chunk. A message larger than [`SMALL`] is split into chunks, each of which is one MPI
/// message, because MPI counts bytes in 31 bits.
///
/// With smaller chunks, the copy of one chunk would overlap with the transfer of the previous one. However, all-reduces
/// on busy cores take longer with chunks of 512 KiB to 8 MiB than with this size.
const CHUNK: usize = 32 << 20;
/// Limit of the unsent bytes for one process. If it is reached, [`Queue::send`] waits before it adds another
/// large message.
const WINDOW: usize = 64 << 20;
/// How long the thread polls for messages without sleeping after the latest message.
const BUSY: Duration = Duration::from_micros(300);
/// How long the thread sleeps between two polls after [`BUSY`] has passed. A message to be sent ends the sleep.
const PAUSE: Duration = Duration::from_micros(100);
/// Maximum depth of recursion of [`Progress::send`]. Each level sends the messages that were added during the level
/// above.
const MAX_SEND_DEPTH: usize = 16;
/// Maximum time that a dropped transport waits for the other processes to drop their transports.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// Number of transports of this process that use MPI. A thread holds the lock while it finalizes MPI.
static USERS: Mutex<usize> = Mutex::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lock is never poisoned, because no code here panics while it holds a lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An MPI message to be sent.
pub(crate) struct Outgoing {
    pub(crate) to: usize,
    pub(crate) bytes: Block,
}

/// A reader of the concatenated bytes of several parts.
struct Parts<'a> {
    /// The unread bytes of the current part.
    now: &'a [u8],
    next: std::slice::Iter<'a, &'a [u8]>,
}

impl Parts<'_> {
    /// Fills `to` with the next bytes.
    fn copy_to(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            let count = self.now.len().min(to.len());
            let (first, rest) = self.now.split_at(count);
            let (place, left) = to.split_at_mut(count);
            place.copy_from_slice(first);
            (self.now, to) = (rest, left);
            if self.now.is_empty() {
                let Some(next) = self.next.next() else { return };
                self.now = next;
            }
        }
    }
}

/// Requests from the callers to the MPI thread.
pub(crate) struct Queue {
    state: Mutex<Requests>,
    /// Wakes the MPI thread.
    changed: Condvar,
    /// Wakes the threads in [`Queue::wait`].
    sent: Condvar,
    /// For each process, a lock that a thread holds while it adds a message to this process. The chunks of a message
    /// therefore follow its header without other messages in between.
    senders: Vec<Mutex<()>>,
    blocks: Blocks,
}

struct Requests {
    outgoing: Vec<Outgoing>,
    /// For each process, the number of bytes in `outgoing` and in MPI requests that have not ended.
    unsent: Vec<usize>,
    /// Whether a process does not read its messages. The counts in `unsent` may then be too large, so senders no longer
    /// wait.
    has_stalled: bool,
    /// Time at which the transport was dropped.
    ended: Option<Instant>,
}

impl Queue {
    /// Creates the queue of one process of a group of `size` processes.
    pub(crate) fn new(size: usize) -> Self {
        let state = Requests { outgoing: Vec::new(), unsent: vec![0; size], has_stalled: false, ended: None };
        let senders = (0..size).map(|_| Mutex::new(())).collect();
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            sent: Condvar::new(),
            senders,
            blocks: Blocks::default(),
        }
    }

    /// Adds a message. If the message is larger than [`SMALL`] and [`WINDOW`] bytes for the process are unsent, waits
    /// until some of them are sent or a process counts as lost.
    pub(crate) fn send(&self, to: usize, header: Header, parts: &[&[u8]]) {
        let Some(sender) = self.senders.get(to) else { return };
        let len = parts.iter().map(|part| part.len()).sum();
        let mut bytes = header.encode(len).to_vec();
        let mut parts = Parts { now: &[], next: parts.iter() };
        if len > SMALL {
            // Wait before taking the lock, so that a failure is reported without this wait.
            self.wait(to);
        }
        let _sender = lock(sender);
        if len <= SMALL {
            bytes.resize(Header::SIZE + len, 0);
            parts.copy_to(bytes.get_mut(Header::SIZE..).unwrap_or_default());
        }
        self.push(Outgoing { to, bytes: Block::Small(bytes) });
        if len <= SMALL {
            return;
        }
        let mut left = len;
        while left > 0 {
            let size = left.min(CHUNK);
            let bytes = self.blocks.filled(size, |bytes| parts.copy_to(bytes));
            self.push(Outgoing { to, bytes });
            left -= size;
        }
    }

    /// Waits until less than [`WINDOW`] bytes for the process are unsent. The wait always ends, because the MPI thread
    /// calls [`release`](Self::release) or [`stall`](Self::stall).
    fn wait(&self, to: usize) {
        let mut state = lock(&self.state);
        while !state.has_stalled && state.unsent.get(to).is_some_and(|unsent| *unsent >= WINDOW) {
            state = self.sent.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn push(&self, message: Outgoing) {
        let mut state = lock(&self.state);
        if let Some(unsent) = state.unsent.get_mut(message.to) {
            *unsent += message.bytes.len();
        }
        state.outgoing.push(message);
        self.changed.notify_all();
    }

    /// Records that `bytes` bytes for a process are sent, or are dropped because the process is lost.
    fn release(&self, to: usize, bytes: usize) {
        if let Some(unsent) = lock(&self.state).unsent.get_mut(to) {
            *unsent = unsent.saturating_sub(bytes);
        }
        self.sent.notify_all();
    }

    /// Ends all current and later calls of [`wait`](Self::wait), because a process does not read its messages.
    fn stall(&self) {
        lock(&self.state).has_stalled = true;
        self.sent.notify_all();
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
        } else {
            drop(state);
            std::thread::yield_now();
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
        has_lied: vec![false; size],
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
    /// For each process, whether it has sent bytes that are not messages of this transport.
    has_lied: Vec<bool>,
    /// Time at which the latest message was sent or received.
    latest: Instant,
    /// Current depth of recursion of [`Progress::send`].
    depth: usize,
}

struct Partial {
    header: Header,
    body: Vec<u8>,
    /// Number of bytes of the whole message, as its header claims.
    size: usize,
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
        } else {
            self.rest(self.latest);
        }
    }

    /// Yields to other threads or sleeps. `latest` is the time of the latest progress.
    fn rest(&self, latest: Instant) {
        if latest.elapsed() < BUSY {
            std::thread::yield_now();
        } else {
            self.queue.pause();
        }
    }

    /// Sends messages. Meanwhile, receives messages, and calls itself to send messages that are added to the queue.
    ///
    /// A process that does not read its messages counts as lost. MPI may still read the memory of the unread messages,
    /// so this method then does the remaining work of the thread and never returns.
    fn send(&mut self, outgoing: Vec<Outgoing>) {
        // The requests borrow the communicator only while they start, and the messages until the requests have ended.
        request::scope(|scope| {
            let mut requests = VecDeque::new();
            for message in &outgoing {
                match i32::try_from(message.to) {
                    Ok(rank) if self.reads(message.to) => {
                        let process = self.communicator.process_at_rank(rank);
                        requests.push_back((message, process.immediate_send(scope, &message.bytes[..])));
                    }
                    _ => self.queue.release(message.to, message.bytes.len()),
                }
            }
            let mut start = Instant::now();
            while !requests.is_empty() {
                let before = requests.len();
                for _ in 0..before {
                    let Some((message, request)) = requests.pop_front() else { break };
                    match request.test() {
                        Ok(_) => self.queue.release(message.to, message.bytes.len()),
                        Err(request) => requests.push_back((message, request)),
                    }
                }
                if requests.len() < before {
                    start = Instant::now();
                }
                if self.receive() {
                    start = Instant::now();
                } else {
                    self.rest(start);
                }
                if self.depth < MAX_SEND_DEPTH {
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
                    for (message, _) in &requests {
                        self.inbox.lose(message.to, "it does not read its messages");
                    }
                    self.queue.stall();
                    self.run();
                    // The memory of the messages must stay valid until MPI has ended the requests, which may never
                    // happen.
                    loop {
                        std::thread::park();
                    }
                }
            }
        });
        outgoing.into_iter().for_each(|message| self.queue.blocks.put(message.bytes));
    }

    /// Receives one MPI message, if one has arrived. Returns whether a message had arrived.
    fn receive(&mut self) -> bool {
        let Some((message, status)) = self.communicator.any_process().immediate_matched_probe() else {
            return false;
        };
        let Ok(from) = usize::try_from(status.source_rank()) else { return true };
        let len = usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0);
        let (Some(place), Some(false)) = (self.partial.get_mut(from), self.has_lied.get(from)) else {
            // MPI frees a message only when it is received.
            message.matched_receive_into(&mut vec![0; len][..]);
            return true;
        };
        if let Some(partial) = place {
            let end = partial.filled.saturating_add(len);
            let missing = end.saturating_sub(partial.body.len());
            if len == 0 || end > partial.size || partial.body.try_reserve_exact(missing).is_err() {
                message.matched_receive_into(&mut vec![0; len][..]);
                return self.refuse(from, "it sent more than its message, or there is no memory for the message");
            }
            // In reused memory, this initializes only the bytes that no earlier message has written.
            partial.body.resize(end.max(partial.body.len()), 0);
            message.matched_receive_into(partial.body.get_mut(partial.filled..end).unwrap_or_default());
            partial.filled = end;
            if partial.filled == partial.size
                && let Some(Partial { header, mut body, size, .. }) = place.take()
            {
                body.truncate(size);
                self.deliver(from, header, body);
            }
            return true;
        }
        let mut bytes = vec![0; len];
        message.matched_receive_into(&mut bytes[..]);
        let decoded = bytes.first_chunk().and_then(Header::decode);
        let Some((header, size)) = decoded else {
            return self.refuse(from, Header::UNKNOWN);
        };
        if size <= SMALL && bytes.len() == Header::SIZE + size {
            bytes.drain(..Header::SIZE);
            self.deliver(from, header, bytes);
            return true;
        }
        if size <= SMALL || bytes.len() != Header::SIZE {
            return self.refuse(from, "it sent a message whose size differs from the size in its header");
        }
        // The sender chooses `size`. New memory is therefore allocated as the chunks arrive.
        *place = Some(Partial { header, body: self.inbox.memory(size), size, filled: 0 });
        true
    }

    /// Ends the connection to a process that does not keep the protocol. Later messages of the process are dropped.
    fn refuse(&mut self, from: usize, why: &str) -> bool {
        self.inbox.lose(from, why);
        if let (Some(place), Some(has_lied)) = (self.partial.get_mut(from), self.has_lied.get_mut(from)) {
            (*place, *has_lied) = (None, true);
        }
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
