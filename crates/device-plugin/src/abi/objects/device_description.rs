//! The objects behind `PJRT_DeviceDescription*` and `PJRT_MemoryDescription*`: describe a device that need not be
//! present, and its memories.

use pjrt_sys::PJRT_MemoryDescription;

use crate::abi::objects::owned_arrays::{NamedValues, Pointers};
use crate::{DeviceInfo, MemoryInfo};

/// The object behind a `PJRT_DeviceDescription*`. The topology owns it.
pub(crate) struct DeviceDescription {
    pub(crate) info: DeviceInfo,
    pub(crate) attributes: NamedValues,
    /// The memories that the device can address, in the device's order of preference. `memory_handles` points to them.
    _memories: Box<[MemoryDescription]>,
    pub(crate) memory_handles: Pointers<PJRT_MemoryDescription>,
}

/// The object behind a `PJRT_MemoryDescription*`. The device description owns it.
pub(crate) struct MemoryDescription {
    pub(crate) kind: String,
    pub(crate) kind_id: i32,
}

impl DeviceDescription {
    pub(crate) fn new(mut info: DeviceInfo, memories: &[MemoryInfo]) -> Self {
        if info.debug_string.is_empty() {
            info.debug_string = format!("{}(id={}, process={})", info.kind, info.id, info.process_index);
        }
        if info.display_string.is_empty() {
            info.display_string = format!("{}:{}", info.kind, info.id);
        }
        let attributes = NamedValues::attributes(info.attributes.clone());
        let reached = memories.iter().filter(|memory| memory.devices.contains(&info.id));
        let describe = |memory: &MemoryInfo| MemoryDescription { kind: memory.kind.clone(), kind_id: memory.kind_id };
        let memories: Box<[_]> = reached.map(describe).collect();
        Self { info, attributes, memory_handles: Pointers::of(&memories), _memories: memories }
    }
}
