//! The memory descriptions extension: describes the memories of devices, including devices that are not present.

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::device_description::DeviceDescription;
use crate::abi::objects::device_description::MemoryDescription;
use crate::{DevicePlugin, Result};

extension! {
    /// The memory descriptions extension. Plugins of this SDK always offer it.
    MemoryDescriptions = PJRT_MemoryDescriptions_Extension if true;
    PJRT_DeviceDescription_MemoryDescriptions: PJRT_DeviceDescription_MemoryDescriptions,
    PJRT_MemoryDescription_Kind: PJRT_MemoryDescription_Kind,
}

#[entry(extension)]
unsafe fn PJRT_DeviceDescription_MemoryDescriptions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_MemoryDescriptions_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    let memories = device_description.memory_handles.as_slice();
    args.memory_descriptions = memories.as_ptr().cast();
    args.num_memory_descriptions = memories.len();
    // The first memory is the default one. `usize::MAX`, which the header writes as -1, means that the device has
    // no memory.
    args.default_memory_index = if memories.is_empty() { usize::MAX } else { 0 };
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_MemoryDescription_Kind<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_MemoryDescription_Kind_Args,
    memory_description: &MemoryDescription,
) -> Result<()> {
    args.kind = memory_description.kind.as_ptr().cast();
    args.kind_size = memory_description.kind.len();
    args.kind_id = memory_description.kind_id;
    Ok(())
}
