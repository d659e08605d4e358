//! The functions of `PJRT_Memory`.

use plugin_macros::entry;

use crate::abi::objects::client::memory::Memory;
use crate::abi::table::handles::handles;
use crate::{DevicePlugin, Result};

handles! {
    PJRT_Memory => Memory;
}

#[entry]
unsafe fn PJRT_Memory_Id<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Memory_Id_Args, memory: &Memory) -> Result<()> {
    args.id = memory.id;
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_Kind<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Memory_Kind_Args, memory: &Memory) -> Result<()> {
    args.kind = memory.info.kind.as_ptr().cast();
    args.kind_size = memory.info.kind.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_Kind_Id<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_Kind_Id_Args,
    memory: &Memory,
) -> Result<()> {
    args.kind_id = memory.info.kind_id;
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_DebugString<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_DebugString_Args,
    memory: &Memory,
) -> Result<()> {
    args.debug_string = memory.debug_string.as_ptr().cast();
    args.debug_string_size = memory.debug_string.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_ToString<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_ToString_Args,
    memory: &Memory,
) -> Result<()> {
    args.to_string = memory.to_string.as_ptr().cast();
    args.to_string_size = memory.to_string.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Memory_AddressableByDevices<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Memory_AddressableByDevices_Args,
    memory: &Memory,
) -> Result<()> {
    args.devices = memory.devices().as_ptr();
    args.num_devices = memory.devices().len();
    Ok(())
}
