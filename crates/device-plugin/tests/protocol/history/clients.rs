//! Cases for the functions of errors, events, the plugin, clients, devices and memories.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use pjrt_sys::*;

use super::fixture::{DIMS, error, event, ready, toy_program};
use crate::framework::{read_values, slice, text, toy};

unsafe extern "C" fn count_payload(
    _: *const std::ffi::c_char,
    _: usize,
    _: *const std::ffi::c_char,
    _: usize,
    count: *mut std::ffi::c_void,
) {
    unsafe { &*count.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn count_ready(error: *mut PJRT_Error, count: *mut std::ffi::c_void) {
    assert!(error.is_null());
    unsafe { &*count.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

super::table! { CASES:
    PJRT_Error_Destroy(_, c) {
        let error = error();
        if c.call::<S>(|args| args.error = error).is_none() {
            super::fixture::destroy_error(error);
        }
    }
    PJRT_Error_Message(_, c) {
        let error = error();
        if let Some(args) = c.call::<S>(|args| args.error = error) {
            assert_eq!(unsafe { text(args.message, args.message_size) }, "as asked");
        }
        super::fixture::destroy_error(error);
    }
    PJRT_Error_GetCode(_, c) {
        let error = error();
        if let Some(args) = c.call::<S>(|args| args.error = error) {
            assert_eq!(args.code.0, 14);
        }
        super::fixture::destroy_error(error);
    }
    PJRT_Error_ForEachPayload(_, c) {
        let (error, count) = (error(), AtomicUsize::new(0));
        let called = c.call::<S>(|args| {
            args.error = error;
            args.visitor = Some(count_payload);
            args.user_arg = (&raw const count).cast_mut().cast();
        });
        assert_eq!(count.load(Ordering::Relaxed), usize::from(called.is_some()));
        super::fixture::destroy_error(error);
    }
    PJRT_Plugin_Initialize(_, c) {
        c.call::<S>(|_| {});
    }
    PJRT_Plugin_Attributes(_, c) {
        if let Some(args) = c.call::<S>(|_| {}) {
            let values = unsafe { read_values(args.attributes, args.num_attributes) };
            assert_eq!(values[0].name, "xla_version");
        }
    }
    PJRT_Event_Destroy(_, c) {
        let event = event();
        if c.call::<S>(|args| args.event = event).is_none() {
            toy().destroy_event(event);
        }
    }
    PJRT_Event_IsReady(_, c) {
        let event = ready();
        if let Some(args) = c.call::<S>(|args| args.event = event) {
            assert!(args.is_ready.get());
        }
        toy().destroy_event(event);
    }
    PJRT_Event_Error(_, c) {
        let event = ready();
        c.call::<S>(|args| args.event = event);
        toy().destroy_event(event);
    }
    PJRT_Event_Await(_, c) {
        let event = ready();
        c.call::<S>(|args| args.event = event);
        toy().destroy_event(event);
    }
    PJRT_Event_OnReady(_, c) {
        let (event, count) = (ready(), AtomicUsize::new(0));
        let called = c.call::<S>(|args| {
            args.event = event;
            args.callback = Some(count_ready);
            args.user_arg = (&raw const count).cast_mut().cast();
        });
        assert_eq!(count.load(Ordering::Relaxed), usize::from(called.is_some()));
        toy().destroy_event(event);
    }
    PJRT_Event_Create(_, c) {
        if let Some(args) = c.call::<S>(|_| {}) {
            assert!(!toy().is_ready(args.event));
            toy().destroy_event(args.event);
        }
    }
    PJRT_Event_Set(_, c) {
        let event = event();
        let called = c.call::<S>(|args| {
            (args.event, args.error_code) = (event, PJRT_Error_Code(0));
            (args.error_message, args.error_message_size) = (null(), 0);
        });
        assert_eq!(toy().is_ready(event), called.is_some());
        toy().destroy_event(event);
    }
    PJRT_Client_Create(_, c) {
        if let Some(args) = c.call::<S>(|args| (args.create_options, args.num_options) = (null(), 0)) {
            assert_eq!(toy().devices(args.client).len(), 2);
            toy().destroy_client(args.client);
        }
    }
    PJRT_Client_Destroy(_, c) {
        let client = toy().client(&[]).unwrap();
        if c.call::<S>(|args| args.client = client).is_none() {
            toy().destroy_client(client);
        }
    }
    PJRT_Client_PlatformName(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert_eq!(unsafe { text(args.platform_name, args.platform_name_size) }, "toy");
        }
    }
    PJRT_Client_PlatformVersion(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert_eq!(unsafe { text(args.platform_version, args.platform_version_size) }, "toy 1");
        }
    }
    PJRT_Client_ProcessIndex(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert_eq!(args.process_index, 0);
        }
    }
    PJRT_Client_Devices(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert_eq!(unsafe { slice(args.devices, args.num_devices) }, w.devices);
        }
    }
    PJRT_Client_AddressableDevices(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert_eq!(unsafe { slice(args.addressable_devices, args.num_addressable_devices) }, w.devices);
        }
    }
    PJRT_Client_LookupDevice(w, c) {
        if let Some(args) = c.call::<S>(|args| (args.client, args.id) = (w.client, 11)) {
            assert_eq!(args.device, w.devices[1]);
        }
    }
    PJRT_Client_LookupAddressableDevice(w, c) {
        if let Some(args) = c.call::<S>(|args| (args.client, args.local_hardware_id) = (w.client, 1)) {
            assert_eq!(args.addressable_device, w.devices[1]);
        }
    }
    PJRT_Client_AddressableMemories(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert_eq!(unsafe { slice(args.addressable_memories, args.num_addressable_memories) }, w.memories);
        }
    }
    PJRT_Client_TopologyDescription(w, c) {
        if let Some(args) = c.call::<S>(|args| args.client = w.client) {
            assert!(!args.topology.is_null());
        }
    }
    PJRT_Client_DefaultDeviceAssignment(w, c) {
        let mut ids = [-1i32; 2];
        let called = c.call::<S>(|args| {
            (args.client, args.num_replicas, args.num_partitions) = (w.client, 2, 1);
            (args.default_assignment_size, args.default_assignment) = (2, ids.as_mut_ptr());
        });
        assert_eq!(ids, if called.is_some() { [10, 11] } else { [-1, -1] });
    }
    PJRT_Client_UpdateGlobalProcessInfo(w, c) {
        c.call::<S>(|args| (args.client, args.process_infos, args.num_process_infos) = (w.client, null_mut(), 0));
    }
    PJRT_Client_DmaMap(_, c) {
        let client = toy().client(&[]).unwrap();
        c.call::<S>(|args| (args.client, args.data, args.size) = (client, std::ptr::without_provenance_mut(8192), 8));
        toy().destroy_client(client);
    }
    PJRT_Client_DmaUnmap(_, c) {
        let client = toy().client(&[]).unwrap();
        let data = std::ptr::without_provenance_mut(8192);
        let map = toy().ask::<slot::PJRT_Client_DmaMap>(|args| (args.client, args.data, args.size) = (client, data, 8));
        map.map(drop).unwrap();
        c.call::<S>(|args| (args.client, args.data) = (client, data));
        toy().destroy_client(client);
    }
    PJRT_Client_Compile(w, c) {
        let program = toy_program();
        let called = c.call::<S>(|args| {
            (args.client, args.program) = (w.client, &raw const program);
            (args.compile_options, args.compile_options_size) = (null(), 0);
        });
        if let Some(args) = called {
            toy().destroy_loaded(args.executable);
        }
    }
    PJRT_Client_Load(w, c) {
        let called = c.call::<S>(|args| {
            (args.client, args.executable) = (w.client, w.executable);
            (args.compile_options, args.compile_options_size) = (null(), 0);
        });
        if let Some(args) = called {
            toy().destroy_loaded(args.loaded_executable);
        }
    }
    PJRT_DeviceDescription_Id(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device_description = w.description) {
            assert_eq!(args.id, 10);
        }
    }
    PJRT_DeviceDescription_ProcessIndex(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device_description = w.description) {
            assert_eq!(args.process_index, 0);
        }
    }
    PJRT_DeviceDescription_Attributes(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device_description = w.description) {
            assert_eq!(unsafe { read_values(args.attributes, args.num_attributes) }[0].name, "coords");
        }
    }
    PJRT_DeviceDescription_Kind(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device_description = w.description) {
            assert_eq!(unsafe { text(args.device_kind, args.device_kind_size) }, "Toy v1");
        }
    }
    PJRT_DeviceDescription_DebugString(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device_description = w.description) {
            assert!(unsafe { text(args.debug_string, args.debug_string_size) }.contains("id=10"));
        }
    }
    PJRT_DeviceDescription_ToString(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device_description = w.description) {
            assert_eq!(unsafe { text(args.to_string, args.to_string_size) }, "Toy v1:10");
        }
    }
    PJRT_Device_GetDescription(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[0]) {
            assert_eq!(args.device_description, w.description);
        }
    }
    PJRT_Device_IsAddressable(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[0]) {
            assert!(args.is_addressable.get());
        }
    }
    PJRT_Device_LocalHardwareId(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[1]) {
            assert_eq!(args.local_hardware_id, 1);
        }
    }
    PJRT_Device_AddressableMemories(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[1]) {
            assert_eq!(unsafe { slice(args.memories, args.num_memories) }, &w.memories[1..]);
        }
    }
    PJRT_Device_DefaultMemory(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[1]) {
            assert_eq!(args.memory, w.memories[1]);
        }
    }
    PJRT_Device_MemoryStats(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[1]) {
            assert_eq!((args.bytes_in_use, args.num_allocs), (8, 3));
            assert!(args.num_allocs_is_set.get() && !args.bytes_limit_is_set.get());
            let has_peak = args.struct_size == PJRT_Device_MemoryStats_Args::STRUCT_SIZE;
            assert_eq!(args.peak_allocated_bytes_is_set.get(), !has_peak, "{}", args.struct_size);
        }
    }
    PJRT_Device_ClearMemoryStats(w, c) {
        c.call::<S>(|args| args.device = w.devices[0]);
    }
    PJRT_Device_PoisonExecution(w, c) {
        let called = c.call::<S>(|args| {
            (args.device, args.launch_id, args.error_code) = (w.devices[0], 54321, PJRT_Error_Code(10));
            (args.error_message, args.error_message_size) = (c"no".as_ptr(), 2);
            // In struct versions without a payload, these fields do not exist.
            (args.payload, args.num_payload) = (null(), 0);
        });
        if let Some(args) = called {
            assert!(!args.poisoned.get());
        }
    }
    PJRT_Device_CreateAsyncTrackingEvent(w, c) {
        let called = c.call::<S>(|args| {
            args.device = w.devices[0];
            (args.description, args.description_size) = (c"of age".as_ptr(), 6);
        });
        if let Some(args) = called {
            toy().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|destroy| destroy.event = args.event).unwrap();
        }
    }
    PJRT_AsyncTrackingEvent_Destroy(w, c) {
        let event = toy().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
            (args.device, args.description_size) = (w.devices[0], 0);
        });
        let event = event.unwrap().event;
        if c.call::<S>(|args| args.event = event).is_none() {
            toy().ask::<S>(|args| args.event = event).unwrap();
        }
    }
    PJRT_Device_GetAttributes(w, c) {
        if let Some(args) = c.call::<S>(|args| args.device = w.devices[0]) {
            assert_eq!(unsafe { read_values(args.attributes, args.num_attributes) }[0].name, "coords");
            unsafe { args.attributes_deleter.unwrap()(args.device_attributes) };
        }
    }
    PJRT_Memory_Id(w, c) {
        if let Some(args) = c.call::<S>(|args| args.memory = w.memories[2]) {
            assert_eq!(args.id, 2);
        }
    }
    PJRT_Memory_Kind(w, c) {
        if let Some(args) = c.call::<S>(|args| args.memory = w.memories[2]) {
            assert_eq!(unsafe { text(args.kind, args.kind_size) }, "pinned_host");
        }
    }
    PJRT_Memory_Kind_Id(w, c) {
        if let Some(args) = c.call::<S>(|args| args.memory = w.memories[2]) {
            assert_eq!(args.kind_id, 1);
        }
    }
    PJRT_Memory_DebugString(w, c) {
        if let Some(args) = c.call::<S>(|args| args.memory = w.memories[2]) {
            assert!(unsafe { text(args.debug_string, args.debug_string_size) }.contains("pinned_host"));
        }
    }
    PJRT_Memory_ToString(w, c) {
        if let Some(args) = c.call::<S>(|args| args.memory = w.memories[2]) {
            assert!(unsafe { text(args.to_string, args.to_string_size) }.contains("pinned_host"));
        }
    }
    PJRT_Memory_AddressableByDevices(w, c) {
        if let Some(args) = c.call::<S>(|args| args.memory = w.memories[2]) {
            assert_eq!(unsafe { slice(args.devices, args.num_devices) }, w.devices);
        }
    }
    PJRT_ExecuteContext_Create(_, c) {
        if let Some(args) = c.call::<S>(|_| {}) {
            toy().ask::<slot::PJRT_ExecuteContext_Destroy>(|destroy| destroy.context = args.context).unwrap();
        }
    }
    PJRT_ExecuteContext_Destroy(_, c) {
        let context = toy().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context;
        if c.call::<S>(|args| args.context = context).is_none() {
            toy().ask::<S>(|args| args.context = context).unwrap();
        }
    }
    PJRT_TopologyDescription_Create(_, c) {
        let called = c.call::<S>(|args| {
            (args.topology_name, args.topology_name_size) = (c"pair".as_ptr(), 4);
            (args.create_options, args.num_options) = (null(), 0);
        });
        if let Some(args) = called {
            super::fixture::destroy_topology(args.topology);
        }
    }
    PJRT_TopologyDescription_Destroy(_, c) {
        let topology = super::fixture::topology("pair");
        if c.call::<S>(|args| args.topology = topology).is_none() {
            super::fixture::destroy_topology(topology);
        }
    }
    PJRT_TopologyDescription_PlatformName(w, c) {
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert_eq!(unsafe { text(args.platform_name, args.platform_name_size) }, "toy");
        }
    }
    PJRT_TopologyDescription_PlatformVersion(w, c) {
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert_eq!(args.platform_version_size, 0);
        }
    }
    PJRT_TopologyDescription_GetDeviceDescriptions(w, c) {
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert_eq!(args.num_descriptions, 2);
        }
    }
    PJRT_TopologyDescription_Serialize(w, c) {
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert!(args.serialized_bytes_size > 16);
            unsafe { args.serialized_topology_deleter.unwrap()(args.serialized_topology) };
        }
    }
    PJRT_TopologyDescription_Deserialize(w, c) {
        let blob = toy().ask::<slot::PJRT_TopologyDescription_Serialize>(|args| args.topology = w.topology).unwrap();
        let called = c.call::<S>(|args| {
            args.serialized_topology = blob.serialized_bytes;
            args.serialized_topology_size = blob.serialized_bytes_size;
        });
        if let Some(args) = called {
            super::fixture::destroy_topology(args.topology);
        }
        unsafe { blob.serialized_topology_deleter.unwrap()(blob.serialized_topology) };
    }
    PJRT_TopologyDescription_Attributes(w, c) {
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert_eq!(unsafe { read_values(args.attributes, args.num_attributes) }[0].name, "shape");
        }
    }
    PJRT_TopologyDescription_Fingerprint(w, c) {
        let again = toy().ask::<S>(|args| args.topology = w.topology).unwrap().fingerprint;
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert_eq!(args.fingerprint, again);
        }
    }
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace(w, c) {
        let called = c.call::<S>(|args| {
            (args.topology, args.memory_space_kind_id) = (w.topology, 0);
            (args.dims, args.num_dims, args.element_type) = (DIMS.as_ptr(), 1, super::fixture::S32);
            args.layout = null();
        });
        if let Some(args) = called {
            assert!(args.serialized_shape_size > 4);
            unsafe { args.serialized_shape_deleter.unwrap()(args.serialized_shape) };
        }
    }
    PJRT_TopologyDescription_GetMemorySpaceKindIds(w, c) {
        if let Some(args) = c.call::<S>(|args| args.topology = w.topology) {
            assert_eq!(unsafe { slice(args.memory_space_kind_ids, args.num_memory_space_kind_ids) }, [0]);
        }
    }
}
