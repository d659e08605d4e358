//! The functions of `PJRT_LoadedExecutable`, except `PJRT_LoadedExecutable_Execute`.

use std::sync::Arc;

use plugin_macros::entry;

use crate::abi::objects::executable::handles::LoadedExecutable;
use crate::abi::objects::owned_arrays::{Blob, delete_blob};
use crate::abi::table::handles::handles;
use crate::{DevicePlugin, Result};

handles! {
    PJRT_LoadedExecutable => LoadedExecutable<P::Backend>;
}

#[entry(destroys)]
unsafe fn PJRT_LoadedExecutable_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_Destroy_Args,
) -> Result<()> {
    if !args.executable.is_null() {
        // SAFETY: V2 (handles): the handle came from `Executable::load`, and the framework no longer uses it.
        drop(unsafe { Arc::from_raw(args.executable.cast_const().cast::<LoadedExecutable<P::Backend>>()) });
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_GetExecutable<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_GetExecutable_Args,
    loaded_executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    args.executable = Arc::clone(&loaded_executable.executable).into_raw();
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_AddressableDevices<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_AddressableDevices_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    args.addressable_devices = executable.device_handles.as_slice().as_ptr();
    args.num_addressable_devices = executable.device_handles.as_slice().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_AddressableDeviceLogicalIds<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    args.addressable_device_logical_ids = executable.logical_ids.as_ptr().cast_mut();
    args.num_addressable_device_logical_ids = executable.logical_ids.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_GetDeviceAssignment<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_GetDeviceAssignment_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    let blob = Blob::new(executable.assignment.encode());
    args.serialized_bytes = blob.bytes;
    args.serialized_bytes_size = blob.size;
    args.serialized_device_assignment = blob.owner.cast();
    args.serialized_device_assignment_deleter = Some(delete_blob);
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_Delete<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_Delete_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    executable.delete();
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_IsDeleted<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_IsDeleted_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    args.is_deleted = executable.is_deleted().into();
    Ok(())
}

#[entry]
unsafe fn PJRT_LoadedExecutable_Fingerprint<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_LoadedExecutable_Fingerprint_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    args.executable_fingerprint = executable.executable.fingerprint.as_ptr().cast();
    args.executable_fingerprint_size = executable.executable.fingerprint.len();
    Ok(())
}
