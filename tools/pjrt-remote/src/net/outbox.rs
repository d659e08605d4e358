//! Messages that wait to be sent.
//!
//! A message is appended to a queue, and a thread writes the queue to the connection. While the thread writes or wakes
//! up, further messages join the queue, so that a chain of small messages needs few system calls. A thread that is
//! about to wait for a reply writes the queue itself.

use std::collections::VecDeque;
use std::io::Write;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use prost::Message;

use crate::net::closer::Closer;
use crate::net::stream::{Descriptor, Stream};
use crate::wire::frame;
use crate::wire::messages::Request;

/// Number of queued bytes from which on a caller of [`Outbox::wait_for_space`] waits.
const MAX_QUEUED: usize = 32 << 20;
/// Maximum number of released handles in a request.
const MAX_RELEASED: usize = 4096;
/// Capacity of the vector for small messages that is kept for the next messages.
const KEPT: usize = 1 << 20;

/// Bytes to be written: frames, or the payload of the frame before.
type Chunk = Box<dyn AsRef<[u8]> + Send>;

#[derive(Default)]
struct Queue {
    /// Chunks before `frames`.
    chunks: VecDeque<Chunk>,
    /// Frames after all chunks.
    frames: Vec<u8>,
    /// Total size of `chunks` and `frames`.
    bytes: usize,
    /// Handles that the next request releases, or a request of their own when the queue is written.
    released: Vec<u64>,
    /// Whether the writer waits for messages.
    is_idle: bool,
    is_closed: bool,
}

impl Queue {
    /// Moves the frames to the chunks, so that a payload can follow them.
    fn seal(&mut self) {
        if !self.frames.is_empty() {
            self.chunks.push_back(Box::new(mem::take(&mut self.frames)));
        }
    }

    /// Appends a message and a copy of the bytes that follow it.
    fn append(&mut self, message: &impl Message, payload: &[u8]) {
        let before = self.frames.len();
        frame::append(message, &mut self.frames);
        self.frames.extend_from_slice(payload);
        self.bytes += self.frames.len() - before;
    }

    /// Appends requests that release handles, until at most `keep` handles are left.
    fn append_released(&mut self, keep: usize) {
        while self.released.len() > keep {
            let rest = self.released.split_off(self.released.len().min(MAX_RELEASED));
            let released = mem::replace(&mut self.released, rest);
            self.append(&Request { kind: None, released }, &[]);
        }
    }
}

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
    /// Locked while the queue is taken and written. A thread that holds both locks has locked this one first.
    stream: Mutex<Stream>,
    /// Closes the connection, also while `stream` is locked.
    closer: Arc<Closer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sending half of a connection. If the connection fails, messages are dropped and both halves are closed, so that
/// the thread that reads the other half notices the failure.
pub(crate) struct Outbox {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    /// Starts the thread that writes to the connection.
    pub(crate) fn new(stream: Stream, closer: Arc<Closer>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            stream: Mutex::new(stream),
            closer,
        });
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("pjrt remote send".to_owned());
        let writer = builder.spawn(move || theirs.write_until_closed())?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)) })
    }

    /// Queues a message.
    pub(crate) fn send(&self, message: &impl Message) {
        self.send_copy(message, &[]);
    }

    /// Queues a message and a copy of the bytes that follow it.
    pub(crate) fn send_copy(&self, message: &impl Message, payload: &[u8]) {
        let mut queue = lock(&self.shared.queue);
        queue.append(message, payload);
        self.added(queue);
    }

    /// Queues a message and the bytes that follow it.
    pub(crate) fn send_owned(&self, message: &impl Message, payload: impl AsRef<[u8]> + Send + 'static) {
        let mut queue = lock(&self.shared.queue);
        queue.append(message, &[]);
        queue.bytes += payload.as_ref().len();
        queue.seal();
        queue.chunks.push_back(Box::new(payload));
        self.added(queue);
    }

    /// Queues a request, with the handles that were released before, and a copy of the bytes that follow it. Waits like
    /// [`Self::wait_for_space`].
    pub(crate) fn request(&self, request: Request, payload: &[u8]) {
        self.add_request(self.with_space(), request, payload);
    }

    /// Queues a request without waiting.
    pub(crate) fn request_now(&self, request: Request) {
        self.add_request(lock(&self.shared.queue), request, &[]);
    }

    fn add_request(&self, mut queue: MutexGuard<'_, Queue>, mut request: Request, payload: &[u8]) {
        queue.append_released(MAX_RELEASED);
        request.released = mem::take(&mut queue.released);
        queue.append(&request, payload);
        // Keep the memory for the next handles.
        request.released.clear();
        queue.released = request.released;
        self.added(queue);
    }

    /// Releases a handle with the next request. If the queue is empty, wakes the thread that sends a request for it.
    pub(crate) fn release(&self, handle: u64) {
        let mut queue = lock(&self.shared.queue);
        queue.released.push(handle);
        self.added(queue);
    }

    /// Writes the queue, a message, and the bytes that follow it.
    pub(crate) fn write(&self, message: &impl Message, payload: &[u8]) {
        self.write_with(message, &[], payload);
    }

    /// Writes the queue, a message with descriptors, and the bytes that follow it.
    pub(crate) fn write_with(&self, message: &impl Message, descriptors: &[Descriptor], payload: &[u8]) {
        let mut stream = lock(&self.shared.stream);
        let mut head = Vec::new();
        frame::append(message, &mut head);
        self.shared.write_queue(&mut stream, |stream| {
            stream.write_with(&head, descriptors)?;
            stream.write_all(payload)
        });
    }

    fn added(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.is_closed {
            *queue = Queue { is_closed: true, ..Queue::default() };
        } else if mem::take(&mut queue.is_idle) {
            drop(queue);
            self.shared.filled.notify_one();
        }
    }

    /// Writes the queue on this thread. If another thread is writing, leaves the queue to the thread for messages, so
    /// that this thread does not wait for a large payload.
    pub(crate) fn flush(&self) {
        match self.shared.stream.try_lock() {
            Ok(mut stream) => self.shared.write_queue(&mut stream, |_| Ok(())),
            Err(TryLockError::Poisoned(stream)) => self.shared.write_queue(&mut stream.into_inner(), |_| Ok(())),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Writes the queue, and then closes the connection.
    pub(crate) fn finish(&self) {
        let mut stream = lock(&self.shared.stream);
        self.shared.write_queue(&mut stream, |_| Ok(()));
        self.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.shared.queue).is_closed
    }

    /// Returns whether [`Self::wait_for_space`] would wait.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.shared.queue).bytes > MAX_QUEUED
    }

    /// Waits until the queue is short enough for more messages. Does not wait if the connection is closed.
    pub(crate) fn wait_for_space(&self) {
        drop(self.with_space());
    }

    fn with_space(&self) -> MutexGuard<'_, Queue> {
        let mut queue = lock(&self.shared.queue);
        while queue.bytes > MAX_QUEUED && !queue.is_closed {
            queue = self.shared.emptied.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue
    }

    /// Closes both halves of the connection, without sending what is queued.
    pub(crate) fn close(&self) {
        self.shared.close();
    }

    /// Returns what closes the connection.
    pub(crate) fn closer(&self) -> &Closer {
        &self.shared.closer
    }

    /// Closes the connection, and waits for the thread that writes to it.
    pub(crate) fn join(&self) {
        self.close();
        if let Some(writer) = lock(&self.writer).take() {
            // The thread does not panic.
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn close(&self) {
        *lock(&self.queue) = Queue { is_closed: true, ..Queue::default() };
        self.filled.notify_all();
        self.emptied.notify_all();
        self.closer.close();
    }

    fn write_until_closed(&self) {
        loop {
            {
                let mut queue = lock(&self.queue);
                while queue.bytes == 0 && queue.released.is_empty() && !queue.is_closed {
                    queue.is_idle = true;
                    queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                queue.is_idle = false;
                if queue.is_closed {
                    return;
                }
            }
            let mut stream = lock(&self.stream);
            self.write_queue(&mut stream, |_| Ok(()));
        }
    }

    /// Writes all queued messages, and then calls `more`.
    fn write_queue(&self, stream: &mut Stream, more: impl FnOnce(&mut Stream) -> std::io::Result<()>) {
        let (chunks, frames) = {
            let mut queue = lock(&self.queue);
            queue.append_released(0);
            let frames = if queue.frames.is_empty() { Vec::new() } else { mem::take(&mut queue.frames) };
            (mem::take(&mut queue.chunks), frames)
        };
        let result = (|| {
            for chunk in chunks {
                let chunk = (*chunk).as_ref();
                stream.write_all(chunk)?;
                self.written(chunk.len(), Vec::new());
            }
            stream.write_all(&frames)?;
            more(stream)
        })();
        match result {
            Ok(()) if frames.is_empty() => {}
            Ok(()) => self.written(frames.len(), frames),
            Err(error) => {
                tracing::debug!(%error, "cannot write to a connection");
                self.close();
            }
        }
    }

    /// Counts bytes that were written, and keeps the memory of `frames` for the next messages.
    fn written(&self, count: usize, mut frames: Vec<u8>) {
        let mut queue = lock(&self.queue);
        if queue.frames.capacity() == 0 && frames.capacity() <= KEPT {
            frames.clear();
            queue.frames = frames;
        }
        let was_full = queue.bytes > MAX_QUEUED;
        queue.bytes = queue.bytes.saturating_sub(count);
        if was_full && queue.bytes <= MAX_QUEUED {
            drop(queue);
            self.emptied.notify_all();
        }
    }
}
