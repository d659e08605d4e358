//! A device: its memory and its queues.

use std::sync::Arc;

use device_plugin::{Completer, Event, Result};

use crate::buffer::Buffer;
use crate::driver::{Driver, QueueId, QueueKind};
use crate::health::Health;
use crate::pool::Pool;
use crate::queue::Queue;

/// A device of the runtime.
pub(crate) struct Device<D: Driver> {
    pub(crate) health: Arc<Health>,
    pub(crate) compute: Queue<D>,
    pub(crate) transfer: Queue<D>,
    pub(crate) pool: Arc<Pool<D>>,
}

impl<D: Driver> Device<D> {
    /// Starts the queues of a device whose memory has the given limit in bytes. `index` is the position of the device
    /// in the driver's list.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the system cannot start a thread.
    pub(crate) fn start(driver: &Arc<D>, index: usize, id: i32, limit: usize) -> Result<Self> {
        let health = Arc::new(Health::new(id));
        let queue = |kind| Queue::start(Arc::clone(driver), QueueId::new(index, kind), Arc::clone(&health));
        Ok(Self {
            compute: queue(QueueKind::Compute)?,
            transfer: queue(QueueKind::Transfer)?,
            pool: Pool::new(Arc::clone(driver), index, limit, Arc::clone(&health)),
            health,
        })
    }

    /// Allocates a buffer that an operation of the transfer queue will write. Returns the buffer with the completer of
    /// its event.
    pub(crate) fn pending_buffer(&self, bytes: usize) -> Result<(Buffer<D>, Completer)> {
        let block = self.pool.allocate(bytes, self.transfer.timeline())?;
        let (ready, completer) = Event::pending();
        Ok((Buffer::new(block, bytes, ready), completer))
    }

    /// Allocates a buffer without contents.
    pub(crate) fn ready_buffer(&self, bytes: usize) -> Result<Buffer<D>> {
        let block = self.pool.allocate(bytes, self.transfer.timeline())?;
        Ok(Buffer::new(block, bytes, Event::ready()))
    }
}
