//! The optional features of drivers.

use std::sync::Arc;

use device_plugin::Backend;
use device_plugin::ffi::{Attribute, DeviceCall, Handler, Registry};
use device_runtime::QueueKind::{Compute, Transfer};
use device_runtime::Runtime;
use pjrt::extensions::{Ffi, HostMemoryAllocator, RawBuffers, Streams};
use pjrt::{
    AsyncHostToDeviceTransferManager, CompileOptions, ElementType, Error, ErrorCode, ExecuteOptions,
    HostBufferSemantics, Input, NamedValue, Program, Shape, TopologyDescription, Upload,
};

use crate::dummy::control::Control;
use crate::dummy::driver::{Dummy, Plain, stream};
use crate::dummy::features::{All, TOPOLOGY, VERSION};
use crate::fixture::{Fixture, bytes, next, run, with_features, with_fixture};

fn message(error: &Error) -> (ErrorCode, &str) {
    (error.code(), error.message())
}

fn compile_at_level(fixture: &Fixture, level: &str) -> Result<(), Error> {
    let options = CompileOptions::default().with_option_override("dummy_level", level);
    fixture.client.compile(&Program::mlir(next(4)), &options).map(drop)
}

fn upload_from_allocator(fixture: &Fixture) -> Vec<u8> {
    let allocator = fixture.client.plugin().extension::<HostMemoryAllocator>().unwrap();
    let mut memory = allocator.allocate(&fixture.client, 3, Some(1)).unwrap();
    memory.copy_from_slice(&[1, 2, 3]);
    let upload = Upload::owned::<u8, _>(memory).semantics(HostBufferSemantics::ImmutableZeroCopy);
    let x = fixture.client.upload(upload).unwrap();
    bytes(&x).unwrap()
}

#[test]
fn list_of_runtime_and_driver() {
    let of_runtime =
        ["at_exit", "memory_statistics", "async_reads", "device_copies", "multi_device", "profiler", "queued"];
    let of_driver = [
        "platform",
        "buffer_addresses",
        "named_options",
        "ahead_of_time",
        "serialization",
        "cost_analysis",
        "poisoning",
        "streams",
        "host_memory_allocator",
        "piecewise_uploads",
        "raw_buffers",
        "queued_transfers",
        "ffi",
    ];
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(Runtime::<Dummy<Plain>>::FEATURES.names()), sorted(of_runtime.to_vec()));
    let both = [&of_runtime[..], &of_driver].concat();
    assert_eq!(sorted(Runtime::<Dummy<All>>::FEATURES.names()), sorted(both));
}

#[test]
fn driver_without_features() {
    with_fixture(|fixture| {
        let (client, plugin) = (&fixture.client, fixture.client.plugin());
        assert_eq!(client.platform_name().unwrap(), "dummy");
        assert_eq!(client.platform_version().unwrap(), "");
        // Options are not checked.
        compile_at_level(fixture, "high").unwrap();
        let code = |error: Error| error.code();
        let topology = TopologyDescription::create(&plugin, TOPOLOGY, &[]);
        assert_eq!(topology.map(drop).map_err(code), Err(ErrorCode::UNIMPLEMENTED));
        let program = fixture.next(4);
        assert_eq!(program.executable().cost_analysis().map_err(code), Err(ErrorCode::UNIMPLEMENTED));
        // The executable contains the program, which is compiled again.
        let loaded = client.deserialize_and_load(&program.executable().serialize().unwrap()).unwrap();
        let x = fixture.put(&[1; 4]);
        assert_eq!(bytes(&run(&loaded, &[&x]).unwrap()).unwrap(), [2; 4]);
        assert_eq!(fixture.control.state().loaded, 0);
        assert_eq!(upload_from_allocator(fixture), [1, 2, 3]);
        assert_eq!(fixture.control.state().pinned_copies, 0);
        let poisoned = fixture.device(0).poison_execution(7, ErrorCode::ABORTED, "poison");
        assert_eq!(poisoned.map_err(code), Err(ErrorCode::UNIMPLEMENTED));
        assert_eq!(x.unsafe_pointer().map_err(code), Err(ErrorCode::UNIMPLEMENTED));
        assert!(plugin.extension::<Streams>().is_none() && plugin.extension::<Ffi>().is_none());
    });
}

#[test]
fn platform() {
    with_features(|fixture| {
        assert_eq!(fixture.client.platform_name().unwrap(), "dummy platform");
        assert_eq!(fixture.client.platform_version().unwrap(), VERSION);
        let attributes = fixture.client.topology().unwrap().attributes().unwrap();
        assert_eq!(attributes, [NamedValue::new("links", 3)]);
    });
}

#[test]
fn named_options() {
    with_features(|fixture| {
        compile_at_level(fixture, "3").unwrap();
        let error = compile_at_level(fixture, "high").unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        let unknown = CompileOptions::default().with_option_override("dummy_width", 1);
        let error = fixture.client.compile(&Program::mlir(next(4)), &unknown).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        assert!(error.message().contains("dummy_width"), "{error}");
    });
}

#[test]
fn ahead_of_time() {
    with_features(|fixture| {
        let (client, plugin) = (&fixture.client, fixture.client.plugin());
        let error = TopologyDescription::create(&plugin, "triple", &[]).unwrap_err();
        assert_eq!(message(&error), (ErrorCode::INVALID_ARGUMENT, "unknown topology \"triple\""));
        let topology = TopologyDescription::create(&plugin, TOPOLOGY, &[]).unwrap();
        assert_eq!(topology.device_descriptions().unwrap().len(), 2);
        let executable = topology.compile(&Program::mlir(next(4)), &CompileOptions::default()).unwrap();
        let program = client.load_executable(&executable, &CompileOptions::default()).unwrap();
        assert_eq!(fixture.control.state().loaded, 1);
        assert_eq!(bytes(&run(&program, &[&fixture.put(&[1; 4])]).unwrap()).unwrap(), [2; 4]);
    });
}

#[test]
fn serialization() {
    with_features(|fixture| {
        let stored = fixture.next(4).executable().serialize().unwrap();
        let program = fixture.client.deserialize_and_load(&stored).unwrap();
        assert_eq!(fixture.control.state().loaded, 1);
        assert_eq!(bytes(&run(&program, &[&fixture.put(&[1; 4])]).unwrap()).unwrap(), [2; 4]);
    });
}

#[test]
fn cost_analysis() {
    with_features(|fixture| {
        let program = fixture.compile("name=add size=5 inputs=2 out=x0+x1");
        let executable = program.executable();
        assert_eq!(executable.cost_analysis().unwrap(), [NamedValue::new("additions", 5)]);
        let memory = executable.compiled_memory_stats().unwrap();
        assert_eq!((memory.argument_size, memory.output_size), (10, 5));
    });
}

#[test]
fn host_memory_allocator() {
    with_features(|fixture| {
        assert_eq!(upload_from_allocator(fixture), [1, 2, 3]);
        assert_eq!(fixture.control.state().pinned_copies, 1);
        fixture.control.wait_until(|state| state.pinned.is_empty());
        let allocator = fixture.client.plugin().extension::<HostMemoryAllocator>().unwrap();
        let error = allocator.allocate(&fixture.client, 3, Some(2)).unwrap_err();
        assert_eq!(message(&error), (ErrorCode::INVALID_ARGUMENT, "the dummy has two nodes"));
    });
}

#[test]
fn poisoning() {
    with_features(|fixture| {
        let (next, device) = (fixture.next(4), fixture.device(0));
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(0, Compute);
        let launch = |id| {
            let mut options = ExecuteOptions::new();
            options.launch_id = id;
            next.execute_with([Input::Borrow(&x)], &options).unwrap().outputs.remove(0)
        };
        let [first, poisoned, last] = [6, 7, 8].map(launch);
        assert!(!device.poison_execution(9, ErrorCode::ABORTED, "poison").unwrap());
        // This code must not make the device count as lost.
        assert!(device.poison_execution(7, ErrorCode::UNAVAILABLE, "poison").unwrap());
        assert!(!device.poison_execution(7, ErrorCode::ABORTED, "poison").unwrap());
        fixture.control.release(0, Compute);
        let error = bytes(&poisoned).unwrap_err();
        assert_eq!(message(&error), (ErrorCode::ABORTED, "launch on device 0: poison"));
        assert_eq!((bytes(&first).unwrap(), bytes(&last).unwrap()), (vec![2; 4], vec![2; 4]));
    });
}

#[test]
fn buffer_addresses() {
    with_features(|fixture| {
        let (x, y) = (fixture.put(&[1; 4]), fixture.put(&[2; 4]));
        let address = x.external_reference().unwrap().address().unwrap().addr();
        assert_eq!(x.unsafe_pointer().unwrap(), address);
        assert_ne!(y.unsafe_pointer().unwrap(), address);
    });
}

#[test]
fn piecewise_upload() {
    with_features(|fixture| {
        let (device, next) = (fixture.device(0), fixture.next(4));
        let shape = Shape::new(ElementType::U8, [4]);
        let upload = || {
            AsyncHostToDeviceTransferManager::new(&device.default_memory().unwrap(), std::slice::from_ref(&shape))
                .unwrap()
        };
        fixture.control.hold(0, Transfer);
        let (manager, works) = (upload(), fixture.control.state().works);
        manager.transfer_data(0, 2, vec![3u8, 4]).unwrap().wait().unwrap();
        manager.transfer_last_data(0, 0, vec![1u8, 2]).unwrap().wait().unwrap();
        let buffer = manager.retrieve_buffer(0).unwrap();
        // Each piece is a copy, for which no call waits.
        assert_eq!(fixture.control.state().works - works, 2);
        assert!(!buffer.ready_event().unwrap().is_ready().unwrap());
        let y = run(&next, &[&buffer]).unwrap();
        fixture.control.release(0, Transfer);
        assert_eq!((bytes(&buffer).unwrap(), bytes(&y).unwrap()), (vec![1, 2, 3, 4], vec![2, 3, 4, 5]));
        let failing = fixture.control.change(|state| {
            state.failing_works.push(state.works + 1);
            state.works + 1
        });
        let manager = upload();
        manager.transfer_data(0, 0, vec![1u8]).unwrap().wait().unwrap();
        manager.transfer_last_data(0, 1, vec![2u8, 3, 4]).unwrap().wait().unwrap();
        let error = bytes(&manager.retrieve_buffer(0).unwrap()).unwrap_err();
        let expected = format!("copy of 1 bytes from the host to device 0: work {failing} failed");
        assert_eq!(message(&error), (ErrorCode::DATA_LOSS, &*expected));
    });
}

#[test]
fn queued_transfers() {
    with_features(|fixture| {
        let next = fixture.next(4);
        let x = fixture.put_ready(&[1; 4]);
        fixture.control.hold(0, Compute);
        let y = run(&next, &[&x]).unwrap();
        let works = fixture.control.state().works;
        let (read, copy) = (y.download().start::<u8>().unwrap(), y.copy_to(&fixture.device(1)).unwrap());
        // Both copies have begun, although the launch has not ended.
        assert_eq!(fixture.control.state().works - works, 2);
        fixture.control.release(0, Compute);
        assert_eq!((read.wait().unwrap(), bytes(&copy).unwrap()), (vec![2; 4], vec![2; 4]));

        let failing = fixture.compile("name=p size=4 inputs=1 out=x0 fail=run");
        fixture.control.hold(0, Compute);
        let y = run(&failing, &[&x]).unwrap();
        let (read, copy) = (y.download().start::<u8>().unwrap(), y.copy_to(&fixture.device(1)).unwrap());
        let of_copy = copy.download().start::<u8>().unwrap();
        let of_next = run(&next, &[&y]).unwrap().download().start::<u8>().unwrap();
        fixture.control.release(0, Compute);
        // This launch succeeds, but its argument fails.
        let error = of_next.wait().unwrap_err();
        let expected = "argument 0 failed: launch on device 0: kernel p failed";
        assert_eq!(message(&error), (ErrorCode::DATA_LOSS, expected));
        for read in [read, of_copy] {
            let error = read.wait().unwrap_err();
            assert_eq!(message(&error), (ErrorCode::DATA_LOSS, "launch on device 0: kernel p failed"));
        }
        assert_eq!(copy.wait().unwrap_err().code(), ErrorCode::DATA_LOSS);
    });
}

#[test]
fn raw_buffers() {
    with_features(|fixture| {
        let raw_buffers = fixture.client.plugin().extension::<RawBuffers>().unwrap();
        let x = fixture.put(&[1, 2, 3, 4]);
        let raw = raw_buffers.alias(&x).unwrap();
        assert_eq!(raw.read(1, 2).unwrap(), [2, 3]);
        // SAFETY: no run uses the buffer.
        #[expect(unsafe_code, reason = "the caller orders raw writes")]
        let written = unsafe { raw.write(2, [9u8]) };
        written.unwrap().wait().unwrap();
        assert_eq!(bytes(&x).unwrap(), [1, 2, 9, 4]);
        assert_eq!(raw.read(3, 2).unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    });
}

#[test]
fn streams() {
    with_features(|fixture| {
        let streams = fixture.client.plugin().extension::<Streams>().unwrap();
        let stream = streams.stream_for_external_ready_events(&fixture.device(1)).unwrap();
        assert_eq!(stream.as_raw(), 101);
        let (next, x) = (fixture.next(4), fixture.put_ready(&[1; 4]));
        fixture.control.hold(0, Compute);
        let y = run(&next, &[&x]).unwrap();
        // The call does not wait for the launch.
        streams.wait_until_buffer_ready_on_stream(&stream, &y).unwrap();
        streams.wait_until_buffer_ready_on_stream(&stream, &x).unwrap();
        fixture.control.release(0, Compute);
        y.wait().unwrap();
        streams.wait_until_buffer_ready_on_stream(&stream, &y).unwrap();
        assert_eq!(fixture.control.state().stream_waits, [(101, 1), (101, 0), (101, 0)]);
        fixture.control.lose(0);
        y.copy_to(&fixture.device(0)).and_then(|z| z.wait()).unwrap_err();
        let error = streams.wait_until_buffer_ready_on_stream(&stream, &y).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
    });
}

/// A handler that multiplies its operand by the attribute `by`, and fails if `by` is 0.
fn scale(control: &Control, call: &DeviceCall<'_>) -> device_plugin::Result<()> {
    assert_eq!((call.target, call.device, call.stream), ("scale", 1, stream(1, Compute)));
    let by = call.attributes.get("by").and_then(Attribute::as_int).unwrap();
    if by == 0 {
        return Err(device_plugin::Error::invalid_argument("by is 0"));
    }
    assert_ne!(by, 9, "by is 9");
    let ([operand], [result]) = (call.operands, call.results) else { panic!("one operand and one result") };
    let [from, to] = [operand, result].map(|array| control.state().memory(array.address).expect("device memory"));
    let size = operand.shape.host_size().unwrap();
    let scaled: Vec<u8> = from.lock().unwrap()[..size].iter().map(|byte| byte * u8::try_from(by).unwrap()).collect();
    to.lock().unwrap()[..size].copy_from_slice(&scaled);
    Ok(())
}

#[test]
fn custom_calls() {
    with_features(|fixture| {
        let (registry, control) = (Registry::of::<Runtime<Dummy<All>>>(), Arc::clone(&fixture.control));
        let handler = Handler::rust_on_device(move |call| scale(&control, call));
        registry.register("scale", "dummy", handler).unwrap();
        registry.register("on_host", "dummy", Handler::rust(|_| Ok(()))).unwrap();
        assert!(fixture.client.plugin().extension::<Ffi>().is_some());
        let x = fixture.put_on(1, &[1, 2, 3]).unwrap();
        let run = |text: &str| {
            let mut options = CompileOptions::default();
            options.compile_portable_executable = true;
            let program = Program::mlir(format!("name=p size=3 inputs=1 out=0 {text}"));
            let program = fixture.client.compile(&program, &options).unwrap();
            let options = ExecuteOptions::new().with_device(&fixture.device(1));
            program.execute_with([Input::Borrow(&x)], &options).map(|run| { run.outputs }.remove(0))
        };
        assert_eq!(bytes(&run("call=scale by=3").unwrap()).unwrap(), [3, 6, 9]);
        // The handler fails after the call of the framework has returned.
        let failed = bytes(&run("call=scale by=0").unwrap()).unwrap_err();
        assert_eq!(message(&failed), (ErrorCode::INVALID_ARGUMENT, "launch on device 1: by is 0"));
        // The device survives a panic of the handler.
        let failed = bytes(&run("call=scale by=9").unwrap()).unwrap_err();
        assert!(failed.code() == ErrorCode::INTERNAL && failed.message().contains("by is 9"), "{failed}");
        assert_eq!(bytes(&run("call=scale by=3").unwrap()).unwrap(), [3, 6, 9]);
        let failed = bytes(&run("call=on_host").unwrap()).unwrap_err();
        assert_eq!(failed.code(), ErrorCode::UNIMPLEMENTED);
        assert!(failed.message().contains("\"on_host\" works on host memory"), "{failed}");
        assert_eq!(run("call=nothing").unwrap_err().code(), ErrorCode::UNIMPLEMENTED);
    });
}
