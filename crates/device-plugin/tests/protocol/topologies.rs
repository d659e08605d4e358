//! Tests topologies. Their devices need not be present. The tests compile programs for topologies, load the programs on
//! a client, serialize topologies, and request their memories and layouts.

use std::ptr::null_mut;

use device_plugin::{CompileOptions, DeviceAssignment, ElementType, ErrorCode, Shape};
use expect_test::expect;
use pjrt_sys::*;

use crate::faults::faulty::Faulty;
use crate::framework::{Answer, Client, Framework, Loaded, garbage, program, slice, text, toy};

type Topology = *mut PJRT_TopologyDescription;
type Executable = *mut PJRT_Executable;

fn create(name: &str) -> Answer<Topology> {
    toy()
        .ask::<slot::PJRT_TopologyDescription_Create>(|args| {
            (args.topology_name, args.topology_name_size) = (name.as_ptr().cast(), name.len());
            args.num_options = 0;
        })
        .map(|args| args.topology)
}

fn destroy(topology: Topology) {
    toy().ask::<slot::PJRT_TopologyDescription_Destroy>(|args| args.topology = topology).unwrap();
}

fn compile(topology: Topology, client: Client, code: &str, options: &CompileOptions) -> Answer<Executable> {
    let (program, options) = (program("toy", code.as_bytes()), options.encode());
    toy()
        .ask::<slot::PJRT_Compile>(|args| {
            (args.topology, args.client, args.program) = (topology, client, &raw const program);
            (args.compile_options, args.compile_options_size) = (options.as_ptr().cast(), options.len());
        })
        .map(|args| args.executable)
}

fn load(client: Client, executable: Executable) -> Answer<Loaded> {
    toy()
        .ask::<slot::PJRT_Client_Load>(|args| {
            (args.client, args.executable, args.compile_options_size) = (client, executable, 0);
        })
        .map(|args| args.loaded_executable)
}

fn name(executable: Executable) -> String {
    let args = toy().ask::<slot::PJRT_Executable_Name>(|args| args.executable = executable).unwrap();
    unsafe { text(args.executable_name, args.executable_name_size) }
}

fn destroy_executable(executable: Executable) {
    toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = executable).unwrap();
}

fn serialize(executable: Executable) -> Vec<u8> {
    let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = executable).unwrap();
    let bytes = unsafe { slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
    unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
    bytes
}

fn deserialize(client: Client, bytes: &[u8]) -> Answer<Loaded> {
    toy()
        .ask::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
            (args.client, args.serialized_executable) = (client, bytes.as_ptr().cast());
            args.serialized_executable_size = bytes.len();
            args.overridden_serialized_compile_options_size = 0;
        })
        .map(|args| args.loaded_executable)
}

/// Runs a program with one integer as its input. Returns its output.
fn run(client: Client, loaded: Loaded, value: i32) -> i32 {
    let buffer = toy().ints(client, &[value]);
    let (outputs, event) = toy().execute(loaded, &[buffer], 1).unwrap();
    toy().wait(event).unwrap();
    let result = toy().read_ints(outputs[0]).unwrap()[0];
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);
    result
}

#[test]
fn compiles_ahead_and_loads() {
    let topology = create("here").unwrap();
    let options = CompileOptions::default();
    let ahead = compile(topology, null_mut(), "op=add_one\nin=s32[1]", &options).unwrap();
    assert_eq!(name(ahead), "add_one for 2 devices");
    // The program has the same properties as one that was compiled for a client.
    let kinds = toy().ask::<slot::PJRT_Executable_OutputMemoryKinds>(|args| args.executable = ahead).unwrap();
    assert_eq!(unsafe { text(*kinds.memory_kinds, *kinds.memory_kind_sizes) }, "device");
    let cost = toy().ask::<slot::PJRT_Executable_GetCostAnalysis>(|args| args.executable = ahead).unwrap();
    assert_eq!(cost.num_properties, 2);
    let stats = toy().ask::<slot::PJRT_Executable_GetCompiledMemoryStats>(|args| args.executable = ahead).unwrap();
    assert_eq!(stats.argument_size_in_bytes, 4);
    let bytes = serialize(ahead);
    // The topology may be destroyed before the program is loaded.
    destroy(topology);
    let client = toy().client(&[]).unwrap();
    let loaded = load(client, ahead).unwrap();
    destroy_executable(ahead);
    assert_eq!(run(client, loaded, 4), 5);
    let again = deserialize(client, &bytes).unwrap();
    assert_eq!(run(client, again, 6), 7);
    toy().destroy_loaded(loaded);
    toy().destroy_loaded(again);
    toy().destroy_client(client);
}

#[test]
fn loads_ahead_compiled_native_code() {
    let client = toy().client(&[]).unwrap();
    for (topology, expected) in [("here", "from native code"), ("here, older", "native")] {
        let topology = create(topology).unwrap();
        let ahead = compile(topology, null_mut(), "op=native\nin=s32[1]", &CompileOptions::default()).unwrap();
        let loaded = deserialize(client, &serialize(ahead)).unwrap();
        let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
        let held = held.unwrap().executable;
        assert_eq!(name(held), expected);
        for executable in [held, ahead] {
            destroy_executable(executable);
        }
        toy().destroy_loaded(loaded);
        destroy(topology);
    }
    toy().destroy_client(client);
}

#[test]
fn rejects_foreign_topologies() {
    let client = toy().client(&[]).unwrap();
    let options = CompileOptions::default();
    let code = "op=echo\nin=s32[1]";
    // Load a program for another platform.
    let there = create("there").unwrap();
    let ahead = compile(there, null_mut(), code, &options).unwrap();
    let deserialized = deserialize(client, &serialize(ahead));
    let mut messages = String::new();
    for (case, fault) in [("loaded", load(client, ahead).unwrap_err()), ("deserialized", deserialized.unwrap_err())] {
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{case}: {}\n", fault.message);
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    }
    expect![[r#"
        loaded: PJRT_Client_Load: the executable was compiled for the platform "another", but this platform is "toy"
        deserialized: PJRT_Executable_DeserializeAndLoad: the executable was serialized on the platform "another", but this platform is "toy"
    "#]].assert_eq(&messages);
    destroy_executable(ahead);
    destroy(there);
    // First, the framework chooses a device of the topology that the client lacks. If the framework chooses no device,
    // the client runs the program on its own devices.
    let pair = create("pair").unwrap();
    let chosen = CompileOptions::default().with_device_ordinal(1);
    let ahead = compile(pair, null_mut(), code, &chosen).unwrap();
    assert_eq!(load(client, ahead).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    destroy_executable(ahead);
    let ahead = compile(pair, null_mut(), code, &options).unwrap();
    let loaded = load(client, ahead).unwrap();
    assert_eq!(run(client, loaded, 3), 3);
    toy().destroy_loaded(loaded);
    destroy_executable(ahead);
    // Load a program that the backend rejects.
    let ahead = compile(pair, null_mut(), "op=unloadable\nin=s32[1]", &options).unwrap();
    assert_eq!(load(client, ahead).unwrap_err().message, "this program is for other devices");
    destroy_executable(ahead);
    // Compile with options that contradict the topology.
    let wide = CompileOptions::default().with_num_partitions(3);
    let fault = compile(pair, null_mut(), code, &wide).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["the program needs 3 partitions, but there are 2 devices"].assert_eq(&fault.message);
    let twice = CompileOptions::default()
        .with_num_replicas(2)
        .with_device_assignment(DeviceAssignment::new(2, 1, vec![1, 1]).unwrap());
    assert_eq!(compile(pair, null_mut(), code, &twice).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    let fault = compile(null_mut(), null_mut(), code, &options).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_Compile: topology is null"].assert_eq(&fault.message);
    destroy(pair);
    // A client rejects the program of another client.
    let other = toy().client(&[]).unwrap();
    let loaded = toy().compile(other, code).unwrap();
    let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded).unwrap();
    assert_eq!(load(client, held.executable).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    destroy_executable(held.executable);
    toy().destroy_loaded(loaded);
    toy().destroy_client(other);
    toy().destroy_client(client);
}

#[test]
fn clients_topology_compiles_like_client() {
    let client = toy().client(&[]).unwrap();
    let own = toy().ask::<slot::PJRT_Client_TopologyDescription>(|args| args.client = client).unwrap().topology;
    let options = CompileOptions::default();
    let by_client = compile(own, client, "op=echo\nin=s32[1]", &options).unwrap();
    let by_topology = compile(own, null_mut(), "op=echo\nin=s32[1]", &options).unwrap();
    assert_eq!((name(by_client).as_str(), name(by_topology).as_str()), ("echo", "echo for 2 devices"));
    for executable in [by_client, by_topology] {
        let loaded = load(client, executable).unwrap();
        destroy_executable(executable);
        assert_eq!(run(client, loaded, 9), 9);
        toy().destroy_loaded(loaded);
    }
    toy().destroy_client(client);
}

#[test]
fn topologies_know_their_memories() {
    let extension = {
        let mut at = toy().0.extension_start;
        loop {
            let node = unsafe { &*at };
            if node.type_ == PJRT_MemoryDescriptions_Extension::TYPE {
                break unsafe { &*at.cast::<PJRT_MemoryDescriptions_Extension>() };
            }
            at = node.next;
        }
    };
    let describe = |topology: Topology| {
        let devices =
            toy().ask::<slot::PJRT_TopologyDescription_GetDeviceDescriptions>(|args| args.topology = topology).unwrap();
        let devices = unsafe { slice(devices.descriptions, devices.num_descriptions) };
        let of = |device: &*mut PJRT_DeviceDescription| {
            let mut args = garbage::<PJRT_DeviceDescription_MemoryDescriptions_Args>();
            args.device_description = *device;
            unsafe {
                toy().check(extension.PJRT_DeviceDescription_MemoryDescriptions.unwrap()(&raw mut args)).unwrap();
                assert_eq!(args.default_memory_index, 0);
                let kind = |memory: &*const PJRT_MemoryDescription| {
                    let mut args = garbage::<PJRT_MemoryDescription_Kind_Args>();
                    args.memory_description = *memory;
                    toy().check(extension.PJRT_MemoryDescription_Kind.unwrap()(&raw mut args)).unwrap();
                    format!("{} {}", text(args.kind, args.kind_size), args.kind_id)
                };
                slice(args.memory_descriptions, args.num_memory_descriptions).iter().map(kind).collect::<Vec<_>>()
            }
        };
        devices.iter().map(of).collect::<Vec<_>>()
    };
    let kind_ids = |topology: Topology| {
        let args = toy().ask::<slot::PJRT_TopologyDescription_GetMemorySpaceKindIds>(|args| args.topology = topology);
        let args = args.unwrap();
        unsafe { slice(args.memory_space_kind_ids, args.num_memory_space_kind_ids) }.to_vec()
    };
    let pair = create("pair").unwrap();
    assert_eq!(describe(pair), [["device 0"], ["device 0"]]);
    assert_eq!(kind_ids(pair), [0]);
    let here = create("here").unwrap();
    let blob = toy().ask::<slot::PJRT_TopologyDescription_Serialize>(|args| args.topology = here).unwrap();
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
    for topology in [here, copy] {
        assert_eq!(describe(topology), [["device 0", "pinned_host 1"], ["device 0", "pinned_host 1"]]);
        assert_eq!(kind_ids(topology), [0, 1]);
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(back(&damaged).unwrap_err().code, ErrorCode::INVALID_ARGUMENT, "{at}");
        assert!(back(&bytes[..at]).is_err());
    }
    let mut args = garbage::<PJRT_MemoryDescription_Kind_Args>();
    args.memory_description = std::ptr::null();
    let error = unsafe { extension.PJRT_MemoryDescription_Kind.unwrap()(&raw mut args) };
    expect!["PJRT_MemoryDescription_Kind: memory_description is null"]
        .assert_eq(&toy().check(error).unwrap_err().message);
    for topology in [pair, here, copy] {
        destroy(topology);
    }
}

#[test]
fn shapes_have_a_canonical_layout() {
    let topology = create("pair").unwrap();
    let canonical = |kind: i32, shape: &Shape| {
        let args = toy().ask::<slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace>(|args| {
            (args.topology, args.memory_space_kind_id) = (topology, kind);
            (args.dims, args.num_dims) = (shape.dimensions.as_ptr(), shape.dimensions.len());
            args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
            args.layout = std::ptr::null();
        })?;
        let bytes = unsafe { slice(args.serialized_shape.cast::<u8>(), args.serialized_shape_size) }.to_vec();
        unsafe { args.serialized_shape_deleter.unwrap()(args.serialized_shape) };
        Answer::Ok(bytes)
    };
    // Fields of `ShapeProto`: 2 is the element type, 3 the extents, 5 the layout, and 6 whether each extent is dynamic.
    let expected = [0x10, 11, 0x1a, 3, 2, 0xac, 2, 0x2a, 4, 0x0a, 2, 1, 0, 0x32, 2, 0, 0];
    assert_eq!(canonical(0, &Shape::new(ElementType::F32, [2, 300])).unwrap(), expected);
    assert_eq!(
        canonical(0, &Shape::new(ElementType::Bf16, [])).unwrap(),
        [0x10, 16, 0x1a, 0, 0x2a, 2, 0x0a, 0, 0x32, 0]
    );
    let fault = canonical(5, &Shape::new(ElementType::F32, [2])).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    assert!(canonical(0, &Shape::new(ElementType::F32, [-2])).is_err());
    destroy(topology);
}

#[test]
fn topology_round_trip() {
    let other = Framework(device_plugin::raw::api::<Faulty>());
    let serialize = |plugin: &Framework, topology: Topology| {
        let blob = plugin.ask::<slot::PJRT_TopologyDescription_Serialize>(|args| args.topology = topology).unwrap();
        let bytes = unsafe { slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
        unsafe { blob.serialized_topology_deleter.unwrap()(blob.serialized_topology) };
        bytes
    };
    let deserialize = |plugin: &Framework, bytes: &[u8]| {
        let args = plugin.ask::<slot::PJRT_TopologyDescription_Deserialize>(|args| {
            (args.serialized_topology, args.serialized_topology_size) = (bytes.as_ptr().cast(), bytes.len());
        });
        args.map(|args| args.topology)
    };
    // The topology belongs to the plugin, although its platform name differs from the name of the plugin.
    let there = create("there").unwrap();
    let bytes = serialize(&toy(), there);
    let again = deserialize(&toy(), &bytes).unwrap();
    assert_eq!(serialize(&toy(), again), bytes);
    let fault = deserialize(&other, &bytes).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect![[r#"the topology was serialized by the plugin "toy", but this plugin is "faulty"; load it with "toy""#]]
        .assert_eq(&fault.message);
    // The previous version of the format did not contain the plugin's name.
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(bytes[..end], *b"device-plugin topology 3");
    let mut older = bytes.clone();
    older[end - 1] = b'2';
    let fault = deserialize(&toy(), &older).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    for topology in [there, again] {
        destroy(topology);
    }
}
