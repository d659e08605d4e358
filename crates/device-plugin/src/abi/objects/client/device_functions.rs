//! The functions of `PJRT_Device`, and of the tracking events that a device creates.

use pjrt_sys::Bool;
use plugin_macros::entry;

use crate::abi::objects::client::device::Device;
use crate::abi::objects::client::handle::Client;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::contain::drop_contained;
use crate::features::FeatureCalls;
use crate::{DevicePlugin, Error, Result};

handles! {
    PJRT_Device => Device;
}

/// The object behind a `PJRT_AsyncTrackingEvent*`: the value that the backend returned.
type Tracked = Box<dyn Send + Sync>;

#[entry]
unsafe fn PJRT_Device_GetDescription<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_GetDescription_Args,
    device: &Device,
) -> Result<()> {
    args.device_description = std::ptr::from_ref(device.description()).cast_mut().cast();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_IsAddressable<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_IsAddressable_Args,
    device: &Device,
) -> Result<()> {
    args.is_addressable = device.description().info.addressable.into();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_LocalHardwareId<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_LocalHardwareId_Args,
    device: &Device,
) -> Result<()> {
    args.local_hardware_id = device.description().info.local_hardware_id;
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_AddressableMemories<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_AddressableMemories_Args,
    device: &Device,
) -> Result<()> {
    args.memories = device.memories().as_ptr();
    args.num_memories = device.memories().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_DefaultMemory<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_DefaultMemory_Args,
    device: &Device,
) -> Result<()> {
    let memory = device.memories().first();
    args.memory =
        *memory.ok_or_else(|| Error::invalid_argument("the device is not addressable by this process").unnamed())?;
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_GetAttributes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_GetAttributes_Args,
    device: &Device,
) -> Result<()> {
    // The topology owns the attributes, so the deleter does nothing.
    unsafe extern "C" fn keep(_: *mut pjrt_sys::PJRT_Device_Attributes) {}
    let attributes = device.description().attributes.raw();
    args.attributes = attributes.as_ptr();
    args.num_attributes = attributes.len();
    args.device_attributes = std::ptr::from_ref(device.description()).cast_mut().cast();
    args.attributes_deleter = Some(keep);
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_MemoryStats<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_MemoryStats_Args,
    device: &Device,
) -> Result<()> {
    let client = Client::<P::Backend>::of_device(device)?;
    let stats = client.backend.memory_stats(device.index)?;
    let set = |value: &mut i64, is_set: &mut Bool, stat: Option<i64>| {
        *value = stat.unwrap_or(0);
        *is_set = stat.is_some().into();
    };
    args.bytes_in_use = stats.bytes_in_use;
    set(&mut args.peak_bytes_in_use, &mut args.peak_bytes_in_use_is_set, stats.peak_bytes_in_use);
    set(&mut args.num_allocs, &mut args.num_allocs_is_set, stats.num_allocs);
    set(&mut args.largest_alloc_size, &mut args.largest_alloc_size_is_set, stats.largest_alloc_size);
    set(&mut args.bytes_limit, &mut args.bytes_limit_is_set, stats.bytes_limit);
    set(&mut args.bytes_reserved, &mut args.bytes_reserved_is_set, stats.bytes_reserved);
    set(&mut args.peak_bytes_reserved, &mut args.peak_bytes_reserved_is_set, stats.peak_bytes_reserved);
    set(&mut args.bytes_reservable_limit, &mut args.bytes_reservable_limit_is_set, stats.bytes_reservable_limit);
    let largest_free = stats.largest_free_block_bytes;
    set(&mut args.largest_free_block_bytes, &mut args.largest_free_block_bytes_is_set, largest_free);
    set(&mut args.pool_bytes, &mut args.pool_bytes_is_set, stats.pool_bytes);
    set(&mut args.peak_pool_bytes, &mut args.peak_pool_bytes_is_set, stats.peak_pool_bytes);
    set(&mut args.peak_allocated_bytes, &mut args.peak_allocated_bytes_is_set, stats.peak_allocated_bytes);
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_ClearMemoryStats<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_ClearMemoryStats_Args,
    device: &Device,
) -> Result<()> {
    Client::<P::Backend>::of_device(device)?.backend.clear_memory_stats(device.index)
}

#[entry]
unsafe fn PJRT_Device_PoisonExecution<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_PoisonExecution_Args,
    device: &Device,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let error = unsafe {
        ffi_read::error_with_payload(
            (args.error_code.0, args.error_message, args.error_message_size),
            args.payload,
            args.num_payload,
        )
    }?;
    let client = Client::<P::Backend>::of_device(device)?;
    // The backend has not received launches that wait for their arguments, so the SDK poisons these launches
    // itself.
    let poisoned = client.deferred.poison(device.index, args.launch_id, &error)
        || client.backend.poison_execution(device.index, args.launch_id, error)?;
    args.poisoned = poisoned.into();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_CreateAsyncTrackingEvent<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_CreateAsyncTrackingEvent_Args,
    device: &Device,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let description = unsafe { ffi_read::text(args.description, args.description_size, "description") }?;
    let tracked: Tracked = Client::<P::Backend>::of_device(device)?.backend.track(device.index, description);
    args.event = Box::into_raw(Box::new(tracked)).cast();
    Ok(())
}

#[entry(destroys)]
unsafe fn PJRT_AsyncTrackingEvent_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncTrackingEvent_Destroy_Args,
) -> Result<()> {
    if !args.event.is_null() {
        // SAFETY: V2 (handles): `PJRT_Device_CreateAsyncTrackingEvent` boxed the event, and the framework no longer
        // uses it.
        drop_contained(unsafe { Box::from_raw(args.event.cast::<Tracked>()) });
    }
    Ok(())
}
