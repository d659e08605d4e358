//! `dp_device`: a device of a client, or of a topology.

use pjrt::MemoryStats;
use pjrt::raw::AsRaw;
use pjrt_c_macros::c_function;
use pjrt_sys::PJRT_Device;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error, error_code};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::{Name, Struct};
use crate::border::sized::struct_sizes;
use crate::client::objects::dp_memory;
use crate::client::objects::{dp_device, dp_device_description};
use crate::registry::dp_options;

/// Returns the device's object of PJRT, which is valid as long as its client. Returns NULL if `device` is not a device.
#[c_function]
pub fn dp_device_raw(device: &dp_device) -> *mut PJRT_Device {
    device.inner.as_raw()
}

/// Returns the id of the device, which is unique among all processes.
#[c_function]
pub fn dp_device_id(device: &dp_device) -> Outcome<i32> {
    Ok(device.inner.id()?)
}

/// Returns the kind of hardware, such as `NVIDIA H100`. The text belongs to the device.
#[c_function]
pub fn dp_device_kind(device: &dp_device) -> Outcome<dp_string> {
    device.kind.get(|| device.inner.kind())
}

/// Returns the index of the process that can use the device.
#[c_function]
pub fn dp_device_process_index(device: &dp_device) -> Outcome<i32> {
    Ok(device.inner.process_index()?)
}

/// Returns whether this process can use the device.
#[c_function]
pub fn dp_device_is_addressable(device: &dp_device) -> Outcome<bool> {
    Ok(device.inner.is_addressable()?)
}

/// Returns the number by which the operating system or the driver knows the device.
#[c_function]
pub fn dp_device_local_hardware_id(device: &dp_device) -> Outcome<i32> {
    Ok(device.inner.local_hardware_id()?)
}

/// Returns a short text for display. It belongs to the device.
#[c_function]
pub fn dp_device_to_string(device: &dp_device) -> Outcome<dp_string> {
    device.shown.get(|| device.inner.description()?.display_string())
}

/// Returns a text with details, for debugging. It belongs to the device.
#[c_function]
pub fn dp_device_debug_string(device: &dp_device) -> Outcome<dp_string> {
    device.debug.get(|| device.inner.description()?.debug_string())
}

/// Returns the attributes that the plugin reports, such as coordinates.
#[c_function]
pub fn dp_device_attributes(device: &dp_device) -> Outcome<Owned<dp_options>> {
    Ok(Owned(dp_options::from_values(device.inner.description()?.attributes()?)))
}

/// Returns the number of memories that the device can use.
#[c_function]
pub fn dp_device_memory_count(device: &dp_device) -> Outcome<usize> {
    Ok(device.inner.memories()?.len())
}

/// Returns the memory at `index`, counted from 0, among those that the device can use.
#[c_function]
pub fn dp_device_memory_at(device: &dp_device, index: usize) -> Outcome<Owned<dp_memory>> {
    Ok(Owned(dp_memory::new(memory::at(&device.inner.memories()?, index)?.clone())))
}

/// Returns the memory that the device uses by default.
#[c_function]
pub fn dp_device_default_memory(device: &dp_device) -> Outcome<Owned<dp_memory>> {
    Ok(Owned(dp_memory::new(device.inner.default_memory()?)))
}

/// The use of a device's memory, in bytes. -1 means that the plugin does not report the value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_memory_stats {
    /// `sizeof(dp_memory_stats)`, set by the caller.
    pub struct_size: usize,
    /// Bytes in use. Always reported.
    pub bytes_in_use: i64,
    /// The most bytes that were in use.
    pub peak_bytes_in_use: i64,
    /// Number of allocations.
    pub num_allocs: i64,
    /// Size of the largest allocation.
    pub largest_alloc_size: i64,
    /// The most bytes that can be in use.
    pub bytes_limit: i64,
    /// Bytes that are reserved.
    pub bytes_reserved: i64,
    /// The most bytes that were reserved.
    pub peak_bytes_reserved: i64,
    /// The most bytes that can be reserved.
    pub bytes_reservable_limit: i64,
    /// Size of the largest free block.
    pub largest_free_block_bytes: i64,
    /// Bytes in the allocator's pool.
    pub pool_bytes: i64,
    /// The most bytes that were in the allocator's pool.
    pub peak_pool_bytes: i64,
    /// The most bytes that were allocated.
    pub peak_allocated_bytes: i64,
}

struct_sizes!(dp_memory_stats);

/// Fills `out` with the use of the device's memory. Returns `DP_UNIMPLEMENTED` if the plugin does not report it.
#[c_function]
pub fn dp_device_memory_stats(device: &dp_device) -> Outcome<Struct<dp_memory_stats>> {
    let stats: MemoryStats = device.inner.memory_stats()?;
    let or_unknown = |value: Option<i64>| value.unwrap_or(-1);
    Ok(Struct(dp_memory_stats {
        struct_size: size_of::<dp_memory_stats>(),
        bytes_in_use: stats.bytes_in_use,
        peak_bytes_in_use: or_unknown(stats.peak_bytes_in_use),
        num_allocs: or_unknown(stats.num_allocs),
        largest_alloc_size: or_unknown(stats.largest_alloc_size),
        bytes_limit: or_unknown(stats.bytes_limit),
        bytes_reserved: or_unknown(stats.bytes_reserved),
        peak_bytes_reserved: or_unknown(stats.peak_bytes_reserved),
        bytes_reservable_limit: or_unknown(stats.bytes_reservable_limit),
        largest_free_block_bytes: or_unknown(stats.largest_free_block_bytes),
        pool_bytes: or_unknown(stats.pool_bytes),
        peak_pool_bytes: or_unknown(stats.peak_pool_bytes),
        peak_allocated_bytes: or_unknown(stats.peak_allocated_bytes),
    }))
}

/// Sets the peaks and counts of the statistics back.
#[c_function]
pub fn dp_device_clear_memory_stats(device: &dp_device) -> Outcome<()> {
    Ok(device.inner.clear_memory_stats()?)
}

/// Makes the run with the launch id `launch_id` on this device fail with the given error, and returns whether there was
/// such a run. `code` is one of `DP_*`, and not `DP_OK`.
#[c_function]
pub fn dp_device_poison_execution(
    device: &dp_device,
    launch_id: i32,
    code: dp_code,
    message: Name<'_>,
) -> Outcome<bool> {
    Ok(device.inner.poison_execution(launch_id, error_code(code)?, message)?)
}

/// Returns the id of the device.
#[c_function]
pub fn dp_device_description_id(description: &dp_device_description) -> Outcome<i32> {
    Ok(description.inner.id()?)
}

/// Returns the index of the process that can use the device.
#[c_function]
pub fn dp_device_description_process_index(description: &dp_device_description) -> Outcome<i32> {
    Ok(description.inner.process_index()?)
}

/// Returns the kind of hardware. The text belongs to the description.
#[c_function]
pub fn dp_device_description_kind(description: &dp_device_description) -> Outcome<dp_string> {
    description.kind.get(|| description.inner.kind())
}

/// Returns a short text for display. It belongs to the description.
#[c_function]
pub fn dp_device_description_to_string(description: &dp_device_description) -> Outcome<dp_string> {
    description.shown.get(|| description.inner.display_string())
}

/// Returns a text with details, for debugging. It belongs to the description.
#[c_function]
pub fn dp_device_description_debug_string(description: &dp_device_description) -> Outcome<dp_string> {
    description.debug.get(|| description.inner.debug_string())
}

/// Returns the attributes that the plugin reports, such as coordinates.
#[c_function]
pub fn dp_device_description_attributes(description: &dp_device_description) -> Outcome<Owned<dp_options>> {
    Ok(Owned(dp_options::from_values(description.inner.attributes()?)))
}
