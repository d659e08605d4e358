//! Messages that have arrived, and the state of the other processes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::frame::{Header, Kind};
use crate::memory::Memory;
use crate::transport::Stream;

/// Messages that have arrived, for implementations of [`Transport`](crate::Transport).
///
/// Threads that read from connections add messages, and callers of [`receive`](Self::receive) remove them.
pub struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    memory: Memory,
}

struct State {
    streams: HashMap<Stream, Arrived>,
    closed: HashMap<u64, Closed>,
    /// For each process, the reason why no more messages arrive from it. `None` if the process is not lost.
    lost: Vec<Option<String>>,
}

#[derive(Default)]
struct Arrived {
    /// Messages by sender and tag, in the order of their arrival.
    messages: HashMap<(usize, u64), VecDeque<Vec<u8>>>,
    failure: Option<Error>,
}

/// The numbers of the closed streams of a lane.
#[derive(Default)]
struct Closed {
    /// All streams with smaller numbers are closed.
    below: u64,
    above: BTreeSet<u64>,
}

impl Closed {
    fn contains(&self, number: u64) -> bool {
        number < self.below || self.above.contains(&number)
    }

    fn insert(&mut self, number: u64) {
        if number >= self.below {
            self.above.insert(number);
        }
        while self.above.remove(&self.below) {
            self.below += 1;
        }
    }
}

impl State {
    /// Returns the messages of a stream, or `None` if the stream is closed.
    fn open(&mut self, stream: Stream) -> Option<&mut Arrived> {
        if self.closed.get(&stream.lane).is_some_and(|closed| closed.contains(stream.number)) {
            return None;
        }
        Some(self.streams.entry(stream).or_default())
    }
}

impl Inbox {
    /// Creates the inbox of one process of a group of `size` processes.
    pub fn new(size: usize) -> Self {
        let state = State { streams: HashMap::new(), closed: HashMap::new(), lost: vec![None; size] };
        Self { state: Mutex::new(state), changed: Condvar::new(), memory: Memory::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The lock is never poisoned, because no code here panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a buffer for a message of `len` bytes. Its length and its contents are arbitrary. If no memory was kept
    /// for such a message, the buffer is empty and has no capacity. Let it grow with the bytes that arrive, because the
    /// sender of a header can claim any size.
    pub fn memory(&self, len: usize) -> Vec<u8> {
        self.memory.take(len)
    }

    /// Keeps the memory of a large message for later calls of [`memory`](Self::memory). The inbox keeps at most
    /// 256 MiB, and frees the memory of small messages.
    pub fn recycle(&self, message: Vec<u8>) {
        self.memory.put(message);
    }

    /// Handles a frame of another process. Returns whether more frames may follow.
    pub fn accept(&self, from: usize, header: Header, body: Vec<u8>) -> bool {
        match header.kind {
            Kind::Message => self.deliver(from, header.stream, header.tag, body),
            Kind::Failure => {
                let why = String::from_utf8_lossy(&body).into_owned();
                self.fail(header.stream, Error::Failed { rank: from, why });
            }
            Kind::Goodbye => {
                self.lose(from, "it has destroyed its client");
                return false;
            }
        }
        true
    }

    /// Adds a message, or drops it if the stream is closed.
    pub fn deliver(&self, from: usize, stream: Stream, tag: u64, message: Vec<u8>) {
        if let Some(arrived) = self.lock().open(stream) {
            arrived.messages.entry((from, tag)).or_default().push_back(message);
        }
        self.changed.notify_all();
    }

    /// Records the failure of a stream. Ignores the failure if the stream is closed or has an earlier failure.
    pub fn fail(&self, stream: Stream, failure: Error) {
        if let Some(arrived) = self.lock().open(stream) {
            arrived.failure.get_or_insert(failure);
        }
        self.changed.notify_all();
    }

    /// Frees the messages of a stream, and drops messages of the stream that arrive later.
    pub fn close(&self, stream: Stream) {
        let mut state = self.lock();
        state.streams.remove(&stream);
        state.closed.entry(stream.lane).or_default().insert(stream.number);
        drop(state);
        self.changed.notify_all();
    }

    /// Records the reason why a process sends no more messages. Ignores all reasons but the first.
    pub fn lose(&self, rank: usize, why: &str) {
        if let Some(lost) = self.lock().lost.get_mut(rank) {
            lost.get_or_insert_with(|| why.to_owned());
        }
        self.changed.notify_all();
    }

    /// Checks that messages may still arrive from a process.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Lost`] if the process is lost, and [`Error::Invalid`] if it does not exist.
    pub fn expect_present(&self, rank: usize) -> Result<(), Error> {
        present(&self.lock(), rank)
    }

    /// Waits for a message, as [`Transport::receive`](crate::Transport::receive) does.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Transport::receive`](crate::Transport::receive) does.
    pub fn receive(&self, from: usize, stream: Stream, tag: u64, deadline: Instant) -> Result<Vec<u8>, Error> {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            let Some(arrived) = state.open(stream) else {
                return Err(Error::Stopped("the stream was closed".to_owned()));
            };
            if let Some(failure) = &arrived.failure {
                return Err(failure.clone());
            }
            if let Some(queue) = arrived.messages.get_mut(&(from, tag))
                && let Some(message) = queue.pop_front()
            {
                if queue.is_empty() {
                    arrived.messages.remove(&(from, tag));
                }
                return Ok(message);
            }
            present(&state, from)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Timeout { rank: from, waited: start.elapsed() });
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

fn present(state: &State, rank: usize) -> Result<(), Error> {
    match state.lost.get(rank) {
        Some(None) => Ok(()),
        Some(Some(why)) => Err(Error::Lost { rank, why: why.clone() }),
        None => Err(Error::Invalid(format!("there is no process {rank} among {}", state.lost.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stream(number: u64) -> Stream {
        Stream { lane: 5, number }
    }

    fn now(inbox: &Inbox, number: u64) -> Result<Vec<u8>, Error> {
        inbox.receive(1, stream(number), 0, Instant::now())
    }

    #[test]
    fn messages_keep_their_order() {
        let inbox = Inbox::new(2);
        for byte in 0..3 {
            inbox.deliver(1, stream(0), 0, vec![byte]);
        }
        inbox.deliver(1, stream(0), 9, vec![9]);
        assert_eq!([now(&inbox, 0), now(&inbox, 0), now(&inbox, 0)], [0, 1, 2].map(|byte| Ok(vec![byte])));
        assert!(matches!(now(&inbox, 0), Err(Error::Timeout { rank: 1, .. })));
        assert_eq!(inbox.receive(1, stream(0), 9, Instant::now()), Ok(vec![9]));
    }

    #[test]
    fn lost_process_leaves_its_messages() {
        let inbox = Inbox::new(2);
        inbox.deliver(1, stream(0), 0, vec![1]);
        inbox.lose(1, "killed");
        inbox.lose(1, "later");
        assert_eq!(now(&inbox, 0), Ok(vec![1]));
        assert_eq!(now(&inbox, 0), Err(Error::Lost { rank: 1, why: "killed".to_owned() }));
    }

    #[test]
    fn failure_concerns_one_stream() {
        let inbox = Inbox::new(2);
        inbox.deliver(1, stream(1), 0, vec![1]);
        inbox.fail(stream(0), Error::Stopped("a".to_owned()));
        inbox.fail(stream(0), Error::Stopped("b".to_owned()));
        assert_eq!(now(&inbox, 0), Err(Error::Stopped("a".to_owned())));
        assert_eq!(now(&inbox, 1), Ok(vec![1]));
    }

    #[test]
    fn closed_streams_leave_nothing() {
        let inbox = Inbox::new(2);
        for number in [1, 0, 3] {
            inbox.close(stream(number));
            inbox.deliver(1, stream(number), 0, vec![1]);
            inbox.fail(stream(number), Error::Stopped(String::new()));
        }
        let state = inbox.lock();
        assert!(state.streams.is_empty());
        assert_eq!((state.closed[&5].below, state.closed[&5].above.len()), (2, 1));
    }

    #[test]
    fn waiting_thread_learns_of_a_loss() {
        let inbox = Inbox::new(2);
        let got = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.receive(1, stream(0), 0, Instant::now() + Duration::from_secs(600)));
            inbox.lose(1, "killed");
            waiting.join().unwrap()
        });
        assert!(matches!(got, Err(Error::Lost { rank: 1, .. })));
    }
}
