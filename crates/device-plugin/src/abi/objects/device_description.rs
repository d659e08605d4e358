//! `PJRT_DeviceDescription` and `PJRT_MemoryDescription`: describe a device that need not be present, and its memories.

use pjrt_sys::PJRT_MemoryDescription;
use plugin_macros::entry;

use crate::abi::objects::owned_arrays::{NamedValues, Pointers};
use crate::abi::table::ffi_read::handles;
use crate::{DeviceInfo, MemoryInfo, Result};

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

handles! {
    PJRT_DeviceDescription => DeviceDescription;
    PJRT_MemoryDescription => MemoryDescription;
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

#[entry]
unsafe fn PJRT_DeviceDescription_Id<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_Id_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.id = device_description.info.id;
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_ProcessIndex<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_ProcessIndex_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.process_index = device_description.info.process_index;
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_Attributes<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_Attributes_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    let attributes = device_description.attributes.raw();
    args.attributes = attributes.as_ptr();
    args.num_attributes = attributes.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_Kind<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_Kind_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.device_kind = device_description.info.kind.as_ptr().cast();
    args.device_kind_size = device_description.info.kind.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_DebugString<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_DebugString_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.debug_string = device_description.info.debug_string.as_ptr().cast();
    args.debug_string_size = device_description.info.debug_string.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_ToString<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_ToString_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.to_string = device_description.info.display_string.as_ptr().cast();
    args.to_string_size = device_description.info.display_string.len();
    Ok(())
}
