//! The memories of the devices: a pool for each device, and one pool in host memory that all devices share. The kinds
//! `pinned_host` and `unpinned_host` both use the shared pool.

use device_plugin::{Error, ErrorCode, MemoryInfo, MemoryStats, Placement, Result};

use super::config::{self, Config};
use stablehlo_cpu::{MachineMemory, Pool, RunError, Tensor};

/// The memory kinds of each device. The first kind is the default.
pub(crate) const KINDS: [&str; 3] = ["device", "pinned_host", "unpinned_host"];

/// Maximum number of bytes of free blocks that the pools of all devices of a client keep for reuse, in total.
const KEPT: usize = 2 << 30;
/// Maximum number of bytes of free blocks that the pool in host memory keeps for reuse.
const KEPT_ON_HOST: usize = 256 << 20;

/// The memories of a client.
pub(crate) struct Memories {
    devices: Vec<Pool>,
    host: Pool,
    /// Number of bytes that a device may use, as reported in statistics.
    limit: Option<usize>,
    /// Number of bytes that every device may reserve at the same time. This is the device's own limit, or its share of
    /// the machine's memory.
    reservable: Option<usize>,
}

/// Returns the memories of the devices with these IDs, grouped by device. Frameworks list them in this order.
pub(crate) fn infos(ids: impl Iterator<Item = i32>) -> Vec<MemoryInfo> {
    let of = |id| (0..).zip(KINDS).map(move |(kind_id, kind)| MemoryInfo::new(kind, kind_id, [id]).on_host());
    ids.flat_map(of).collect()
}

/// Returns whether the memory with this index is host memory.
pub(crate) fn is_host(memory: usize) -> bool {
    !memory.is_multiple_of(KINDS.len())
}

impl Memories {
    /// Creates the memories of `listed` devices. This process runs `config.devices` of them. The pools of all other
    /// devices stay empty.
    pub(crate) fn new(config: &Config, listed: usize) -> Self {
        let kept = KEPT / config.devices;
        let pool = |_| Pool::limited(kept, config.memory_limit);
        let machine = MachineMemory::read().map(|memory| memory.total);
        let limit = config.memory_limit.or(machine);
        let reservable = config.memory_limit.or(machine.map(|bytes| bytes / config.devices));
        Self { devices: (0..listed).map(pool).collect(), host: Pool::new(KEPT_ON_HOST), limit, reservable }
    }

    /// Returns the pool of a device.
    #[inline]
    pub(crate) fn device(&self, device: usize) -> &Pool {
        &self.devices[device]
    }

    /// Returns the pool in host memory.
    pub(crate) fn host(&self) -> &Pool {
        &self.host
    }

    /// Returns whether the tensor's elements are in the pool of another device.
    pub(crate) fn is_of_another(&self, tensor: &Tensor, device: usize) -> bool {
        let is_other = |(other, pool): (usize, &Pool)| other != device && tensor.is_of(pool);
        !tensor.is_of(self.device(device)) && self.devices.iter().enumerate().any(is_other)
    }

    /// Returns the pool of a placement.
    pub(crate) fn of(&self, placement: Placement) -> &Pool {
        if is_host(placement.memory) { &self.host } else { self.device(placement.device) }
    }

    /// Returns the statistics of a device's memory.
    pub(crate) fn stats(&self, device: usize) -> Result<MemoryStats> {
        let pool = self.devices.get(device).ok_or_else(|| no_device(device))?;
        let usage = pool.usage();
        let bytes = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut stats = MemoryStats::new(bytes(usage.in_use));
        stats.peak_bytes_in_use = Some(bytes(usage.peak));
        stats.num_allocs = Some(i64::try_from(usage.allocations).unwrap_or(i64::MAX));
        stats.largest_alloc_size = Some(bytes(usage.largest));
        stats.bytes_limit = self.limit.map(bytes);
        stats.bytes_reservable_limit = self.reservable.map(bytes);
        stats.pool_bytes = Some(bytes(usage.in_use.saturating_add(pool.held())));
        Ok(stats)
    }

    /// Resets the peaks and counts of a device's memory.
    pub(crate) fn clear_stats(&self, device: usize) -> Result<()> {
        self.devices.get(device).ok_or_else(|| no_device(device))?.reset_usage();
        Ok(())
    }
}

fn no_device(device: usize) -> Error {
    Error::invalid_argument(format!("there is no device {device}"))
}

/// Converts the engine's error to a PJRT error.
pub(crate) fn run_error(error: RunError, device: usize) -> Error {
    match error {
        RunError::Input(message) => Error::invalid_argument(message),
        RunError::Size(message) => Error::new(ErrorCode::OUT_OF_RANGE, message),
        RunError::OutOfMemory(bytes) => Error::resource_exhausted(format!(
            "device {device}: the system has no {} left; free or donate buffers, or run smaller batches",
            config::readable(bytes)
        )),
        RunError::LimitReached { wanted, in_use, limit } => Error::resource_exhausted(format!(
            "device {device}: {} requested ({wanted} bytes), but {} of its {} are in use; free or donate buffers, or raise \
             the option {} ({})",
            config::readable(wanted),
            config::readable(in_use),
            config::readable(limit),
            config::LIMIT,
            config::LIMIT_VARIABLE,
        )),
        RunError::TooLarge { wanted, available, largest } => Error::resource_exhausted(format!(
            "device {device}: the run needs {} ({wanted} bytes) for its values, and {} are available; the largest values \
             are {}; free or donate buffers, run smaller batches, or raise the option {} ({})",
            config::readable(wanted),
            config::readable(available),
            largest
                .iter()
                .map(|(size, op)| format!("{} by {op}", config::readable(*size)))
                .collect::<Vec<_>>()
                .join(", "),
            config::LIMIT,
            config::LIMIT_VARIABLE,
        )),
        RunError::Launch(_) | RunError::Stopped => Error::new(ErrorCode::ABORTED, error.to_string()),
        _ => Error::internal(error.to_string()),
    }
}
