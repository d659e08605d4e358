//! Runs the work of a device in order.

use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use device_plugin::{Error, Result};

// ANCHOR: queue
/// A thread that runs the work of one device in the order of submission. Dropping the queue waits until the thread
/// has finished all work and has ended.
pub struct Queue {
    sender: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce() + Send>;

impl Queue {
    /// Starts the thread of a device.
    pub fn start(device: usize) -> Result<Self> {
        let (sender, receiver) = channel::<Work>();
        let thread = thread::Builder::new().name(format!("board {device}"));
        let started = thread.spawn(move || receiver.into_iter().for_each(|work| work()));
        let started = started.map_err(|error| {
            Error::resource_exhausted(format!("cannot start a thread for device {device}: {error}"))
        })?;
        Ok(Self { sender: Some(sender), thread: Some(started) })
    }

    /// Adds work. The work must not panic: a panic ends the thread and fails the events of all queued work.
    pub fn submit(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let sent = self.sender.as_ref().map(|sender| sender.send(Box::new(work)));
        sent.and_then(|sent| sent.ok()).ok_or_else(|| Error::internal("the device's thread has ended"))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The thread ends when the sender is dropped and the queue is empty.
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // The join fails if work panicked. The events of the work have reported this already.
            let _ = thread.join();
        }
    }
}
// ANCHOR_END: queue

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn drop_finishes_queued_work() {
        for _ in 0..100 {
            let (queue, done) = (Queue::start(0).expect("a thread"), Arc::new(AtomicUsize::new(0)));
            for _ in 0..100 {
                let done = Arc::clone(&done);
                let work = move || {
                    thread::yield_now();
                    done.fetch_add(1, Ordering::Relaxed);
                };
                queue.submit(work).expect("the thread runs");
            }
            drop(queue);
            assert_eq!(done.load(Ordering::Relaxed), 100);
        }
    }
}
