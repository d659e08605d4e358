//! Memory with a limit, and buffers in this memory.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use device_plugin::{Error, MemoryStats, Result};

// ANCHOR: memory
/// The memory of one device, with its limit and its statistics.
pub struct Memory {
    limit: usize,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    now: usize,
    peak: usize,
    count: i64,
}

impl Memory {
    /// Creates a memory with a limit in bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default() })
    }

    fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.limit - used.now;
        if bytes > free {
            return Err(Error::resource_exhausted(format!("{bytes} bytes needed, {free} of {} are free", self.limit)));
        }
        used.now += bytes;
        used.peak = used.peak.max(used.now);
        used.count += 1;
        Ok(Reservation { memory: Arc::clone(self), bytes })
    }
}

/// Bytes of a memory that are in use until this is dropped.
struct Reservation {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.used.lock().unwrap_or_else(PoisonError::into_inner).now -= self.bytes;
    }
}
// ANCHOR_END: memory

// ANCHOR: statistics
impl Memory {
    /// Returns the statistics that frameworks show.
    pub fn stats(&self) -> MemoryStats {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut stats = MemoryStats::new(number(used.now));
        stats.peak_bytes_in_use = Some(number(used.peak));
        stats.num_allocs = Some(used.count);
        stats.bytes_limit = Some(number(self.limit));
        stats
    }
}
// ANCHOR_END: statistics

// ANCHOR: buffer
/// A buffer: reserved memory, and values that may arrive later. Clones refer to the same buffer.
#[derive(Clone)]
pub struct Buffer(Arc<Block>);

struct Block {
    _reservation: Reservation,
    values: OnceLock<Arc<Vec<f32>>>,
}

impl Buffer {
    /// Reserves memory for a number of elements.
    pub fn reserve(memory: &Arc<Memory>, elements: usize) -> Result<Self> {
        let reservation = memory.reserve(elements.saturating_mul(4))?;
        Ok(Self(Arc::new(Block { _reservation: reservation, values: OnceLock::new() })))
    }

    /// Sets the values, once.
    pub fn fill(&self, values: Arc<Vec<f32>>) -> Result<()> {
        self.0.values.set(values).map_err(|_| Error::internal("a buffer was filled twice"))
    }

    /// Returns the values. The SDK reads a buffer only after the event of the work that fills it is ready.
    pub fn values(&self) -> Result<&Arc<Vec<f32>>> {
        self.0.values.get().ok_or_else(|| Error::internal("a buffer without values was read"))
    }
}
// ANCHOR_END: buffer

// ANCHOR: take
impl Buffer {
    /// Returns the values. If no clone of the buffer exists, the caller is their only owner and may write to them.
    pub fn into_values(self) -> Result<Arc<Vec<f32>>> {
        match Arc::try_unwrap(self.0) {
            Ok(block) => block.values.into_inner().ok_or_else(|| Error::internal("a buffer without values was read")),
            Err(shared) => Self(shared).values().map(Arc::clone),
        }
    }
}
// ANCHOR_END: take
