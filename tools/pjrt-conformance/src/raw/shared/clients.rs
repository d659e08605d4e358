//! Clients: queries, and functions that create objects.

use std::ffi::c_void;
use std::ptr::null_mut;

use pjrt::Function;
use pjrt::raw::AsRaw;
use pjrt_sys::{PJRT_Buffer_Type, PJRT_Error_Code, PJRT_HostBufferSemantics, PJRT_ShapeSpec, extension_slot, slot};

use super::kind::{
    Answer, DIMENSIONS, End, Kind, LEN, Operation, SIZE, With, ask, ask_extension, destroy_buffer, drop_all, list,
    named, nothing, operation, query, sized, take, wait,
};
use crate::case::Profiles;
use crate::raw::failure::text;
use crate::stop::Stop;

const F32: PJRT_Buffer_Type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;

/// Elements with the alignment that XLA's CPU plugins require of views. The plugin only reads them.
#[repr(align(64))]
struct Aligned([f32; LEN as usize]);

static DATA: Aligned = Aligned([1.5; LEN as usize]);

pub(crate) const CLIENT: Kind<()> = Kind {
    name: "shared.client",
    why: "all threads of a framework use one client",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: OPERATIONS,
    make: nothing,
    end: End::Never,
    finish: drop_all,
};

const OPERATIONS: &[Operation<()>] = &[
    operation!([PJRT_Plugin_Attributes], |on| {
        let args = ask::<slot::PJRT_Plugin_Attributes>(on.plugin(), |_| ())?;
        let mut attributes = named(args.attributes, args.num_attributes);
        attributes.sort();
        Ok(format!("{attributes:?}"))
    }),
    query!(
        PJRT_Client_PlatformName,
        |on, args| args.client = on.client.as_raw(),
        text(args.platform_name, args.platform_name_size)
    ),
    query!(
        PJRT_Client_PlatformVersion,
        |on, args| args.client = on.client.as_raw(),
        text(args.platform_version, args.platform_version_size)
    ),
    query!(PJRT_Client_ProcessIndex, |on, args| args.client = on.client.as_raw(), args.process_index),
    query!(PJRT_Client_Devices, |on, args| args.client = on.client.as_raw(), list(args.devices, args.num_devices)),
    query!(
        PJRT_Client_AddressableDevices,
        |on, args| args.client = on.client.as_raw(),
        list(args.addressable_devices, args.num_addressable_devices)
    ),
    query!(
        PJRT_Client_AddressableMemories,
        |on, args| args.client = on.client.as_raw(),
        list(args.addressable_memories, args.num_addressable_memories)
    ),
    query!(PJRT_Client_TopologyDescription, |on, args| args.client = on.client.as_raw(), args.topology),
    query!(
        PJRT_Client_LookupDevice,
        |on, args| (args.client, args.id) = (on.client.as_raw(), on.device.id().unwrap_or(-1)),
        args.device
    ),
    query!(
        PJRT_Client_LookupAddressableDevice,
        |on, args| {
            args.client = on.client.as_raw();
            args.local_hardware_id = on.device.local_hardware_id().unwrap_or(-1);
        },
        args.addressable_device
    ),
    query!(PJRT_Client_UpdateGlobalProcessInfo, |on, args| args.client = on.client.as_raw()),
    operation!([PJRT_Client_DefaultDeviceAssignment], |on| {
        let mut assignment = [-1];
        ask::<slot::PJRT_Client_DefaultDeviceAssignment>(on.plugin(), |args| {
            args.client = on.client.as_raw();
            (args.num_replicas, args.num_partitions) = (1, 1);
            (args.default_assignment, args.default_assignment_size) = (assignment.as_mut_ptr(), 1);
        })?;
        Ok(format!("{assignment:?}"))
    }),
    operation!([PJRT_Client_BufferFromHostBuffer, PJRT_Buffer_ToHostBuffer, PJRT_Buffer_Destroy], |on| {
        let args = ask::<slot::PJRT_Client_BufferFromHostBuffer>(on.plugin(), |args| {
            args.client = on.client.as_raw();
            (args.data, args.type_) = (DATA.0.as_ptr().cast(), F32);
            (args.dims, args.num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
            args.host_buffer_semantics =
                PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
            args.device = on.device.as_raw();
        })?;
        let answer = take(on.plugin(), args.buffer);
        wait(on.plugin(), args.done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer")?;
        answer
    }),
    operation!([PJRT_Client_CreateUninitializedBuffer, PJRT_Buffer_Destroy], |on| {
        let args = ask::<slot::PJRT_Client_CreateUninitializedBuffer>(on.plugin(), |args| {
            (args.client, args.memory) = (on.client.as_raw(), on.memory.as_raw());
            (args.shape_dims, args.shape_num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
            args.shape_element_type = F32;
        })?;
        destroy_buffer(on.plugin(), args.buffer).map(|()| "created".to_owned())
    }),
    operation!([PJRT_Client_CreateErrorBuffer, PJRT_Buffer_Destroy], |on| {
        let message = "failed";
        let args = ask::<slot::PJRT_Client_CreateErrorBuffer>(on.plugin(), |args| {
            (args.client, args.memory) = (on.client.as_raw(), on.memory.as_raw());
            args.error_code = PJRT_Error_Code::PJRT_Error_Code_INTERNAL;
            (args.error_message, args.error_message_size) = (message.as_ptr().cast(), message.len());
            (args.shape_dims, args.shape_num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
            args.shape_element_type = F32;
        })?;
        destroy_buffer(on.plugin(), args.buffer).map(|()| "created".to_owned())
    }),
    operation!(
        [PJRT_Client_CreateAliasBuffer, PJRT_Client_FulfillAliasBuffer, PJRT_Buffer_ToHostBuffer, PJRT_Buffer_Destroy],
        alias
    ),
    operation!([PJRT_Client_CreateViewOfDeviceBuffer, PJRT_Buffer_ToHostBuffer, PJRT_Buffer_Destroy], |on| {
        if !on.buffer.is_on_cpu()? {
            return Err(Stop::Unsupported("the host cannot address the device's memory".to_owned()));
        }
        let args = ask::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(on.plugin(), |args| {
            (args.client, args.device, args.memory) = (on.client.as_raw(), on.device.as_raw(), on.memory.as_raw());
            args.device_buffer_ptr = DATA.0.as_ptr().cast_mut().cast();
            (args.dims, args.num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
            args.element_type = F32;
            args.on_delete_callback = Some(keep);
        })?;
        take(on.plugin(), args.buffer)
    }),
    operation!([PJRT_Client_CreateBuffersForAsyncHostToDevice, PJRT_AsyncHostToDeviceTransferManager_Destroy], |on| {
        let mut specs = [sized::<PJRT_ShapeSpec>(on.plugin())];
        (specs[0].dims, specs[0].num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
        specs[0].element_type = F32;
        let args = ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(on.plugin(), |args| {
            (args.client, args.memory) = (on.client.as_raw(), on.memory.as_raw());
            (args.shape_specs, args.num_shape_specs) = (specs.as_mut_ptr(), specs.len());
        })?;
        ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(on.plugin(), |destroy| {
            destroy.transfer_manager = args.transfer_manager;
        })?;
        Ok("created".to_owned())
    }),
    operation!([PJRT_Client_DmaMap, PJRT_Client_DmaUnmap], |on| {
        let mut memory = vec![0u8; SIZE];
        let data = memory.as_mut_ptr().cast();
        ask::<slot::PJRT_Client_DmaMap>(on.plugin(), |args| {
            (args.client, args.data, args.size) = (on.client.as_raw(), data, SIZE);
        })?;
        ask::<slot::PJRT_Client_DmaUnmap>(on.plugin(), |args| {
            (args.client, args.data) = (on.client.as_raw(), data);
        })?;
        Ok("mapped".to_owned())
    }),
    operation!([PJRT_HostMemoryAllocator_Allocate], |on| {
        let args = ask_extension::<extension_slot::PJRT_HostMemoryAllocator_Allocate>(on.plugin(), |args| {
            (args.client, args.size, args.numa_node) = (on.client.as_raw(), SIZE, -1);
        })?;
        if let Some(delete) = args.deleter {
            // SAFETY: C3 (objects): the deleter runs once, and nothing uses the memory.
            unsafe { delete(args.ptr.cast(), args.deleter_arg) };
        }
        ensure!(!args.ptr.is_null(), "the plugin allocated no memory");
        Ok("allocated".to_owned())
    }),
];

/// The callback of a view. The view's memory is static.
unsafe extern "C" fn keep(_: *mut c_void, _: *mut c_void) {}

/// Creates an alias, and fulfills it with the shared buffer.
fn alias(on: &With<()>) -> Answer {
    let plugin = on.plugin();
    let args = ask::<slot::PJRT_Client_CreateAliasBuffer>(plugin, |args| {
        (args.client, args.memory) = (on.client.as_raw(), on.memory.as_raw());
        (args.shape_dims, args.shape_num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
        args.shape_element_type = F32;
    })?;
    let fulfilled = ask::<slot::PJRT_Client_FulfillAliasBuffer>(plugin, |fulfill| {
        (fulfill.client, fulfill.buffer) = (on.client.as_raw(), on.buffer.as_raw());
        (fulfill.error_message, fulfill.fulfill_alias_buffer_cb) = (null_mut(), args.fulfill_alias_buffer_cb);
    });
    match fulfilled {
        Ok(_) => take(plugin, args.alias_buffer),
        Err(stop) => {
            destroy_buffer(plugin, args.alias_buffer)?;
            Err(stop)
        }
    }
}
