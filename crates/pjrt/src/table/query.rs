//! Calls PJRT functions whose only input is one object. All other arguments of these functions are outputs.
//!
//! The macro `queries` defines how to read the output of each function, so that the callers need no unsafe code.

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use pjrt_sys::*;
use pjrt_types::NamedValue;

use crate::error::Error;
use crate::table::api::FallibleSlot;
use crate::table::handle::{Handle, Owner};
use crate::table::named_value;
use crate::table::read::{self, Malformed};

/// A PJRT function whose only input is an object.
///
/// # Safety
///
/// `args` returns arguments that contain the object, and the PJRT function reads no other argument.
pub(crate) unsafe trait Query: FallibleSlot {
    /// The type of the object.
    type Object;
    /// The type of the output. The output may borrow from the object.
    type Output<'a>;

    /// Creates the arguments for an object.
    fn args(object: *mut Self::Object) -> Self::Args;

    /// Reads the output from the arguments.
    ///
    /// # Safety
    ///
    /// A successful call of the function filled `args`, and the object lives for `'a`.
    unsafe fn output<'a>(args: &Self::Args) -> Result<Self::Output<'a>, Malformed>;
}

impl<T, O: Owner> Handle<T, O> {
    /// Calls the function `Q` with this object and returns the output.
    #[inline]
    pub(crate) fn query<Q: Query<Object = T>>(&self) -> Result<Q::Output<'_>, Error> {
        let mut args = Q::args(self.as_ptr());
        // SAFETY: C2 (calls), C3 (objects): the owner keeps the object alive. By the contract of `Query`, the function
        // reads no other argument.
        unsafe { self.api().call::<Q>(&mut args) }?;
        // SAFETY: the call succeeded, and the object lives at least as long as `self`.
        unsafe { Q::output(&args) }.map_err(|broken| Error::malformed(Q::NAME, broken))
    }
}

/// Implements `Query` for PJRT functions. Each line names the function, its arguments struct, the field and type of the
/// object, the kind of the output, and the fields of the output.
macro_rules! queries {
    ($($function:ident($args:ident, $field:ident: $object:ident) => $kind:ident($($out:tt)*);)*) => {
        $(
            // SAFETY: by the header, the object is the only argument that the function reads.
            unsafe impl Query for slot::$function {
                type Object = $object;
                type Output<'a> = queries!(@type $kind($($out)*));

                #[inline]
                fn args(object: *mut $object) -> $args {
                    let mut args = $args::new();
                    args.$field = object;
                    args
                }

                #[inline]
                unsafe fn output<'a>(args: &$args) -> Result<Self::Output<'a>, Malformed> {
                    queries!(@read $kind(args, $($out)*))
                }
            }
        )*
    };
    (@type value($out:ident: $type:ty)) => { $type };
    (@read value($args:ident, $out:ident: $type:ty)) => { Ok($args.$out) };
    (@type flag($out:ident)) => { bool };
    (@read flag($args:ident, $out:ident)) => { Ok($args.$out.get()) };
    (@type object($out:ident: $type:ty)) => { NonNull<$type> };
    (@read object($args:ident, $out:ident: $type:ty)) => { read::object($args.$out) };
    (@type text($out:ident, $len:ident)) => { Cow<'a, str> };
    (@read text($args:ident, $out:ident, $len:ident)) => {
        // SAFETY: C3 (objects): the string lives as long as the object.
        unsafe { read::text($args.$out, $args.$len) }
    };
    (@type list($out:ident, $len:ident: $type:ty)) => { &'a [$type] };
    (@read list($args:ident, $out:ident, $len:ident: $type:ty)) => {
        // SAFETY: C3 (objects): the array lives as long as the object.
        unsafe { read::slice::<$type>($args.$out, $args.$len) }
    };
    (@type named($out:ident, $len:ident)) => { Vec<NamedValue> };
    (@read named($args:ident, $out:ident, $len:ident)) => {
        // SAFETY: C3 (objects): the values live as long as the object.
        unsafe { named_value::read($args.$out, $args.$len) }
    };
    (@type done()) => { () };
    (@read done($args:ident,)) => {{
        let _ = $args;
        Ok(())
    }};
    (@type all($args:ident)) => { $args };
    (@read all($filled:ident, $args:ident)) => { Ok(*$filled) };
}

queries! {
    PJRT_Event_IsReady(PJRT_Event_IsReady_Args, event: PJRT_Event) => flag(is_ready);
    PJRT_Event_Error(PJRT_Event_Error_Args, event: PJRT_Event) => done();
    PJRT_Event_Await(PJRT_Event_Await_Args, event: PJRT_Event) => done();

    PJRT_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args, buffer: PJRT_Buffer) => value(buffer_pointer: usize);
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, buffer: PJRT_Buffer)
        => value(device_memory_ptr: *mut c_void);
    PJRT_Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer: PJRT_Buffer)
        => done();
    PJRT_Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer: PJRT_Buffer)
        => done();

    PJRT_AsyncHostToDeviceTransferManager_Device(
        PJRT_AsyncHostToDeviceTransferManager_Device_Args, transfer_manager: PJRT_AsyncHostToDeviceTransferManager
    ) => object(device_out: PJRT_Device);
    PJRT_AsyncHostToDeviceTransferManager_BufferCount(
        PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args, transfer_manager: PJRT_AsyncHostToDeviceTransferManager
    ) => value(buffer_count: usize);

    PJRT_Client_PlatformName(PJRT_Client_PlatformName_Args, client: PJRT_Client)
        => text(platform_name, platform_name_size);
    PJRT_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args, client: PJRT_Client) => value(process_index: c_int);
    PJRT_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args, client: PJRT_Client)
        => text(platform_version, platform_version_size);
    PJRT_Client_TopologyDescription(PJRT_Client_TopologyDescription_Args, client: PJRT_Client)
        => object(topology: PJRT_TopologyDescription);
    PJRT_Client_Devices(PJRT_Client_Devices_Args, client: PJRT_Client) => list(devices, num_devices: *mut PJRT_Device);
    PJRT_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args, client: PJRT_Client)
        => list(addressable_devices, num_addressable_devices: *mut PJRT_Device);
    PJRT_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args, client: PJRT_Client)
        => list(addressable_memories, num_addressable_memories: *mut PJRT_Memory);

    PJRT_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args, device_description: PJRT_DeviceDescription)
        => value(id: c_int);
    PJRT_DeviceDescription_ProcessIndex(
        PJRT_DeviceDescription_ProcessIndex_Args, device_description: PJRT_DeviceDescription
    ) => value(process_index: c_int);
    PJRT_DeviceDescription_Attributes(
        PJRT_DeviceDescription_Attributes_Args, device_description: PJRT_DeviceDescription
    ) => named(attributes, num_attributes);
    PJRT_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args, device_description: PJRT_DeviceDescription)
        => text(device_kind, device_kind_size);
    PJRT_DeviceDescription_DebugString(
        PJRT_DeviceDescription_DebugString_Args, device_description: PJRT_DeviceDescription
    ) => text(debug_string, debug_string_size);
    PJRT_DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args, device_description: PJRT_DeviceDescription)
        => text(to_string, to_string_size);

    PJRT_Device_GetDescription(PJRT_Device_GetDescription_Args, device: PJRT_Device)
        => object(device_description: PJRT_DeviceDescription);
    PJRT_Device_IsAddressable(PJRT_Device_IsAddressable_Args, device: PJRT_Device) => flag(is_addressable);
    PJRT_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args, device: PJRT_Device)
        => value(local_hardware_id: c_int);
    PJRT_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args, device: PJRT_Device)
        => list(memories, num_memories: *mut PJRT_Memory);
    PJRT_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args, device: PJRT_Device) => object(memory: PJRT_Memory);
    PJRT_Device_MemoryStats(PJRT_Device_MemoryStats_Args, device: PJRT_Device) => all(PJRT_Device_MemoryStats_Args);
    PJRT_Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args, device: PJRT_Device) => done();
    PJRT_Device_GetAttributes(PJRT_Device_GetAttributes_Args, device: PJRT_Device)
        => all(PJRT_Device_GetAttributes_Args);

    PJRT_Memory_Id(PJRT_Memory_Id_Args, memory: PJRT_Memory) => value(id: c_int);
    PJRT_Memory_Kind(PJRT_Memory_Kind_Args, memory: PJRT_Memory) => text(kind, kind_size);
    PJRT_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args, memory: PJRT_Memory) => value(kind_id: c_int);
    PJRT_Memory_DebugString(PJRT_Memory_DebugString_Args, memory: PJRT_Memory)
        => text(debug_string, debug_string_size);
    PJRT_Memory_ToString(PJRT_Memory_ToString_Args, memory: PJRT_Memory) => text(to_string, to_string_size);
    PJRT_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args, memory: PJRT_Memory)
        => list(devices, num_devices: *mut PJRT_Device);

    PJRT_Executable_Name(PJRT_Executable_Name_Args, executable: PJRT_Executable)
        => text(executable_name, executable_name_size);
    PJRT_Executable_NumReplicas(PJRT_Executable_NumReplicas_Args, executable: PJRT_Executable)
        => value(num_replicas: usize);
    PJRT_Executable_NumPartitions(PJRT_Executable_NumPartitions_Args, executable: PJRT_Executable)
        => value(num_partitions: usize);
    PJRT_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args, executable: PJRT_Executable)
        => value(num_outputs: usize);
    PJRT_Executable_SizeOfGeneratedCodeInBytes(
        PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, executable: PJRT_Executable
    ) => value(size_in_bytes: i64);
    PJRT_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args, executable: PJRT_Executable)
        => list(executable_fingerprint, executable_fingerprint_size: std::ffi::c_char);
    PJRT_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args, executable: PJRT_Executable)
        => named(properties, num_properties);
    PJRT_Executable_GetCompiledMemoryStats(
        PJRT_Executable_GetCompiledMemoryStats_Args, executable: PJRT_Executable
    ) => all(PJRT_Executable_GetCompiledMemoryStats_Args);
    PJRT_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args, executable: PJRT_Executable)
        => list(output_types, num_output_types: PJRT_Buffer_Type);
    PJRT_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args, executable: PJRT_Executable)
        => all(PJRT_Executable_OutputDimensions_Args);
    PJRT_Executable_ParameterMemoryKinds(PJRT_Executable_ParameterMemoryKinds_Args, executable: PJRT_Executable)
        => all(PJRT_Executable_ParameterMemoryKinds_Args);
    PJRT_Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args, executable: PJRT_Executable)
        => all(PJRT_Executable_OutputMemoryKinds_Args);
    PJRT_Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args, executable: PJRT_Executable)
        => all(PJRT_Executable_GetCompileOptions_Args);

    PJRT_LoadedExecutable_GetExecutable(
        PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable: PJRT_LoadedExecutable
    ) => object(executable: PJRT_Executable);
    PJRT_LoadedExecutable_AddressableDevices(
        PJRT_LoadedExecutable_AddressableDevices_Args, executable: PJRT_LoadedExecutable
    ) => list(addressable_devices, num_addressable_devices: *mut PJRT_Device);
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds(
        PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, executable: PJRT_LoadedExecutable
    ) => list(addressable_device_logical_ids, num_addressable_device_logical_ids: PJRT_LogicalDeviceIds);
    PJRT_LoadedExecutable_GetDeviceAssignment(
        PJRT_LoadedExecutable_GetDeviceAssignment_Args, executable: PJRT_LoadedExecutable
    ) => all(PJRT_LoadedExecutable_GetDeviceAssignment_Args);
    PJRT_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args, executable: PJRT_LoadedExecutable) => done();
    PJRT_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args, executable: PJRT_LoadedExecutable)
        => flag(is_deleted);

    PJRT_Buffer_ElementType(PJRT_Buffer_ElementType_Args, buffer: PJRT_Buffer) => value(type_: PJRT_Buffer_Type);
    PJRT_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args, buffer: PJRT_Buffer) => list(dims, num_dims: i64);
    PJRT_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args, buffer: PJRT_Buffer)
        => list(unpadded_dims, num_dims: i64);
    PJRT_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args, buffer: PJRT_Buffer)
        => list(dynamic_dim_indices, num_dynamic_dims: usize);
    PJRT_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args, buffer: PJRT_Buffer)
        => all(PJRT_Buffer_GetMemoryLayout_Args);
    PJRT_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args, buffer: PJRT_Buffer)
        => value(on_device_size_in_bytes: usize);
    PJRT_Buffer_Device(PJRT_Buffer_Device_Args, buffer: PJRT_Buffer) => object(device: PJRT_Device);
    PJRT_Buffer_Memory(PJRT_Buffer_Memory_Args, buffer: PJRT_Buffer) => object(memory: PJRT_Memory);
    PJRT_Buffer_Delete(PJRT_Buffer_Delete_Args, buffer: PJRT_Buffer) => done();
    PJRT_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args, buffer: PJRT_Buffer) => flag(is_deleted);
    PJRT_Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args, buffer: PJRT_Buffer) => flag(is_on_cpu);
    PJRT_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args, buffer: PJRT_Buffer) => object(event: PJRT_Event);

    PJRT_CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args, stream: PJRT_CopyToDeviceStream)
        => value(total_bytes: i64);
    PJRT_CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args, stream: PJRT_CopyToDeviceStream)
        => value(granule_size_in_bytes: i64);
    PJRT_CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args, stream: PJRT_CopyToDeviceStream)
        => value(current_bytes: i64);

    PJRT_TopologyDescription_GetMemorySpaceKindIds(
        PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, topology: PJRT_TopologyDescription
    ) => list(memory_space_kind_ids, num_memory_space_kind_ids: c_int);
    PJRT_TopologyDescription_PlatformName(
        PJRT_TopologyDescription_PlatformName_Args, topology: PJRT_TopologyDescription
    ) => text(platform_name, platform_name_size);
    PJRT_TopologyDescription_PlatformVersion(
        PJRT_TopologyDescription_PlatformVersion_Args, topology: PJRT_TopologyDescription
    ) => text(platform_version, platform_version_size);
    PJRT_TopologyDescription_GetDeviceDescriptions(
        PJRT_TopologyDescription_GetDeviceDescriptions_Args, topology: PJRT_TopologyDescription
    ) => list(descriptions, num_descriptions: *mut PJRT_DeviceDescription);
    PJRT_TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args, topology: PJRT_TopologyDescription)
        => all(PJRT_TopologyDescription_Serialize_Args);
    PJRT_TopologyDescription_Attributes(
        PJRT_TopologyDescription_Attributes_Args, topology: PJRT_TopologyDescription
    ) => named(attributes, num_attributes);
    PJRT_TopologyDescription_Fingerprint(
        PJRT_TopologyDescription_Fingerprint_Args, topology: PJRT_TopologyDescription
    ) => value(fingerprint: u64);
}

// SAFETY: by the header, the object is the only argument that the function reads.
unsafe impl Query for slot::PJRT_Executable_Serialize {
    type Object = PJRT_Executable;
    type Output<'a> = PJRT_Executable_Serialize_Args;

    fn args(object: *mut PJRT_Executable) -> PJRT_Executable_Serialize_Args {
        let mut args = PJRT_Executable_Serialize_Args::new();
        args.executable = object;
        args
    }

    unsafe fn output<'a>(args: &PJRT_Executable_Serialize_Args) -> Result<Self::Output<'a>, Malformed> {
        Ok(*args)
    }
}

/// Copies bytes that the plugin allocated for one call, and frees the plugin's allocation with the plugin's deleter.
///
/// # Safety
///
/// One successful call returned `bytes`, `len`, `owner` and `deleter`, and the deleter has not run yet.
pub(crate) unsafe fn serialized<T>(
    function: &'static str,
    bytes: *const std::ffi::c_char,
    len: usize,
    owner: *mut T,
    deleter: Option<unsafe extern "C" fn(*mut T)>,
) -> Result<Vec<u8>, Error> {
    // SAFETY: C3 (objects): the bytes live until the deleter runs.
    let copy = unsafe { read::slice(bytes.cast::<u8>(), len) }.map(<[u8]>::to_vec);
    if let Some(deleter) = deleter {
        // SAFETY: C3 (objects): the deleter runs once for its object.
        unsafe { deleter(owner) };
    }
    copy.map_err(|broken| Error::malformed(function, broken))
}
