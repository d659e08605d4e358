//! Reads the contents of buffers back to the host.

use std::time::Duration;

use pjrt_record::{ArrayType, Failure, Layout, MemoryLayout, Tiled};

use super::calls::{array, layout};
use crate::core::{BufferInfo, BufferLayout, Plugin};
use crate::layer_error::LayerError;

/// Maximum time to wait for a buffer's contents. Without a limit, the layer would deadlock if the contents depend on a
/// transfer that the framework starts only later.
const LIMIT: Duration = Duration::from_mins(1);

/// The contents and properties of a buffer on a device.
pub(super) struct Contents {
    pub(super) array: ArrayType,
    /// The layout of the buffer, as the plugin describes it.
    pub(super) device_layout: Option<MemoryLayout>,
    /// The handle of the buffer's device, or 0 if the plugin does not report the device.
    pub(super) device: usize,
    /// The handle of the buffer's memory, or 0 if the plugin does not report the memory.
    pub(super) memory: usize,
    /// The data with their layout, or the error if the download failed.
    pub(super) data: Result<(Vec<u8>, MemoryLayout), Failure>,
}

/// Copies a buffer to the host. Returns an error if the plugin does not report the buffer's type and shape.
pub(super) fn read(plugin: &Plugin, buffer: usize) -> Result<Contents, Failure> {
    let info = plugin.buffer_info(buffer).map_err(failure)?;
    let BufferInfo { element_type, dimensions, device, memory, .. } = info;
    // Request the dimension order of the buffer's layout, because old plugins ignore the requested order and always use
    // the order of this layout.
    let rank = i64::try_from(dimensions.len()).unwrap_or(0);
    let order = match &info.layout {
        Some(BufferLayout::Tiled { minor_to_major, .. }) if minor_to_major.len() == dimensions.len() => {
            minor_to_major.clone()
        }
        _ => (0..rank).rev().collect(),
    };
    let data = plugin.read_buffer(buffer, &order, LIMIT).map_err(failure);
    let order = MemoryLayout { layout: Some(Layout::Tiled(Tiled { minor_to_major: order, tiles: Vec::new() })) };
    Ok(Contents {
        array: array(element_type, dimensions),
        device_layout: info.layout.map(layout),
        device,
        memory,
        data: data.map(|data| (data, order)),
    })
}

pub(super) fn failure(error: LayerError) -> Failure {
    Failure { code: error.code.as_raw(), message: error.message }
}
