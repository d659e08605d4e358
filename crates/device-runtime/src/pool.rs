//! The memory of a device: its limit, its statistics, and a pool of spare blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device_plugin::{Error, ErrorCode, MemoryStats, Result};

use crate::driver::{Driver, DriverMemory};
use crate::health::Health;
use crate::operation::Operation;
use crate::size_class::{aligned, size_class};
use crate::timeline::{Timeline, Uses};

/// One memory of a device. The pool allocates blocks from the driver and keeps spare blocks until memory is
/// exhausted.
pub(crate) struct Pool<D: Driver> {
    state: Mutex<State<D>>,
    /// Held while a thread returns blocks to the driver and then allocates.
    reclaiming: Mutex<()>,
    /// Index of the device.
    pub(crate) device: usize,
    /// The memory among those of the device: 0 is the default memory.
    memory: usize,
    kind: String,
    limit: usize,
    health: Arc<Health>,
    // Dropped after the memory.
    driver: Arc<D>,
}

struct State<D: Driver> {
    /// The spare blocks by their size in bytes.
    spare: BTreeMap<usize, Vec<Spare<D>>>,
    /// Bytes of all blocks, spare or not.
    pooled: usize,
    /// Bytes of the blocks that are not spare.
    used: usize,
    peak_pooled: usize,
    peak_used: usize,
    /// Number of requests that got a block.
    count: i64,
    /// Size of the largest block that a request got.
    largest: usize,
}

/// The memory of a block that nothing owns. Submitted operations may still use it.
struct Spare<D: Driver> {
    memory: Arc<D::Memory>,
    uses: Uses<D::Completion>,
}

/// A block of device memory that has an owner. Dropping it makes the memory spare.
pub(crate) struct Block<D: Driver> {
    memory: Arc<D::Memory>,
    uses: Mutex<Uses<D::Completion>>,
    size: usize,
    // Dropped last, because it may hold the last reference to the driver.
    pool: Arc<Pool<D>>,
}

/// The reason why a request got no block.
enum Refusal {
    /// The blocks would exceed the limit.
    Limit,
    /// The driver returned this error.
    Driver(Error),
}

impl<D: Driver> State<D> {
    fn request(&mut self, size: usize) {
        self.used += size;
        self.peak_used = self.peak_used.max(self.used);
        self.count = self.count.saturating_add(1);
        self.largest = self.largest.max(size);
    }

    /// Returns the bytes of all blocks with a new block of `size` bytes, or `None` if they exceed the limit.
    fn pooled_with(&self, size: usize, limit: usize) -> Option<usize> {
        self.pooled.checked_add(size).filter(|pooled| *pooled <= limit)
    }

    /// Takes a spare block of at least `bytes` bytes, and at most the size of their class, that the queue with this
    /// timeline may use at once.
    fn take_spare(&mut self, bytes: usize, timeline: &Arc<Timeline>) -> Option<(usize, Spare<D>)> {
        for (size, blocks) in self.spare.range_mut(aligned(bytes)..=size_class(bytes)) {
            // Prefer the block that was dropped last, because its memory may be in a cache of the device.
            if let Some(at) = blocks.iter().rposition(|block| block.uses.allow_reuse_by(timeline)) {
                return Some((*size, blocks.remove(at)));
            }
        }
        None
    }

    /// Takes the spare blocks that no operation uses.
    fn take_unused(&mut self) -> Vec<(usize, Spare<D>)> {
        let mut taken = Vec::new();
        for (size, blocks) in &mut self.spare {
            taken.extend(blocks.extract_if(.., |block| block.uses.have_ended()).map(|block| (*size, block)));
        }
        self.spare.retain(|_, blocks| !blocks.is_empty());
        taken
    }

    /// Takes the largest spare block.
    fn take_one(&mut self) -> Option<(usize, Spare<D>)> {
        let mut largest = self.spare.last_entry()?;
        let (size, block) = (*largest.key(), largest.get_mut().pop());
        if largest.get().is_empty() {
            largest.remove();
        }
        block.map(|block| (size, block))
    }
}

impl<D: Driver> Pool<D> {
    /// Creates the pool of a memory of a device. `memory` is 0 for the default memory.
    pub(crate) fn new(
        driver: Arc<D>,
        (device, memory): (usize, usize),
        DriverMemory { kind, limit }: DriverMemory,
        health: Arc<Health>,
    ) -> Arc<Self> {
        let (spare, pooled, used, peak_pooled, peak_used) = (BTreeMap::new(), 0, 0, 0, 0);
        let state = State { spare, pooled, used, peak_pooled, peak_used, count: 0, largest: 0 };
        let (state, reclaiming) = (Mutex::new(state), Mutex::new(()));
        Arc::new(Self { state, reclaiming, device, memory, kind, limit, health, driver })
    }

    /// Locks the state. Ignores poisoning, because no code of the driver runs with this lock.
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a block of at least `bytes` bytes for operations of the queue with this timeline. `reclaim_device`
    /// returns the spare blocks of all memories of the device to the driver. It is called while no lock is held.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if the memory does not suffice, even after unused blocks were returned to the
    /// driver.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        timeline: &Arc<Timeline>,
        reclaim_device: impl Fn(),
    ) -> Result<Block<D>> {
        self.health.check()?;
        match self.try_allocate(bytes, size_class(bytes), timeline) {
            Ok(block) => Ok(block),
            Err(refusal) => self.reclaim_and_allocate(bytes, timeline, refusal, reclaim_device),
        }
    }

    /// Returns blocks to the driver until the request fits into the memory.
    fn reclaim_and_allocate(
        self: &Arc<Self>,
        bytes: usize,
        timeline: &Arc<Timeline>,
        mut refusal: Refusal,
        reclaim_device: impl Fn(),
    ) -> Result<Block<D>> {
        let mut reclaiming = self.reclaiming();
        // Without the rounding to a size class, the request may fit into the rest of the memory.
        let size = aligned(bytes);
        let mut retried = false;
        loop {
            match refusal {
                Refusal::Driver(error) if error.code() != ErrorCode::RESOURCE_EXHAUSTED => {
                    return Err(self.health.failure(Operation::Allocation(bytes), error));
                }
                Refusal::Driver(error) if retried => return Err(self.exhausted(bytes, error.message())),
                Refusal::Driver(_) => {
                    // Threads that need different memories must not wait for each other.
                    drop(reclaiming);
                    reclaim_device();
                    reclaiming = self.reclaiming();
                    // Blocks of this memory may have become spare meanwhile.
                    self.reclaim_all(&reclaiming);
                    retried = true;
                }
                // Another thread may get the memory that this one has returned, so try until no block is left.
                Refusal::Limit
                    if self.lock().pooled_with(size, self.limit).is_some() || self.reclaim_one(&reclaiming) => {}
                Refusal::Limit => return Err(self.exhausted(bytes, "the limit is reached")),
            }
            refusal = match self.try_allocate(bytes, size, timeline) {
                Ok(block) => return Ok(block),
                Err(refusal) => refusal,
            };
        }
    }

    fn exhausted(&self, bytes: usize, why: &str) -> Error {
        let (device, kind, limit) = (self.health.device(), &self.kind, self.limit);
        let free = limit.saturating_sub(self.lock().used);
        Error::resource_exhausted(format!(
            "{bytes} bytes needed in the memory {kind:?} of device {device}, but {free} of {limit} bytes are free: {why}"
        ))
    }

    fn block(self: &Arc<Self>, memory: Arc<D::Memory>, size: usize, uses: Uses<D::Completion>) -> Block<D> {
        Block { memory, uses: Mutex::new(uses), size, pool: Arc::clone(self) }
    }

    /// Reuses a spare block or allocates a block of `size` bytes, without waiting.
    fn try_allocate(
        self: &Arc<Self>,
        bytes: usize,
        size: usize,
        timeline: &Arc<Timeline>,
    ) -> Result<Block<D>, Refusal> {
        let mut state = self.lock();
        if let Some((size, spare)) = state.take_spare(bytes, timeline) {
            state.request(size);
            drop(state);
            return Ok(self.block(spare.memory, size, spare.uses));
        }
        state.pooled = state.pooled_with(size, self.limit).ok_or(Refusal::Limit)?;
        drop(state);
        // The guard returns the bytes if the driver fails or panics.
        let reserved = Reserved { pool: self, size };
        let memory = match self.memory.checked_sub(1) {
            None => self.driver.allocate(self.device, size),
            Some(other) => self.driver.allocate_other(self.device, other, size),
        };
        let memory = memory.map_err(Refusal::Driver)?;
        std::mem::forget(reserved);
        let mut state = self.lock();
        state.peak_pooled = state.peak_pooled.max(state.pooled);
        state.request(size);
        drop(state);
        Ok(self.block(Arc::new(memory), size, Uses::default()))
    }

    /// Returns the permission to return blocks to the driver. Blocks on their way to the driver still count. Another
    /// thread that needs memory must therefore wait for them.
    fn reclaiming(&self) -> MutexGuard<'_, ()> {
        self.reclaiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the spare blocks that no operation uses to the driver, or waits for another block and returns that.
    /// Returns `false` if there is no spare block.
    fn reclaim_one(&self, _: &MutexGuard<'_, ()>) -> bool {
        let mut taken = self.lock().take_unused();
        if taken.is_empty() {
            taken.extend(self.lock().take_one());
        }
        let found = !taken.is_empty();
        taken.into_iter().for_each(|(size, spare)| self.give_back(size, spare));
        found
    }

    /// Returns all spare blocks to the driver, each after the operations that use it have ended.
    pub(crate) fn reclaim(&self) {
        self.reclaim_all(&self.reclaiming());
    }

    fn reclaim_all(&self, _: &MutexGuard<'_, ()>) {
        let taken = std::mem::take(&mut self.lock().spare);
        for (size, blocks) in taken {
            blocks.into_iter().for_each(|spare| self.give_back(size, spare));
        }
    }

    /// Returns a block to the driver after the operations that use it have ended.
    fn give_back(&self, size: usize, spare: Spare<D>) {
        spare.uses.wait();
        let _reserved = Reserved { pool: self, size };
        // The operations have released their references, so this frees the memory.
        drop(spare);
    }

    /// Returns the statistics that frameworks show.
    pub(crate) fn stats(&self) -> MemoryStats {
        let number = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        let state = self.lock();
        let mut stats = MemoryStats::new(number(state.used));
        stats.peak_bytes_in_use = Some(number(state.peak_used));
        stats.num_allocs = Some(state.count);
        stats.largest_alloc_size = Some(number(state.largest));
        stats.bytes_limit = Some(number(self.limit));
        stats.pool_bytes = Some(number(state.pooled));
        stats.peak_pool_bytes = Some(number(state.peak_pooled));
        stats
    }

    /// Resets the peaks and counts of the statistics.
    pub(crate) fn clear_stats(&self) {
        let mut state = self.lock();
        (state.peak_used, state.peak_pooled, state.count, state.largest) = (state.used, state.pooled, 0, 0);
    }
}

/// Bytes that count as pooled until this is dropped.
struct Reserved<'a, D: Driver> {
    pool: &'a Pool<D>,
    size: usize,
}

impl<D: Driver> Drop for Reserved<'_, D> {
    fn drop(&mut self) {
        self.pool.lock().pooled -= self.size;
    }
}

impl<D: Driver> Drop for Pool<D> {
    fn drop(&mut self) {
        // In a forked process, the driver cannot free the memory.
        if !self.health.is_home() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(&mut state.spare));
        }
    }
}

impl<D: Driver> Block<D> {
    /// Returns the index of the device.
    pub(crate) fn device(&self) -> usize {
        self.pool.device
    }

    /// Whether the block belongs to this pool.
    pub(crate) fn is_of(&self, pool: &Arc<Pool<D>>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    pub(crate) fn memory(&self) -> &Arc<D::Memory> {
        &self.memory
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn uses(&self) -> MutexGuard<'_, Uses<D::Completion>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Driver> Drop for Block<D> {
    fn drop(&mut self) {
        if !self.pool.health.is_home() {
            std::mem::forget(Arc::clone(&self.memory));
            return;
        }
        let uses = std::mem::take(&mut *self.uses());
        let spare = Spare { memory: Arc::clone(&self.memory), uses };
        let mut state = self.pool.lock();
        state.used -= self.size;
        state.spare.entry(self.size).or_default().push(spare);
    }
}
