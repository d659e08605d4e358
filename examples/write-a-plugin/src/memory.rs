//! Memory with a limit, and buffers in it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use device_plugin::{Error, MemoryStats, Result};

// ANCHOR: memory
/// The memory of one device: how much there is, and who has it.
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
    /// Memory of that many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default() })
    }

    fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Room> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.limit - used.now;
        if bytes > free {
            return Err(Error::resource_exhausted(format!("{bytes} bytes, of {} only {free} are free", self.limit)));
        }
        used.now += bytes;
        used.peak = used.peak.max(used.now);
        used.count += 1;
        Ok(Room { memory: Arc::clone(self), bytes })
    }
}

/// Bytes that are somebody's until this is dropped.
struct Room {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.used.lock().unwrap_or_else(PoisonError::into_inner).now -= self.bytes;
    }
}
// ANCHOR_END: memory

// ANCHOR: statistics
impl Memory {
    /// What frameworks show of it.
    pub fn stats(&self) -> MemoryStats {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        MemoryStats {
            bytes_in_use: number(used.now),
            peak_bytes_in_use: Some(number(used.peak)),
            num_allocs: Some(used.count),
            bytes_limit: Some(number(self.limit)),
            ..MemoryStats::default()
        }
    }
}
// ANCHOR_END: statistics

// ANCHOR: buffer
/// A buffer: room in a memory, and values, which may come later. Clones are the same buffer.
#[derive(Clone)]
pub struct Buffer(Arc<Block>);

struct Block {
    _room: Room,
    values: OnceLock<Arc<Vec<f32>>>,
}

impl Buffer {
    /// Room for that many elements.
    pub fn reserve(memory: &Arc<Memory>, elements: usize) -> Result<Self> {
        let room = memory.reserve(elements.saturating_mul(4))?;
        Ok(Self(Arc::new(Block { _room: room, values: OnceLock::new() })))
    }

    /// Gives the values, once.
    pub fn fill(&self, values: Arc<Vec<f32>>) -> Result<()> {
        self.0.values.set(values).map_err(|_| Error::internal("a buffer was filled twice"))
    }

    /// The values. The SDK asks for them only when the event of the work that fills the buffer is ready.
    pub fn values(&self) -> Result<&Arc<Vec<f32>>> {
        self.0.values.get().ok_or_else(|| Error::internal("a buffer without values was read"))
    }
}
// ANCHOR_END: buffer

// ANCHOR: take
impl Buffer {
    /// The values, alone where no clone of the buffer is left: then their memory may be written to.
    pub fn into_values(self) -> Result<Arc<Vec<f32>>> {
        match Arc::try_unwrap(self.0) {
            Ok(block) => block.values.into_inner().ok_or_else(|| Error::internal("a buffer without values was read")),
            Err(shared) => Self(shared).values().map(Arc::clone),
        }
    }
}
// ANCHOR_END: take
