//! Devices, their descriptions and their memories.

use pjrt::raw::AsRaw;
use pjrt::{DeviceDescription, Function};
use pjrt_sys::{extension_slot, slot};

use super::kind::{End, Kind, Operation, ask, ask_extension, drop_all, list, named, nothing, operation, query};
use crate::case::Profiles;
use crate::raw::failure::text;

pub(crate) const DEVICE: Kind<()> = Kind {
    name: "shared.device",
    why: "all threads of a framework use the same devices",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: &[
        query!(PJRT_Device_GetDescription, |on, args| args.device = on.device.as_raw(), args.device_description),
        query!(PJRT_Device_IsAddressable, |on, args| args.device = on.device.as_raw(), args.is_addressable),
        query!(PJRT_Device_LocalHardwareId, |on, args| args.device = on.device.as_raw(), args.local_hardware_id),
        query!(
            PJRT_Device_AddressableMemories,
            |on, args| args.device = on.device.as_raw(),
            list(args.memories, args.num_memories)
        ),
        query!(PJRT_Device_DefaultMemory, |on, args| args.device = on.device.as_raw(), args.memory),
        // The statistics change while other threads execute, so only the limit is an answer.
        query!(
            PJRT_Device_MemoryStats,
            |on, args| args.device = on.device.as_raw(),
            (args.bytes_in_use >= 0, args.bytes_limit, args.bytes_limit_is_set)
        ),
        query!(PJRT_Device_ClearMemoryStats, |on, args| args.device = on.device.as_raw()),
        query!(
            PJRT_Device_PoisonExecution,
            |on, args| {
                (args.device, args.launch_id) = (on.device.as_raw(), i32::MAX);
                args.error_code = pjrt_sys::PJRT_Error_Code::PJRT_Error_Code_INTERNAL;
            },
            args.poisoned
        ),
        operation!([PJRT_Device_GetAttributes], |on| {
            let args = ask::<slot::PJRT_Device_GetAttributes>(on.plugin(), |args| args.device = on.device.as_raw())?;
            let answer = named(args.attributes, args.num_attributes);
            if let Some(delete) = args.attributes_deleter {
                // SAFETY: C3 (objects): the deleter runs once, after the last use of the attributes.
                unsafe { delete(args.device_attributes) };
            }
            Ok(format!("{answer:?}"))
        }),
        operation!([PJRT_Device_CreateAsyncTrackingEvent, PJRT_AsyncTrackingEvent_Destroy], |on| {
            let description = "threads";
            let args = ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(on.plugin(), |args| {
                args.device = on.device.as_raw();
                (args.description, args.description_size) = (description.as_ptr().cast(), description.len());
            })?;
            ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(on.plugin(), |destroy| destroy.event = args.event)?;
            Ok("created".to_owned())
        }),
    ],
    make: nothing,
    end: End::Never,
    finish: drop_all,
};

pub(crate) const DESCRIPTION: Kind<DeviceDescription> = Kind {
    name: "shared.device_description",
    why: "all threads of a framework use the same devices",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: &[
        query!(PJRT_DeviceDescription_Id, |on, args| args.device_description = on.extra.as_raw(), args.id),
        query!(
            PJRT_DeviceDescription_ProcessIndex,
            |on, args| args.device_description = on.extra.as_raw(),
            args.process_index
        ),
        query!(
            PJRT_DeviceDescription_Attributes,
            |on, args| args.device_description = on.extra.as_raw(),
            named(args.attributes, args.num_attributes)
        ),
        query!(
            PJRT_DeviceDescription_Kind,
            |on, args| args.device_description = on.extra.as_raw(),
            text(args.device_kind, args.device_kind_size)
        ),
        query!(
            PJRT_DeviceDescription_DebugString,
            |on, args| args.device_description = on.extra.as_raw(),
            text(args.debug_string, args.debug_string_size)
        ),
        query!(
            PJRT_DeviceDescription_ToString,
            |on, args| args.device_description = on.extra.as_raw(),
            text(args.to_string, args.to_string_size)
        ),
        operation!([PJRT_DeviceDescription_MemoryDescriptions, PJRT_MemoryDescription_Kind], |on| {
            let all =
                ask_extension::<extension_slot::PJRT_DeviceDescription_MemoryDescriptions>(on.plugin(), |args| {
                    args.device_description = on.extra.as_raw();
                })?;
            let mut kinds = Vec::new();
            for memory in list(all.memory_descriptions, all.num_memory_descriptions) {
                let kind = ask_extension::<extension_slot::PJRT_MemoryDescription_Kind>(on.plugin(), |args| {
                    args.memory_description = memory;
                })?;
                kinds.push((text(kind.kind, kind.kind_size), kind.kind_id));
            }
            Ok(format!("{kinds:?}, default {}", all.default_memory_index))
        }),
    ],
    make: |_, objects| Ok(objects.device.description()?),
    end: End::Never,
    finish: drop_all,
};

pub(crate) const MEMORY: Kind<()> = Kind {
    name: "shared.memory",
    why: "all threads of a framework use the same memories",
    operations: &[
        query!(PJRT_Memory_Id, |on, args| args.memory = on.memory.as_raw(), args.id),
        query!(PJRT_Memory_Kind, |on, args| args.memory = on.memory.as_raw(), text(args.kind, args.kind_size)),
        query!(PJRT_Memory_Kind_Id, |on, args| args.memory = on.memory.as_raw(), args.kind_id),
        query!(
            PJRT_Memory_DebugString,
            |on, args| args.memory = on.memory.as_raw(),
            text(args.debug_string, args.debug_string_size)
        ),
        query!(
            PJRT_Memory_ToString,
            |on, args| args.memory = on.memory.as_raw(),
            text(args.to_string, args.to_string_size)
        ),
        query!(
            PJRT_Memory_AddressableByDevices,
            |on, args| args.memory = on.memory.as_raw(),
            list(args.devices, args.num_devices)
        ),
    ],
    ..DEVICE
};
