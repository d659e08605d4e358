//! `PJRT_Device_MemoryStats` and `PJRT_Executable_GetCompiledMemoryStats`: memory of a device and of a program.

/// Use of a device's memory, in bytes unless stated otherwise. Values that a plugin does not report are `None`.
///
/// ```
/// use pjrt_types::MemoryStats;
///
/// let mut stats = MemoryStats::new(1024);
/// stats.num_allocs = Some(3);
/// assert_eq!(stats.bytes_limit, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use.
    pub bytes_in_use: i64,
    /// The most bytes in use at one time.
    pub peak_bytes_in_use: Option<i64>,
    /// Number of allocations.
    pub num_allocs: Option<i64>,
    /// Size of the largest allocation.
    pub largest_alloc_size: Option<i64>,
    /// The most bytes that may be in use.
    pub bytes_limit: Option<i64>,
    /// Reserved bytes.
    pub bytes_reserved: Option<i64>,
    /// The most bytes reserved at one time.
    pub peak_bytes_reserved: Option<i64>,
    /// The most bytes that may be reserved.
    pub bytes_reservable_limit: Option<i64>,
    /// Size of the largest free block.
    pub largest_free_block_bytes: Option<i64>,
    /// Size of the memory pool.
    pub pool_bytes: Option<i64>,
    /// The largest size of the memory pool.
    pub peak_pool_bytes: Option<i64>,
    /// The most bytes allocated at one time.
    pub peak_allocated_bytes: Option<i64>,
}

impl MemoryStats {
    /// Creates statistics that count only the bytes in use. Set the fields of the other counts.
    #[must_use]
    pub fn new(bytes_in_use: i64) -> Self {
        Self { bytes_in_use, ..Self::default() }
    }
}

/// The memory that a run needs, in bytes. Values that a plugin does not report are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledMemoryStats {
    /// The compiled program in device memory.
    pub generated_code_size: i64,
    /// The arguments in device memory.
    pub argument_size: i64,
    /// The outputs in device memory. This includes outputs that reuse the memory of a donated argument.
    pub output_size: i64,
    /// Outputs that reuse the memory of a donated argument.
    pub alias_size: i64,
    /// Temporary device memory of a run.
    pub temp_size: i64,
    /// The part of the compiled program in host memory.
    pub host_generated_code_size: i64,
    /// Arguments in host memory.
    pub host_argument_size: i64,
    /// Outputs in host memory.
    pub host_output_size: i64,
    /// Outputs in host memory that reuse the memory of a donated argument.
    pub host_alias_size: i64,
    /// Temporary host memory of a run.
    pub host_temp_size: i64,
    /// The most device memory in use at one time during a run.
    pub peak_memory: i64,
    /// All device memory that the program allocates. If a backend leaves it 0, the vendor's side computes it from the other
    /// sizes.
    pub total_size: i64,
    /// The sum of the compiler's allocations in device memory. If a backend leaves it 0, the vendor's side reports
    /// `total_size`.
    pub total_allocation_size: i64,
    /// The part of `total_allocation_size` that lives longer than a run, such as arguments and constants.
    pub indefinite_allocation_size: i64,
    /// The most device memory in use at one time, without the padding of allocations. If a backend leaves it 0, the vendor's
    /// side reports `peak_memory`.
    pub peak_unpadded_heap: i64,
}
