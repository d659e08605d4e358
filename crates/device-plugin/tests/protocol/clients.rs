//! Tests clients, devices, memories and topologies.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::{ErrorCode, NamedValue};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{garbage, raw_values, read_values, slice, text, toy};

#[test]
fn options_of_every_type() {
    let client = toy().client(&[
        NamedValue::new("list", [1i64, 2]),
        NamedValue::new("float", 0.5f32),
        NamedValue::new("flag", true),
        NamedValue::new("node_id", 0i64),
    ]);
    toy().destroy_client(client.unwrap());
    let fault = toy().client(&[NamedValue::new("speed", 1i64)]).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
}

#[test]
fn options_of_frameworks_are_accepted() {
    let [node, part, size] = ["node_id", "partition_index", "premapped_buffer_size"].map(|n| NamedValue::new(n, 0i64));
    for options in [&[node, part][..], &[size]] {
        toy().destroy_client(toy().client(options).unwrap());
    }
}

#[test]
fn begins_with_the_address_of_the_table() {
    let client = toy().client(&[]).unwrap();
    let table = unsafe { client.cast::<*const PJRT_Api>().read() };
    assert_eq!(table, std::ptr::from_ref(toy().0));
    toy().destroy_client(client);
}

#[test]
fn errors_have_payloads_and_function_table() {
    let values = [NamedValue::new("fail", "no power")];
    let raw = raw_values(&values);
    let mut args = garbage::<PJRT_Client_Create_Args>();
    (args.create_options, args.num_options) = (raw.as_ptr(), raw.len());
    unsafe extern "C" fn visit(
        key: *const c_char,
        key_size: usize,
        value: *const c_char,
        size: usize,
        to: *mut c_void,
    ) {
        let seen = unsafe { &mut *to.cast::<Vec<(String, String)>>() };
        seen.push(unsafe { (text(key, key_size), text(value, size)) });
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    unsafe {
        let error = toy().0.PJRT_Client_Create.unwrap()(&raw mut args);
        toy()
            .ask::<slot::PJRT_Error_ForEachPayload>(|args| {
                args.error = error;
                args.visitor = Some(visit);
                args.user_arg = (&raw mut seen).cast();
            })
            .unwrap();
        let functions = &*(*error).vtable;
        assert_eq!(functions.struct_size, PJRT_Error_FunctionTable::STRUCT_SIZE);
        functions.for_each_payload.unwrap()(error, Some(visit), (&raw mut seen).cast());
        assert_eq!(functions.get_code.unwrap()(error).0, ErrorCode::UNAVAILABLE.as_raw());
        let (mut data, mut size) = (std::ptr::null(), 0);
        functions.message.unwrap()(error, &raw mut data, &raw mut size);
        assert_eq!(text(data, size), "no power");
        functions.destroy.unwrap()(error);
        functions.destroy.unwrap()(null_mut());
    }
    let payload = ("toy".to_owned(), "payload".to_owned());
    assert_eq!(seen, [payload.clone(), payload]);
}

/// The key-value store that the framework provides in a distributed run.
static STORE: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

unsafe extern "C" fn delete(value: *mut c_char) {
    drop(unsafe { std::ffi::CString::from_raw(value) });
}

fn lookup(key: &str) -> Option<*mut c_char> {
    let store = STORE.lock().unwrap();
    let value = store.as_ref()?.get(key)?;
    Some(std::ffi::CString::new(value.clone()).unwrap().into_raw())
}

unsafe extern "C" fn get(args: *mut PJRT_KeyValueGetCallback_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    assert_eq!(args.timeout_in_ms, 5);
    let key = unsafe { text(args.key, args.key_size) };
    let value = lookup(&key).expect("put before");
    args.value = value;
    args.value_size = unsafe { std::ffi::CStr::from_ptr(value) }.count_bytes();
    args.value_deleter_callback = Some(delete);
    null_mut()
}

unsafe extern "C" fn try_get(args: *mut PJRT_KeyValueTryGetCallback_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    assert!(lookup(&unsafe { text(args.key, args.key_size) }).is_none());
    let message = "not there";
    unsafe { (*args.callback_error).unwrap()(PJRT_Error_Code(5), message.as_ptr().cast(), message.len()) }
}

unsafe extern "C" fn put(args: *mut PJRT_KeyValuePutCallback_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let (key, value) = unsafe { (text(args.key, args.key_size), text(args.value, args.value_size)) };
    STORE.lock().unwrap().get_or_insert_default().insert(key, value);
    null_mut()
}

#[test]
fn key_value_store_in_distributed_runs() {
    // The plugin may use the callbacks only if an option declares a distributed run. Other tests therefore pass
    // garbage, but this test passes valid callbacks.
    let values = [NamedValue::new("node_id", 0i64), NamedValue::new("num_nodes", 1i64)];
    let raw = raw_values(&values);
    let args = toy()
        .ask::<slot::PJRT_Client_Create>(|args| {
            (args.create_options, args.num_options) = (raw.as_ptr(), raw.len());
            args.kv_get_callback = Some(get);
            args.kv_put_callback = Some(put);
            args.kv_try_get_callback = Some(try_get);
        })
        .unwrap();
    let version = toy().ask::<slot::PJRT_Client_PlatformVersion>(|version| version.client = args.client).unwrap();
    assert_eq!(unsafe { text(version.platform_version, version.platform_version_size) }, "toy 1 hello");
    toy().destroy_client(args.client);
}

#[test]
fn describes_devices_and_memories() {
    let client = toy().client(&[]).unwrap();
    let devices = toy().devices(client);
    let memories = toy().memories(client);
    assert_eq!((devices.len(), memories.len()), (2, 3));
    for (i, device) in devices.iter().copied().enumerate() {
        let description = toy().ask::<slot::PJRT_Device_GetDescription>(|args| args.device = device).unwrap();
        let description = description.device_description;
        let id = toy().ask::<slot::PJRT_DeviceDescription_Id>(|args| args.device_description = description).unwrap().id;
        assert_eq!(id, 10 + i as i32);
        let found = toy().ask::<slot::PJRT_Client_LookupDevice>(|args| (args.client, args.id) = (client, id)).unwrap();
        assert_eq!(found.device, device);
        let local = toy().ask::<slot::PJRT_Device_LocalHardwareId>(|args| args.device = device).unwrap();
        assert_eq!(local.local_hardware_id, i as i32);
        let found = toy()
            .ask::<slot::PJRT_Client_LookupAddressableDevice>(|args| {
                (args.client, args.local_hardware_id) = (client, i as i32);
            })
            .unwrap();
        assert_eq!(found.addressable_device, device);
        let kind =
            toy().ask::<slot::PJRT_DeviceDescription_Kind>(|args| args.device_description = description).unwrap();
        assert_eq!(unsafe { text(kind.device_kind, kind.device_kind_size) }, "Toy v1");
        let short = toy().ask::<slot::PJRT_DeviceDescription_ToString>(|args| args.device_description = description);
        let short = short.unwrap();
        assert_eq!(unsafe { text(short.to_string, short.to_string_size) }, format!("Toy v1:{id}"));
        let long = toy().ask::<slot::PJRT_DeviceDescription_DebugString>(|args| args.device_description = description);
        let long = long.unwrap();
        assert!(unsafe { text(long.debug_string, long.debug_string_size) }.contains("process=0"));
        assert!(
            toy().ask::<slot::PJRT_Device_IsAddressable>(|args| args.device = device).unwrap().is_addressable.get()
        );
        // Frameworks abort if an attribute is not a string, an integer or an integer list.
        let attributes = toy().ask::<slot::PJRT_Device_GetAttributes>(|args| args.device = device).unwrap();
        let values = unsafe { read_values(attributes.attributes, attributes.num_attributes) };
        assert_eq!(
            values,
            [NamedValue::new("coords", [i as i64, 0]), NamedValue::new("name", "toy"), NamedValue::new("cores", 2i64)]
        );
        unsafe { attributes.attributes_deleter.unwrap()(attributes.device_attributes) };
        let own = toy().ask::<slot::PJRT_Device_AddressableMemories>(|args| args.device = device).unwrap();
        assert_eq!(unsafe { slice(own.memories, own.num_memories) }, [memories[i], memories[2]]);
        let default = toy().ask::<slot::PJRT_Device_DefaultMemory>(|args| args.device = device).unwrap();
        assert_eq!(default.memory, memories[i]);
    }
    let of_host = toy().ask::<slot::PJRT_Memory_AddressableByDevices>(|args| args.memory = memories[2]).unwrap();
    assert_eq!(unsafe { slice(of_host.devices, of_host.num_devices) }, devices);
    let kind = toy().ask::<slot::PJRT_Memory_Kind>(|args| args.memory = memories[2]).unwrap();
    assert_eq!(unsafe { text(kind.kind, kind.kind_size) }, "pinned_host");
    assert_eq!(toy().ask::<slot::PJRT_Memory_Kind_Id>(|args| args.memory = memories[2]).unwrap().kind_id, 1);
    assert_eq!(toy().ask::<slot::PJRT_Memory_Id>(|args| args.memory = memories[2]).unwrap().id, 2);
    for fault in [
        toy().ask::<slot::PJRT_Client_LookupDevice>(|args| (args.client, args.id) = (client, 3)).map(drop),
        toy().ask::<slot::PJRT_Client_LookupDevice>(|args| (args.client, args.id) = (client, -1)).map(drop),
    ] {
        assert_eq!(fault.unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    toy().destroy_client(client);
}

#[test]
fn memories_carry_user_data() {
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn destroy(data: *mut c_void) {
        DESTROYED.fetch_add(data.addr(), Ordering::Relaxed);
    }
    let client = toy().client(&[]).unwrap();
    let memory = toy().memories(client)[1];
    let key: *const c_void = (&raw const DESTROYED).cast();
    let data = |n: usize| std::ptr::without_provenance_mut::<c_void>(n);
    unsafe {
        let functions = &*(*memory).vtable;
        assert_eq!(functions.struct_size, PJRT_Memory_FunctionTable::STRUCT_SIZE);
        let (get, set) = (functions.get_user_data.unwrap(), functions.set_user_data.unwrap());
        assert!(get(memory, key).is_null());
        set(memory, key, data(1), Some(destroy));
        set(memory, key, data(10), Some(destroy));
        assert_eq!((get(memory, key), DESTROYED.load(Ordering::Relaxed)), (data(10), 1));
        set(memory, std::ptr::null(), data(100), None);
    }
    toy().destroy_client(client);
    assert_eq!(DESTROYED.load(Ordering::Relaxed), 11);
}

#[test]
fn topologies_survive_serialization() {
    let client = toy().client(&[]).unwrap();
    let own = toy().ask::<slot::PJRT_Client_TopologyDescription>(|args| args.client = client).unwrap().topology;
    let create = |name: &str| {
        toy()
            .ask::<slot::PJRT_TopologyDescription_Create>(|args| {
                (args.topology_name, args.topology_name_size) = (name.as_ptr().cast(), name.len());
                (args.create_options, args.num_options) = (std::ptr::null(), 0);
            })
            .map(|args| args.topology)
    };
    let pair = create("pair").unwrap();
    assert_eq!(create("cube").unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    let fault = create("panic").unwrap_err();
    assert_eq!(fault.code, ErrorCode::INTERNAL);
    expect!["PJRT_TopologyDescription_Create: the plugin panicked: asked to panic in topology"]
        .assert_eq(&fault.message);
    let describe = |topology: *mut PJRT_TopologyDescription| unsafe {
        let list =
            toy().ask::<slot::PJRT_TopologyDescription_GetDeviceDescriptions>(|args| args.topology = topology).unwrap();
        let name = toy().ask::<slot::PJRT_TopologyDescription_PlatformName>(|args| args.topology = topology).unwrap();
        let version = toy().ask::<slot::PJRT_TopologyDescription_PlatformVersion>(|args| args.topology = topology);
        let version = version.unwrap();
        let attributes =
            toy().ask::<slot::PJRT_TopologyDescription_Attributes>(|args| args.topology = topology).unwrap();
        let print = toy().ask::<slot::PJRT_TopologyDescription_Fingerprint>(|args| args.topology = topology).unwrap();
        let mut devices = Vec::new();
        for description in slice(list.descriptions, list.num_descriptions) {
            let of =
                toy().ask::<slot::PJRT_DeviceDescription_Attributes>(|args| args.device_description = *description);
            let of = of.unwrap();
            let id = toy().ask::<slot::PJRT_DeviceDescription_Id>(|args| args.device_description = *description);
            let process =
                toy().ask::<slot::PJRT_DeviceDescription_ProcessIndex>(|args| args.device_description = *description);
            devices.push((
                id.unwrap().id,
                process.unwrap().process_index,
                read_values(of.attributes, of.num_attributes),
            ));
        }
        (
            text(name.platform_name, name.platform_name_size),
            text(version.platform_version, version.platform_version_size),
            read_values(attributes.attributes, attributes.num_attributes),
            print.fingerprint,
            devices,
        )
    };
    for (topology, devices) in [(own, 2), (pair, 2)] {
        let blob = toy().ask::<slot::PJRT_TopologyDescription_Serialize>(|args| args.topology = topology).unwrap();
        let bytes = unsafe { slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
        unsafe { blob.serialized_topology_deleter.unwrap()(blob.serialized_topology) };
        let back = |bytes: &[u8]| {
            toy()
                .ask::<slot::PJRT_TopologyDescription_Deserialize>(|args| {
                    args.serialized_topology = bytes.as_ptr().cast();
                    args.serialized_topology_size = bytes.len();
                })
                .map(|args| args.topology)
        };
        let copy = back(&bytes).unwrap();
        let (there, here) = (describe(topology), describe(copy));
        assert_eq!(there.0, "toy");
        assert_eq!((&there.0, &there.1, &there.2, there.4.len()), (&here.0, &here.1, &here.2, devices));
        toy().ask::<slot::PJRT_TopologyDescription_Destroy>(|args| args.topology = copy).unwrap();
        assert_eq!(back(&bytes[..bytes.len() - 1]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        assert_eq!(back(b"junk").unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    // The client's own topology lives until the client is destroyed, even if the framework destroys the topology.
    for topology in [pair, own] {
        toy().ask::<slot::PJRT_TopologyDescription_Destroy>(|args| args.topology = topology).unwrap();
    }
    assert_eq!(describe(own).4.len(), 2);
    toy().destroy_client(client);
}

#[test]
fn default_device_assignment_stays_in_bounds() {
    let client = toy().client(&[]).unwrap();
    let ask = |replicas: i32, partitions: i32, out: &mut [i32]| {
        toy()
            .ask::<slot::PJRT_Client_DefaultDeviceAssignment>(|args| {
                args.client = client;
                (args.num_replicas, args.num_partitions) = (replicas, partitions);
                (args.default_assignment, args.default_assignment_size) = (out.as_mut_ptr(), out.len());
            })
            .map(drop)
    };
    let mut out = [-1; 3];
    ask(1, 2, &mut out).unwrap();
    assert_eq!(out, [10, 11, -1]);
    assert_eq!(ask(2, 1, &mut out[..1]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    for (replicas, partitions) in [(2, 2), (0, 1), (i32::MAX, i32::MAX)] {
        assert_eq!(ask(replicas, partitions, &mut out).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    toy().destroy_client(client);
}

#[test]
fn objects_may_outlive_their_client() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[2]").unwrap();
    let buffer = toy().ints(client, &[4, 5]);
    toy().destroy_client(client);
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    toy().destroy_loaded(executable);
    toy().wait(event).unwrap();
    assert_eq!(toy().read_ints(outputs[0]).unwrap(), [5, 6]);
    toy().destroy(&outputs);
    assert_eq!(toy().read_ints(buffer).unwrap(), [4, 5]);
    toy().destroy(&[buffer, null_mut()]);
}
