//! Work of a device, in order.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use device_plugin::{Error, Result};

// ANCHOR: queue
/// A thread that does the work of one device in the order of its submission. It ends when the queue is dropped, after
/// the work that is left.
pub struct Queue(Sender<Box<dyn FnOnce() + Send>>);

impl Queue {
    /// Starts the thread of a device.
    pub fn start(device: usize) -> Result<Self> {
        let (sender, receiver) = channel::<Box<dyn FnOnce() + Send>>();
        let thread = thread::Builder::new().name(format!("board {device}"));
        let started = thread.spawn(move || receiver.into_iter().for_each(|work| work()));
        started.map_err(|error| Error::resource_exhausted(format!("a thread for device {device}: {error}")))?;
        Ok(Self(sender))
    }

    /// Adds work, which is not to panic: that ends the thread, and the events of all that waits tell so.
    pub fn submit(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.0.send(Box::new(work)).map_err(|_| Error::internal("the device's thread has ended"))
    }
}
// ANCHOR_END: queue
