//! Tests faults in the vendor's code: a panic in any method, a panic during the clean-up after another panic, an error
//! from any method, and panics in destructors and clones. The call returns the method's error, or an error that names
//! the C function and the panic. Destroy functions succeed even if a destructor panics. Nothing leaks, and the client
//! remains usable.
//!
//! The tests read the names of the methods from the source of the traits, so that a new method without a case fails a
//! test.

mod extensions;
pub mod faulty;
mod late;

use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering;

use device_plugin::{CompileOptions, DeviceAssignment, ElementType, ErrorCode, Shape};
use device_plugin_testing::Exclusive;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, Framework, Loaded, execute_options, garbage, program};
use faulty::{Faulty, Kind, LIVE, arm, disarm};

fn plugin() -> Framework {
    Framework(device_plugin::raw::api::<Faulty>())
}

/// Live objects are counted for the whole process, so only one test may run at a time.
static EXCLUSIVE: Exclusive = Exclusive::new();

/// The objects that a case needs. A test creates them before it arms the fault.
struct Fixture {
    client: Client,
    buffer: Buffer,
    loaded: Loaded,
    /// A program that runs on two devices.
    pair: Loaded,
    executable: *mut PJRT_Executable,
    blob: Vec<u8>,
    topology: *mut PJRT_TopologyDescription,
}

const DATA: [u8; 2] = [3, 4];

fn shape() -> Shape {
    Shape::new(ElementType::U8, [2])
}

fn executable_of(loaded: Loaded) -> *mut PJRT_Executable {
    let held = plugin().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
    held.unwrap().executable
}

fn topology() -> Answer<*mut PJRT_TopologyDescription> {
    plugin()
        .ask::<slot::PJRT_TopologyDescription_Create>(|args| {
            (args.topology_name_size, args.num_options) = (0, 0);
        })
        .map(|args| args.topology)
}

fn destroy_topology(topology: *mut PJRT_TopologyDescription) {
    plugin().ask::<slot::PJRT_TopologyDescription_Destroy>(|args| args.topology = topology).unwrap();
}

fn destroy_executable(executable: *mut PJRT_Executable) -> Answer {
    plugin().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = executable).map(drop)
}

fn serialize(executable: *mut PJRT_Executable) -> Answer<Vec<u8>> {
    let blob = plugin().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = executable)?;
    let bytes = unsafe { crate::framework::slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) };
    let bytes = bytes.to_vec();
    unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
    Ok(bytes)
}

impl Fixture {
    fn new() -> Self {
        let client = plugin().client(&[]).unwrap();
        let loaded = plugin().compile(client, "1").unwrap();
        let assignment = DeviceAssignment::new(2, 1, vec![0, 1]).unwrap();
        let options = CompileOptions::default().with_num_replicas(2).with_device_assignment(assignment);
        let executable = executable_of(loaded);
        Self {
            client,
            buffer: plugin().put(client, &shape(), &DATA, 0).unwrap(),
            pair: plugin().compile_with(client, "2", &options.encode()).unwrap(),
            blob: serialize(executable).unwrap(),
            executable,
            loaded,
            topology: topology().unwrap(),
        }
    }

    fn end(self) {
        plugin().destroy(&[self.buffer]);
        destroy_topology(self.topology);
        destroy_executable(self.executable).unwrap();
        plugin().destroy_loaded(self.pair);
        plugin().destroy_loaded(self.loaded);
        plugin().destroy_client(self.client);
    }

    fn device(&self) -> *mut PJRT_Device {
        plugin().devices(self.client)[0]
    }

    fn put(&self) -> Answer<Buffer> {
        plugin().put(self.client, &shape(), &DATA, 0)
    }

    fn map(&self) -> Answer {
        let data = std::ptr::without_provenance_mut(4096);
        let map = plugin().ask::<slot::PJRT_Client_DmaMap>(|args| {
            (args.client, args.data, args.size) = (self.client, data, 1);
        });
        map.map(drop)
    }

    fn unmap(&self) -> Answer {
        let data = std::ptr::without_provenance_mut(4096);
        plugin().ask::<slot::PJRT_Client_DmaUnmap>(|args| (args.client, args.data) = (self.client, data)).map(drop)
    }

    fn execute(&self) -> Answer {
        let (outputs, event) = plugin().execute(self.loaded, &[self.buffer], 1)?;
        plugin().destroy(&outputs);
        plugin().wait(event)
    }

    /// Runs the program that is compiled for two devices.
    fn execute_all(&self) -> Answer {
        let device = plugin().devices(self.client)[1];
        let there = plugin()
            .ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (self.buffer, device));
        let there = there.unwrap().dst_buffer;
        let mut options = execute_options(&[]);
        let (arguments, mut outputs, mut events) = ([[self.buffer], [there]], [[null_mut()]; 2], [null_mut(); 2]);
        let lists = [arguments[0].as_ptr(), arguments[1].as_ptr()];
        let output_lists = outputs.each_mut().map(|list| list.as_mut_ptr());
        let answer = plugin().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options, args.execute_device) = (self.pair, &raw mut options, null_mut());
            (args.argument_lists, args.num_devices, args.num_args) = (lists.as_ptr(), 2, 1);
            (args.output_lists, args.device_complete_events) = (output_lists.as_ptr(), events.as_mut_ptr());
        });
        plugin().destroy(&[there]);
        assert_eq!(answer.is_err(), outputs.as_flattened().iter().all(|output| output.is_null()));
        plugin().destroy(outputs.as_flattened());
        for event in events {
            plugin().destroy_event(event);
        }
        answer.map(drop)
    }
}

/// Name of the method, name of the C function that calls it, and the call.
type Case = (&'static str, &'static str, fn(&Fixture) -> Answer);

/// Methods that can return an error.
const FALLIBLE: &[Case] = &[
    ("create", "PJRT_Client_Create", |_| {
        let client = plugin().client(&[])?;
        plugin().destroy_client(client);
        Ok(())
    }),
    ("memory_stats", "PJRT_Device_MemoryStats", |w| {
        plugin().ask::<slot::PJRT_Device_MemoryStats>(|args| args.device = w.device()).map(drop)
    }),
    ("clear_memory_stats", "PJRT_Device_ClearMemoryStats", |w| {
        plugin().ask::<slot::PJRT_Device_ClearMemoryStats>(|args| args.device = w.device()).map(drop)
    }),
    ("update_global_process_info", "PJRT_Client_UpdateGlobalProcessInfo", |w| {
        let update = plugin().ask::<slot::PJRT_Client_UpdateGlobalProcessInfo>(|args| {
            (args.client, args.num_process_infos) = (w.client, 0);
        });
        update.map(drop)
    }),
    ("buffer_from_host", "PJRT_Client_BufferFromHostBuffer", |w| {
        plugin().destroy(&[w.put()?]);
        Ok(())
    }),
    ("buffer_from_host", "PJRT_Client_BufferFromHostBuffer", |w| {
        // The data is in host memory that the framework lends.
        let (buffer, done) = plugin().put_as(w.client, &shape(), DATA.as_ptr(), None, 2, 0)?;
        plugin().wait(done)?;
        plugin().destroy(&[buffer]);
        Ok(())
    }),
    ("buffer_from_host", "PJRT_Client_BufferFromHostBuffer", |w| {
        // The data has strides.
        let data = [3u8, 0, 4];
        let (buffer, done) = plugin().put_as(w.client, &shape(), data.as_ptr(), Some(&[2]), 0, 0)?;
        plugin().wait(done)?;
        plugin().destroy(&[buffer]);
        Ok(())
    }),
    ("transfer_data", "PJRT_AsyncHostToDeviceTransferManager_TransferData", |w| {
        let shape = shape();
        let mut spec = garbage::<PJRT_ShapeSpec>();
        (spec.dims, spec.num_dims) = (shape.dimensions.as_ptr(), 1);
        spec.element_type = PJRT_Buffer_Type(ElementType::U8.as_raw());
        let manager = plugin().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            (args.client, args.memory) = (w.client, plugin().memories(w.client)[0]);
            (args.shape_specs, args.num_shape_specs, args.num_device_layouts) = (&raw mut spec, 1, 0);
        })?;
        let manager = manager.transfer_manager;
        let sent = plugin().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, 0);
            (args.data, args.offset, args.transfer_size) = (DATA.as_ptr().cast(), 0, 2);
            args.is_last_transfer = true.into();
        });
        let sent = sent.map(|args| plugin().destroy_event(args.done_with_h2d_transfer));
        let destroy = |args: &mut PJRT_AsyncHostToDeviceTransferManager_Destroy_Args| args.transfer_manager = manager;
        plugin().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(destroy).unwrap();
        sent
    }),
    ("begin_read", "PJRT_Buffer_ToHostBuffer", |w| plugin().read(w.buffer).map(|bytes| assert_eq!(bytes, DATA))),
    ("read", "PJRT_Buffer_ToHostBuffer", |w| plugin().read(w.buffer).map(|bytes| assert_eq!(bytes, DATA))),
    ("create_uninitialized_buffer", "PJRT_Client_CreateUninitializedBuffer", |w| {
        let shape = shape();
        let args = plugin().ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|args| {
            (args.client, args.device, args.memory) = (w.client, w.device(), null_mut());
            (args.shape_dims, args.shape_num_dims) = (shape.dimensions.as_ptr(), 1);
            (args.shape_element_type, args.shape_layout) = (PJRT_Buffer_Type(ElementType::U8.as_raw()), null_mut());
        })?;
        plugin().destroy(&[args.buffer]);
        Ok(())
    }),
    ("bitcast", "PJRT_Buffer_Bitcast", |w| {
        let dims = [1i64];
        let args = plugin().ask::<slot::PJRT_Buffer_Bitcast>(|args| {
            (args.buffer, args.element_type) = (w.buffer, PJRT_Buffer_Type(ElementType::U16.as_raw()));
            (args.dims, args.num_dims, args.device_layout) = (dims.as_ptr(), 1, null_mut());
        })?;
        plugin().destroy(&[args.out_buffer]);
        Ok(())
    }),
    ("create_view_of_device_buffer", "PJRT_Client_CreateViewOfDeviceBuffer", |w| {
        let shape = shape();
        let args = plugin().ask::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(|args| {
            (args.client, args.device, args.memory) = (w.client, w.device(), null_mut());
            args.device_buffer_ptr = DATA.as_ptr().cast_mut().cast();
            (args.dims, args.num_dims) = (shape.dimensions.as_ptr(), 1);
            (args.element_type, args.layout) = (PJRT_Buffer_Type(ElementType::U8.as_raw()), null_mut());
            (args.on_delete_callback, args.stream) = (None, 0);
        })?;
        plugin().destroy(&[args.buffer]);
        Ok(())
    }),
    ("dma_map", "PJRT_Client_DmaMap", |w| {
        w.map()?;
        w.unmap()
    }),
    ("dma_unmap", "PJRT_Client_DmaUnmap", |w| {
        // After a failed `unmap`, the memory is still mapped, so `map` fails in the next call.
        let _ = w.map();
        w.unmap()
    }),
    ("copy", "PJRT_Buffer_CopyToDevice", |w| {
        let args = plugin()
            .ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (w.buffer, w.device()))?;
        plugin().destroy(&[args.dst_buffer]);
        Ok(())
    }),
    ("compile", "PJRT_Client_Compile", |w| {
        plugin().destroy_loaded(plugin().compile(w.client, "1")?);
        Ok(())
    }),
    ("compile_for", "PJRT_Compile", |w| {
        let program = program("", b"1");
        let args = plugin().ask::<slot::PJRT_Compile>(|args| {
            (args.topology, args.client, args.program) = (w.topology, null_mut(), &raw const program);
            (args.compile_options, args.compile_options_size) = (null(), 0);
        })?;
        destroy_executable(args.executable)
    }),
    ("load_executable", "PJRT_Client_Load", |w| {
        let program = program("", b"1");
        let ahead = plugin().ask::<slot::PJRT_Compile>(|args| {
            (args.topology, args.client, args.program) = (w.topology, null_mut(), &raw const program);
            (args.compile_options, args.compile_options_size) = (null(), 0);
        });
        let ahead = ahead.unwrap().executable;
        let load = plugin().ask::<slot::PJRT_Client_Load>(|args| {
            (args.client, args.executable, args.compile_options_size) = (w.client, ahead, 0);
        });
        destroy_executable(ahead).unwrap();
        plugin().destroy_loaded(load?.loaded_executable);
        Ok(())
    }),
    ("execute", "PJRT_LoadedExecutable_Execute", Fixture::execute),
    ("execute_all", "PJRT_LoadedExecutable_Execute", Fixture::execute_all),
    ("poison_execution", "PJRT_Device_PoisonExecution", |w| {
        let poison = plugin().ask::<slot::PJRT_Device_PoisonExecution>(|args| {
            (args.device, args.error_code) = (w.device(), PJRT_Error_Code(1));
            (args.error_message_size, args.num_payload) = (0, 0);
        });
        poison.map(drop)
    }),
    ("cost_analysis", "PJRT_Executable_GetCostAnalysis", |w| {
        // Use a new program, because the SDK caches the analysis of a program.
        let loaded = plugin().compile(w.client, "1").unwrap();
        let executable = executable_of(loaded);
        let cost = plugin().ask::<slot::PJRT_Executable_GetCostAnalysis>(|args| args.executable = executable);
        destroy_executable(executable).unwrap();
        plugin().destroy_loaded(loaded);
        cost.map(drop)
    }),
    ("compiled_memory_stats", "PJRT_Executable_GetCompiledMemoryStats", |w| {
        plugin().ask::<slot::PJRT_Executable_GetCompiledMemoryStats>(|args| args.executable = w.executable).map(drop)
    }),
    ("serialize", "PJRT_Executable_Serialize", |w| serialize(w.executable).map(drop)),
    ("deserialize_and_load", "PJRT_Executable_DeserializeAndLoad", |w| {
        let args = plugin().ask::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
            (args.client, args.serialized_executable) = (w.client, w.blob.as_ptr().cast());
            args.serialized_executable_size = w.blob.len();
            args.overridden_serialized_compile_options_size = 0;
        })?;
        plugin().destroy_loaded(args.loaded_executable);
        Ok(())
    }),
    ("topology", "PJRT_TopologyDescription_Create", |_| topology().map(destroy_topology)),
];

/// Methods that cannot return an error, but can panic.
const INFALLIBLE: &[Case] = &[
    ("platform_name", "PJRT_Client_Create", FALLIBLE[0].2),
    ("platform_version", "PJRT_Client_Create", FALLIBLE[0].2),
    ("process_index", "PJRT_Client_Create", FALLIBLE[0].2),
    ("devices", "PJRT_Client_Create", FALLIBLE[0].2),
    ("memories", "PJRT_Client_Create", FALLIBLE[0].2),
    ("topology_attributes", "PJRT_Client_Create", FALLIBLE[0].2),
    ("at_exit", "PJRT_Client_Create", FALLIBLE[0].2),
    ("dynamic_dimensions", "PJRT_Buffer_UnpaddedDimensions", |w| {
        let buffer = w.put()?;
        let asked = plugin().ask::<slot::PJRT_Buffer_UnpaddedDimensions>(|args| args.buffer = buffer).map(drop);
        plugin().destroy(&[buffer]);
        asked
    }),
    ("is_dynamic", "PJRT_Client_BufferFromHostBuffer", |w| w.put().map(|buffer| plugin().destroy(&[buffer]))),
    ("is_dynamic_output", "PJRT_LoadedExecutable_Execute", |w| {
        // The execution waits for an alias buffer.
        let shape = shape();
        let alias = plugin().ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
            (args.client, args.memory) = (w.client, plugin().memories(w.client)[0]);
            (args.shape_dims, args.shape_num_dims) = (shape.dimensions.as_ptr(), 1);
            (args.shape_element_type, args.shape_layout) = (PJRT_Buffer_Type(ElementType::U8.as_raw()), null_mut());
        });
        let alias = alias.unwrap();
        let run = plugin().execute(w.loaded, &[alias.alias_buffer], 1);
        let fulfill = plugin().ask::<slot::PJRT_Client_FulfillAliasBuffer>(|args| {
            (args.client, args.fulfill_alias_buffer_cb) = (w.client, alias.fulfill_alias_buffer_cb);
            (args.buffer, args.status_code) = (w.buffer, PJRT_Error_Code(0));
        });
        fulfill.unwrap();
        plugin().destroy(&[alias.alias_buffer]);
        let (outputs, event) = run?;
        plugin().wait(event).unwrap();
        plugin().destroy(&outputs);
        Ok(())
    }),
    ("default_layout", "PJRT_Client_BufferFromHostBuffer", |w| w.put().map(|buffer| plugin().destroy(&[buffer]))),
    ("compile_options", "PJRT_Client_Compile", |w| {
        plugin().destroy_loaded(plugin().compile(w.client, "1")?);
        Ok(())
    }),
    ("host_bytes", "PJRT_Buffer_CopyRawToHost", |w| {
        let mut byte = 0u8;
        let args = plugin().ask::<slot::PJRT_Buffer_CopyRawToHost>(|args| {
            (args.buffer, args.dst) = (w.buffer, (&raw mut byte).cast());
            (args.offset, args.transfer_size) = (1, 1);
        })?;
        plugin().wait(args.event)?;
        assert_eq!(byte, DATA[1]);
        Ok(())
    }),
    ("ready", "PJRT_Client_BufferFromHostBuffer", |w| {
        plugin().destroy(&[w.put()?]);
        Ok(())
    }),
    ("device_pointer", "PJRT_Buffer_UnsafePointer", |w| {
        plugin().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = w.buffer).map(drop)
    }),
    ("on_device_size", "PJRT_Buffer_OnDeviceSizeInBytes", |w| {
        plugin().ask::<slot::PJRT_Buffer_OnDeviceSizeInBytes>(|args| args.buffer = w.buffer).map(drop)
    }),
    ("track", "PJRT_Device_CreateAsyncTrackingEvent", |w| {
        let args = plugin().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
            (args.device, args.description_size) = (w.device(), 0);
        })?;
        plugin().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|destroy| destroy.event = args.event).map(drop)
    }),
];

/// Methods of `DevicePlugin` that C functions call.
const PLUGIN: &[Case] = &[
    ("initialize", "PJRT_Plugin_Initialize", |_| plugin().ask::<slot::PJRT_Plugin_Initialize>(|_| {}).map(drop)),
    ("attributes", "PJRT_Plugin_Attributes", |_| plugin().ask::<slot::PJRT_Plugin_Attributes>(|_| {}).map(drop)),
    ("stablehlo_versions", "PJRT_Plugin_Attributes", |_| {
        plugin().ask::<slot::PJRT_Plugin_Attributes>(|_| {}).map(drop)
    }),
];

/// Methods of `DevicePlugin` that the exported description calls. No C function calls them.
const DESCRIPTION: &[&str] = &["library", "capabilities", "options", "process", "ownership", "manifest"];
const HOOKS: &[&str] = &["configure", "supports", "shutdown"];

/// Name of the vendor code, the C function that reports its panic (if any), and the call.
type Other = (&'static str, Option<&'static str>, fn(&Fixture) -> Answer);

/// Code of the vendor that C functions run, except for trait methods.
const OTHERS: &[Other] = &[
    ("Buffer::drop", None, |w| {
        let buffer = w.put().unwrap();
        plugin().ask::<slot::PJRT_Buffer_Destroy>(|args| args.buffer = buffer).map(drop)
    }),
    ("Buffer::drop", None, |w| {
        // Delete the buffer while an external reference keeps the value, drop the external reference, and then destroy
        // the buffer.
        let buffer = w.put().unwrap();
        plugin().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = buffer).unwrap();
        plugin().delete(buffer);
        let last = plugin().ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|args| args.buffer = buffer);
        last.unwrap();
        plugin().destroy(&[buffer]);
        Ok(())
    }),
    ("Buffer::drop", None, |w| {
        let buffer = w.put().unwrap();
        plugin().delete(buffer);
        plugin().destroy(&[buffer]);
        Ok(())
    }),
    ("Buffer::clone", Some("PJRT_LoadedExecutable_Execute"), Fixture::execute),
    ("Executable::drop", None, |w| {
        plugin().destroy_loaded(plugin().compile(w.client, "1").unwrap());
        Ok(())
    }),
    ("Backend::drop", None, |_| {
        plugin().destroy_client(plugin().client(&[]).unwrap());
        Ok(())
    }),
    ("Tracked::drop", None, |w| {
        let args = plugin().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
            (args.device, args.description_size) = (w.device(), 0);
        });
        let event = args.unwrap().event;
        plugin().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|destroy| destroy.event = event).map(drop)
    }),
];

/// Returns the names of the methods of a trait, read from its source.
fn methods(source: &str, name: &str) -> Vec<String> {
    let from = source.find(&format!("pub trait {name}")).expect("no such trait");
    let body = &source[from..];
    let body = &body[..body.find("\n}\n").expect("a trait without an end")];
    let lines = body.lines().filter_map(|line| line.strip_prefix("    fn "));
    lines.map(|line| line.split(['(', '<']).next().unwrap().to_owned()).collect()
}

/// The source files that declare the traits of features, each with the names of its traits. Traits of extensions of the
/// C API are not listed.
const FEATURES: &[(&str, &[&str])] = &[
    (
        include_str!("../../../src/features/platform.rs"),
        &["Platform", "Distributed", "AtExit", "StorageLayouts", "MemoryStatistics"],
    ),
    (include_str!("../../../src/features/transfers.rs"), &["AsyncReads", "PiecewiseUploads", "DynamicShapes"]),
    (
        include_str!("../../../src/features/memory.rs"),
        &["BufferAddresses", "DeviceCopies", "ForeignViews", "DmaMappings"],
    ),
    (
        include_str!("../../../src/features/compilation.rs"),
        &["NamedOptions", "AheadOfTime", "Serialization", "CostAnalysis"],
    ),
    (include_str!("../../../src/features/execution.rs"), &["MultiDevice", "Poisoning", "Tracking"]),
];

#[test]
fn every_trait_method_has_case() {
    let mut backend = methods(include_str!("../../../src/backend.rs"), "Backend");
    for (source, traits) in FEATURES {
        backend.extend(traits.iter().flat_map(|name| methods(source, name)));
    }
    assert!(backend.len() > 30, "{backend:?}");
    let cases: Vec<_> = FALLIBLE.iter().chain(INFALLIBLE).map(|case| case.0).collect();
    let missing: Vec<_> = backend.iter().filter(|method| !cases.contains(&method.as_str())).collect();
    assert_eq!(missing, [""; 0], "write cases for these methods of Backend in tests/protocol/faults");
    assert!(cases.iter().all(|case| backend.iter().any(|method| method == case)));
    let mut plugin = methods(include_str!("../../../src/plugin.rs"), "DevicePlugin");
    // Only the interface for vendors in C overrides `name`, with a constant.
    plugin.retain(|method| method != "name");
    let cases: Vec<_> = PLUGIN.iter().map(|case| case.0).chain(DESCRIPTION.iter().chain(HOOKS).copied()).collect();
    let missing: Vec<_> = plugin.iter().filter(|method| !cases.contains(&method.as_str())).collect();
    assert_eq!(missing, [""; 0], "write cases for these methods of DevicePlugin in tests/protocol/faults");
    assert_eq!(cases.len(), plugin.len());
}

fn fails((method, function, call): &Case, kind: Kind, fixture: &Fixture) {
    let live = LIVE.load(Ordering::Relaxed);
    arm(method, kind);
    let fault = call(fixture).expect_err(method);
    assert!(disarm(), "{function} does not call {method}");
    let (code, message) = match kind {
        Kind::Panic => (ErrorCode::INTERNAL, format!("{function}: the plugin panicked: asked to panic in {method}")),
        Kind::PanicTwice => (ErrorCode::INTERNAL, format!("{function}: the plugin panicked: (no message)")),
        Kind::Error => (ErrorCode::DATA_LOSS, format!("asked to fail in {method}")),
    };
    assert_eq!((fault.code, fault.message), (code, message), "{method}");
    // The failed call leaks nothing, and the next call of the function succeeds.
    assert_eq!(LIVE.load(Ordering::Relaxed), live, "{method} leaks");
    call(fixture).unwrap_or_else(|fault| panic!("{method} after a fault: {fault:?}"));
    assert_eq!(LIVE.load(Ordering::Relaxed), live);
    assert_eq!(plugin().read(fixture.buffer).unwrap(), DATA);
}

#[test]
fn every_method_may_panic() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    for case in FALLIBLE.iter().chain(INFALLIBLE) {
        for kind in [Kind::Panic, Kind::PanicTwice] {
            fails(case, kind, &fixture);
        }
    }
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn every_method_may_fail() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    for case in FALLIBLE {
        fails(case, Kind::Error, &fixture);
    }
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn plugin_methods_may_panic_or_fail() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    // The order matters, because attributes are cached after the first successful call.
    for (method, function, call) in PLUGIN {
        arm(method, Kind::Panic);
        let fault = call(&fixture).expect_err(method);
        assert!(disarm(), "{method}");
        assert_eq!(fault.code, ErrorCode::INTERNAL, "{fault:?}");
        assert!(fault.message.starts_with(function), "{fault:?}");
        assert!(fault.message.ends_with(&format!(": asked to panic in {method}")), "{fault:?}");
    }
    arm("initialize", Kind::Error);
    assert_eq!(PLUGIN[0].2(&fixture).unwrap_err().code, ErrorCode::DATA_LOSS);
    for (_, _, call) in PLUGIN {
        call(&fixture).unwrap();
    }
    for method in DESCRIPTION {
        arm(method, Kind::Panic);
        let described = device_plugin::__private::descriptor::<Faulty>();
        assert!(disarm(), "{method}");
        let faults = described.expect_err(method).to_string();
        assert!(faults.contains(&format!(": asked to panic in {method}")), "{faults}");
    }
    let described = device_plugin::__private::descriptor::<Faulty>().unwrap();
    for (kind, code) in [(Kind::Panic, ErrorCode::INTERNAL), (Kind::Error, ErrorCode::DATA_LOSS)] {
        arm("configure", kind);
        let environment = device_plugin::Environment::default();
        let single = device_plugin::ProcessTopology::single();
        assert_eq!(described.configure(&single, &environment).unwrap_err().code(), code);
        assert!(disarm());
    }
    {
        arm("supports", Kind::Panic);
        let program = device_plugin::Program::mlir(Vec::new());
        let fault = described.supports(&program, device_plugin::Depth::Names).unwrap_err();
        assert!(disarm() && fault.message().contains("asked to panic in supports"), "{fault}");
    }
    arm("shutdown", Kind::Panic);
    assert!(described.shutdown().unwrap_err().message().contains("asked to panic in shutdown"));
    assert!(disarm());
    described.shutdown().unwrap();
    fixture.end();
}

#[test]
fn destructors_and_clones_may_panic() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    for (method, function, call) in OTHERS {
        for kind in [Kind::Panic, Kind::PanicTwice] {
            let live = LIVE.load(Ordering::Relaxed);
            arm(method, kind);
            let answer = call(&fixture);
            assert!(disarm(), "{method} was not called");
            match function {
                // Frameworks end the process if a destroy function fails.
                None => assert_eq!(answer, Ok(()), "{method}"),
                Some(function) => {
                    let fault = answer.expect_err(method);
                    assert_eq!(fault.code, ErrorCode::INTERNAL, "{fault:?}");
                    assert!(fault.message.starts_with(&format!("{function}: ")), "{fault:?}");
                }
            }
            assert_eq!(LIVE.load(Ordering::Relaxed), live, "{method} leaks");
        }
    }
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn panic_during_unwind() {
    // If a panic poisons a lock of the vendor, the vendor's destructors may panic, too. The output exists when
    // `execute` fails, so the SDK drops it during the unwinding.
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    for (kind, expected) in [
        (Kind::Panic, "PJRT_LoadedExecutable_Execute: the plugin panicked: asked to panic in execute"),
        (Kind::Error, "asked to fail in execute"),
    ] {
        let live = LIVE.load(Ordering::Relaxed);
        let fresh = plugin().compile(fixture.client, "fresh").unwrap();
        arm("Buffer::drop", Kind::Panic);
        arm("execute", kind);
        assert_eq!(plugin().execute(fresh, &[fixture.buffer], 1).unwrap_err().message, expected);
        plugin().destroy_loaded(fresh);
        assert!(disarm());
        assert_eq!(LIVE.load(Ordering::Relaxed), live);
        fixture.execute().unwrap();
    }
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}
