//! The functions of `PJRT_DeviceDescription`.

use plugin_macros::entry;

use crate::abi::objects::device_description::{DeviceDescription, MemoryDescription};
use crate::abi::table::handles::handles;
use crate::{DevicePlugin, Result};

handles! {
    PJRT_DeviceDescription => DeviceDescription;
    PJRT_MemoryDescription => MemoryDescription;
}

#[entry]
unsafe fn PJRT_DeviceDescription_Id<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_Id_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.id = device_description.info.id;
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_ProcessIndex<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_ProcessIndex_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.process_index = device_description.info.process_index;
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_Attributes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_Attributes_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    let attributes = device_description.attributes.raw();
    args.attributes = attributes.as_ptr();
    args.num_attributes = attributes.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_Kind<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_Kind_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.device_kind = device_description.info.kind.as_ptr().cast();
    args.device_kind_size = device_description.info.kind.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_DebugString<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_DebugString_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.debug_string = device_description.info.debug_string.as_ptr().cast();
    args.debug_string_size = device_description.info.debug_string.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_DeviceDescription_ToString<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_DeviceDescription_ToString_Args,
    device_description: &DeviceDescription,
) -> Result<()> {
    args.to_string = device_description.info.display_string.as_ptr().cast();
    args.to_string_size = device_description.info.display_string.len();
    Ok(())
}
