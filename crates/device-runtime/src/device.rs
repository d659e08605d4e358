//! A device: its memories and its queues.

use std::sync::Arc;

use device_plugin::{Completer, Event, Result};

use crate::buffer::Buffer;
use crate::driver::{Driver, DriverMemory, QueueId, QueueKind};
use crate::health::Health;
use crate::pool::{Block, Pool};
use crate::queue::Queue;
use crate::timeline::Timeline;

/// A device of the runtime.
pub(crate) struct Device<D: Driver> {
    pub(crate) health: Arc<Health>,
    pub(crate) compute: Queue<D>,
    pub(crate) transfer: Queue<D>,
    /// The pools of the memories. The first one is that of the default memory.
    pub(crate) pools: Vec<Arc<Pool<D>>>,
}

impl<D: Driver> Device<D> {
    /// Starts the queues of a device. `index` is its position in the driver's list.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the system cannot start a thread.
    pub(crate) fn start(driver: &Arc<D>, index: usize, id: i32, memories: Vec<DriverMemory>) -> Result<Self> {
        let health = Arc::new(Health::new(id));
        let pool = |(at, memory)| Pool::new(Arc::clone(driver), (index, at), memory, Arc::clone(&health));
        let pools = memories.into_iter().enumerate().map(pool).collect();
        let queue = |kind| Queue::start(Arc::clone(driver), QueueId::new(index, kind), Arc::clone(&health));
        Ok(Self { compute: queue(QueueKind::Compute)?, transfer: queue(QueueKind::Transfer)?, pools, health })
    }

    /// Returns the pool of the default memory.
    pub(crate) fn pool(&self) -> &Arc<Pool<D>> {
        &self.pools[0]
    }

    /// Returns a block of at least `bytes` bytes of a memory, for operations of the queue with this timeline.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Pool::allocate`].
    pub(crate) fn allocate(&self, pool: &Arc<Pool<D>>, bytes: usize, timeline: &Arc<Timeline>) -> Result<Block<D>> {
        pool.allocate(bytes, timeline, || self.reclaim())
    }

    /// Returns the spare blocks of all memories to the driver, because memories may share the physical memory.
    pub(crate) fn reclaim(&self) {
        self.pools.iter().for_each(|pool| pool.reclaim());
    }

    /// Allocates a buffer in a memory that an operation of the transfer queue will write. Returns the buffer with the
    /// completer of its event.
    pub(crate) fn pending_buffer(&self, memory: usize, bytes: usize) -> Result<(Buffer<D>, Completer)> {
        let block = self.allocate(&self.pools[memory], bytes, self.transfer.timeline())?;
        let (ready, completer) = Event::pending();
        Ok((Buffer::new(block, bytes, ready), completer))
    }

    /// Allocates a buffer without contents.
    pub(crate) fn ready_buffer(&self, memory: usize, bytes: usize) -> Result<Buffer<D>> {
        let block = self.allocate(&self.pools[memory], bytes, self.transfer.timeline())?;
        Ok(Buffer::new(block, bytes, Event::ready()))
    }
}
