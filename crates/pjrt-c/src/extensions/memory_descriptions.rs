//! The memories of devices that need not be present.

use pjrt::extensions::{MemoryDescription, MemoryDescriptions};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::memory;
use crate::border::memory::Struct;
use crate::border::sized::struct_sizes;
use crate::client::dp_device_description;
use crate::extensions::info::{extension, lend_name};
use crate::registry::dp_plugin;

/// A memory of a device that need not be present.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_memory_description {
    /// `sizeof(dp_memory_description)`, set by the caller.
    pub struct_size: usize,
    /// The kind of memory, such as `device` or `pinned_host`.
    pub kind: dp_string,
    /// A number for the kind of memory.
    pub kind_id: i32,
    /// Whether arrays are stored in this memory unless the program says otherwise.
    pub is_default: bool,
}

struct_sizes!(dp_memory_description);

/// Returns the number of memories of a device of a topology. The plugin is that of the topology.
#[c_function]
pub fn dp_plugin_memory_description_count(plugin: &dp_plugin, device: &dp_device_description) -> Outcome<usize> {
    Ok(memories(plugin, device)?.len())
}

/// Fills `out` with the memory at `index`, counted from 0, of a device of a topology. The plugin is that of the
/// topology. The text is valid until the process ends.
#[c_function]
pub fn dp_plugin_memory_description_at(
    plugin: &dp_plugin,
    device: &dp_device_description,
    index: usize,
) -> Outcome<Struct<dp_memory_description>> {
    let found = memories(plugin, device)?;
    let found = memory::at(&found, index)?;
    Ok(Struct(dp_memory_description {
        struct_size: size_of::<dp_memory_description>(),
        kind: lend_name(&found.kind),
        kind_id: found.kind_id,
        is_default: found.is_default,
    }))
}

fn memories(plugin: &dp_plugin, device: &dp_device_description) -> Outcome<Vec<MemoryDescription>> {
    let loaded = plugin.entry.load()?;
    Ok(extension::<MemoryDescriptions>(loaded.plugin(), "MemoryDescriptions")?.memories(&device.inner)?)
}
