//! `PJRT_Device_MemoryStats` and `PJRT_Executable_GetCompiledMemoryStats`: memory use of a device and of a program.

/// Memory use of a device, in bytes unless stated otherwise. Values that a plugin does not report are `None`.
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
    /// Maximum number of bytes that were in use at the same time.
    pub peak_bytes_in_use: Option<i64>,
    /// Number of allocations.
    pub num_allocs: Option<i64>,
    /// Size of the largest allocation.
    pub largest_alloc_size: Option<i64>,
    /// Maximum number of bytes that may be in use.
    pub bytes_limit: Option<i64>,
    /// Number of reserved bytes.
    pub bytes_reserved: Option<i64>,
    /// Maximum number of bytes that were reserved at the same time.
    pub peak_bytes_reserved: Option<i64>,
    /// Maximum number of bytes that may be reserved.
    pub bytes_reservable_limit: Option<i64>,
    /// Size of the largest free block.
    pub largest_free_block_bytes: Option<i64>,
    /// Size of the memory pool.
    pub pool_bytes: Option<i64>,
    /// Maximum size that the memory pool has had.
    pub peak_pool_bytes: Option<i64>,
    /// Maximum number of bytes that were allocated at the same time.
    pub peak_allocated_bytes: Option<i64>,
}

impl MemoryStats {
    /// Creates statistics with only the bytes in use. Set the other fields individually.
    #[must_use]
    pub fn new(bytes_in_use: i64) -> Self {
        Self { bytes_in_use, ..Self::default() }
    }
}

/// The memory that an execution of a program needs, in bytes. Values that a plugin does not report are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledMemoryStats {
    /// Size of the compiled program in device memory.
    pub generated_code_size: i64,
    /// Size of the arguments in device memory.
    pub argument_size: i64,
    /// Size of the outputs in device memory, including outputs that reuse the memory of a donated argument.
    pub output_size: i64,
    /// Size of the outputs in device memory that reuse the memory of a donated argument.
    pub alias_size: i64,
    /// Size of the temporary device memory of an execution.
    pub temp_size: i64,
    /// Size of the compiled program in host memory.
    pub host_generated_code_size: i64,
    /// Size of the arguments in host memory.
    pub host_argument_size: i64,
    /// Size of the outputs in host memory.
    pub host_output_size: i64,
    /// Size of the outputs in host memory that reuse the memory of a donated argument.
    pub host_alias_size: i64,
    /// Size of the temporary host memory of an execution.
    pub host_temp_size: i64,
    /// Maximum device memory in use at the same time during an execution.
    pub peak_memory: i64,
    /// All device memory that the program allocates. If a backend leaves this field 0, `device-plugin` computes the
    /// size from the other fields.
    pub total_size: i64,
    /// Sum of the compiler's allocations in device memory. If a backend leaves this field 0, `device-plugin` reports
    /// `total_size`.
    pub total_allocation_size: i64,
    /// Size of the allocations that live longer than an execution, such as arguments and constants.
    /// `total_allocation_size` includes them.
    pub indefinite_allocation_size: i64,
    /// Maximum device memory in use at the same time, without the padding of allocations. If a backend leaves this
    /// field 0, `device-plugin` reports `peak_memory`.
    pub peak_unpadded_heap: i64,
}
