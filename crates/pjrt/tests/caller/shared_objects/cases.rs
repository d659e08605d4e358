//! Uses of one object by eight threads at once: every safe function that takes the object by reference.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use dlpark::versioned::Dlpack;
use pjrt::extensions::{Layouts, MemoryDescriptions, RawBuffers, Shardings};
use pjrt::{
    AsyncHostToDeviceTransferManager, Buffer, Client, CompileOptions, Device, DeviceDescription, ElementType, Error,
    ErrorCode, ErrorKind, Event, Executable, ExecuteOptions, Input, LoadedExecutable, Memory, Program, SettableEvent,
    Shape, TopologyDescription,
};

use crate::real::compile;

const THREADS: usize = 8;
/// Number of elements of the shared buffer.
const LEN: usize = 1024;

const PROGRAM: &str = "func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<1024xf32> {
    %z = stablehlo.add %x, %y : tensor<1024xf32>
    return %z : tensor<1024xf32>
}";

/// A function that uses a shared object.
type Use<'a> = &'a (dyn Fn() -> Result<(), Error> + Sync);

/// The name of an object, and a function that lets threads use it until the time has passed.
pub(crate) type Case = (&'static str, fn(&Client, Duration));

pub(crate) const CASES: &[Case] = &[
    ("references to a buffer", references),
    ("a buffer", buffer),
    ("a buffer that is deleted", deleted_buffer),
    ("an event", event),
    ("a loaded executable", loaded_executable),
    ("an executable", executable),
    ("a topology", topology),
    ("a client, its devices and its memories", client),
    ("a transfer manager", transfer_manager),
];

/// Lets each thread call all functions `passes` times, in an order of its own. All threads start together.
/// Functions that the plugin lacks may fail. With `may_fail`, all functions may.
fn share(uses: &[Use<'_>], passes: usize, may_fail: bool) {
    let start = Barrier::new(THREADS);
    let thread = |number: usize| {
        start.wait();
        for step in 0..passes * uses.len() {
            let index = (number * 3 + step) % uses.len();
            match uses[index]() {
                Err(error) if !may_fail && !is_unsupported(&error) => panic!("use {index}: {error}"),
                _ => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let thread = &thread;
            scope.spawn(move || thread(number));
        }
    });
}

fn is_unsupported(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported || error.code() == ErrorCode::UNIMPLEMENTED
}

/// Repeats `round` until the time has passed, at least once.
fn rounds(time: Duration, mut round: impl FnMut()) {
    let start = Instant::now();
    loop {
        round();
        if start.elapsed() >= time {
            return;
        }
    }
}

fn data() -> Vec<f32> {
    (0..1024u16).map(f32::from).collect()
}

fn upload(client: &Client) -> Arc<Buffer> {
    Arc::new(client.buffer_from_host(&data(), &[1024]).unwrap())
}

fn check(contents: &[f32]) {
    assert_eq!(contents, data(), "the contents");
}

fn read(buffer: &Buffer) -> Result<(), Error> {
    check(&buffer.to_host::<f32>()?);
    let mut into = vec![0f32; LEN];
    buffer.download().copy_to(&mut into)?;
    check(&into);
    assert_eq!(buffer.download().bytes()?.len(), 4 * LEN);
    Ok(())
}

fn view(buffer: &Buffer) -> Result<(), Error> {
    check(&buffer.host_view::<f32>()?);
    Ok(())
}

fn reference(buffer: &Buffer) -> Result<(), Error> {
    buffer.wait()?;
    let references = [buffer.external_reference()?, buffer.external_reference()?];
    assert_eq!(references[0].address()?, references[1].address()?);
    Ok(())
}

fn export(buffer: &Arc<Buffer>) -> Result<(), Error> {
    let tensor: Dlpack = buffer.to_dlpack()?;
    assert_eq!(tensor.validate().unwrap().shape(), [1024]);
    Ok(())
}

/// Functions that take external references.
fn references(client: &Client, time: Duration) {
    rounds(time, || {
        let x = upload(client);
        share(&[&|| read(&x), &|| view(&x), &|| reference(&x), &|| export(&x)], 50, false);
        drop(x.external_reference().unwrap());
        x.delete().unwrap();
    });
}

/// Queries of a buffer, some of which the plugin answers from caches that the first query fills.
fn query(x: &Buffer) -> Result<(), Error> {
    assert_eq!(*x.shape()?, Shape::new(ElementType::F32, [1024]));
    x.on_device_size()?;
    x.device()?.id()?;
    x.is_on_cpu()?;
    x.is_deleted()?;
    x.ready_event()?.wait()?;
    Ok(())
}

fn copy(x: &Buffer) -> Result<(), Error> {
    check(&x.download().start::<f32>()?.wait()?);
    check(&x.copy_to(&x.memory()?)?.to_host::<f32>()?);
    Ok(())
}

fn buffer(client: &Client, time: Duration) {
    let program = compile(client, PROGRAM);
    let raw_buffers = client.plugin().extension::<RawBuffers>();
    rounds(time, || {
        let x = upload(client);
        let uses: [Use<'_>; 13] = [
            &|| query(&x),
            &|| x.unpadded_dimensions().map(|dimensions| assert_eq!(dimensions, [1024])),
            &|| x.dynamic_dimension_indices().map(|indices| assert!(indices.is_empty())),
            &|| x.memory_layout().map(drop),
            &|| x.memory()?.kind().map(drop),
            &|| x.unsafe_pointer().map(drop),
            &|| x.download().raw(4, 8).start()?.wait().map(|bytes| assert_eq!(bytes.len(), 8)),
            &|| copy(&x),
            &|| x.copy_to(&x.device()?)?.wait(),
            &|| program.execute(&[&x, &x])?[0].to_host::<f32>().map(|sum| assert_eq!(sum[3], 6.0)),
            &|| raw_buffers.as_ref().map_or(Ok(()), |raw| raw.alias(&x)?.read(0, 4).map(drop)),
            &|| read(&x),
            &|| view(&x),
        ];
        // Some plugins reject a copy to the device that holds the buffer.
        share(&uses[..8], 2, false);
        share(&uses, 2, true);
    });
}

/// One of the threads deletes the buffer meanwhile.
fn deleted_buffer(client: &Client, time: Duration) {
    let program = compile(client, PROGRAM);
    rounds(time, || {
        let (x, calls) = (upload(client), AtomicUsize::new(0));
        let delete = || match calls.fetch_add(1, Ordering::Relaxed) {
            4 => x.delete(),
            _ => query(&x),
        };
        let execute = || program.execute(&[&x, &x])?[0].to_host::<f32>().map(|sum| assert_eq!(sum[3], 6.0));
        share(&[&|| read(&x), &delete, &|| view(&x), &execute, &|| copy(&x), &|| reference(&x)], 4, true);
    });
}

fn event(client: &Client, time: Duration) {
    fn uses(event: &Event, calls: &Arc<AtomicUsize>) {
        let count = || {
            let calls = Arc::clone(calls);
            event.on_ready(move |result| {
                result.unwrap();
                calls.fetch_add(1, Ordering::SeqCst);
            })
        };
        share(&[&|| event.is_ready().map(drop), &count, &|| event.wait()], 10, false);
    }
    rounds(time, || {
        let calls = Arc::new(AtomicUsize::new(0));
        let x = upload(client);
        uses(&x.ready_event().unwrap(), &calls);
        let mut expected = 10 * THREADS;
        match SettableEvent::new(client) {
            Ok(pending) => std::thread::scope(|scope| {
                let (set, is_set) = std::sync::mpsc::channel();
                let event = SettableEvent::new(&x.client()).unwrap();
                scope.spawn(move || set.send(pending.set().unwrap()).unwrap());
                drop(event);
                uses(&is_set.recv().unwrap(), &calls);
                expected *= 2;
            }),
            Err(error) => assert!(is_unsupported(&error), "{error}"),
        }
        client.synchronize(Duration::from_secs(60)).unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), expected, "callbacks");
    });
}

fn loaded_executable(client: &Client, time: Duration) {
    rounds(time, || {
        let (mut program, x) = (compile(client, PROGRAM), upload(client));
        let donate = || {
            let y = client.buffer_from_host(&data(), &[1024])?;
            let run = program.execute_with([Input::Borrow(&x), Input::Donate(y)], &ExecuteOptions::new())?;
            run.done.wait()?;
            run.outputs[0].to_host::<f32>().map(|sum| assert_eq!(sum[3], 6.0))
        };
        let uses: [Use<'_>; 6] = [
            &|| program.execute(&[&x, &x])?[0].to_host::<f32>().map(|sum| assert_eq!(sum[3], 6.0)),
            &donate,
            &|| program.logical_device_ids().map(drop),
            &|| program.device_assignment().map(drop),
            &|| program.is_deleted().map(|deleted| assert!(!deleted)),
            &|| {
                assert_eq!(program.parameters().map(<[_]>::len), Some(2));
                Ok(())
            },
        ];
        share(&uses, 10, false);
        program.delete().unwrap();
        program.execute(&[&x, &x]).unwrap_err();
    });
}

fn executable(client: &Client, time: Duration) {
    let plugin = client.plugin();
    rounds(time, || {
        let loaded: LoadedExecutable = compile(client, PROGRAM);
        let x: &Executable = loaded.executable();
        let layouts = || match plugin.extension::<Layouts>() {
            Some(layouts) => layouts.output_layouts(x).and(layouts.parameter_layouts(x)).map(drop),
            None => Ok(()),
        };
        let shardings = || match plugin.extension::<Shardings>() {
            Some(shardings) => shardings.output_shardings(x).and(shardings.parameter_shardings(x)).map(drop),
            None => Ok(()),
        };
        let uses: [Use<'_>; 14] = [
            &|| x.name().map(drop),
            &|| x.num_replicas().and(x.num_partitions()).map(|count| assert_eq!(count, 1)),
            &|| x.optimized_program().map(drop),
            &|| x.num_outputs().map(|count| assert_eq!(count, 1)),
            &|| x.size_of_generated_code().map(drop),
            &|| x.fingerprint().map(drop),
            &|| x.cost_analysis().map(drop),
            &|| x.compiled_memory_stats().map(drop),
            &|| x.output_shapes().map(|shapes| assert_eq!(shapes, [Shape::new(ElementType::F32, [1024])])),
            &|| x.parameter_memory_kinds().and(x.output_memory_kinds()).map(drop),
            &|| x.serialize().map(drop),
            &|| x.compile_options().map(drop),
            &layouts,
            &shardings,
        ];
        share(&uses, 4, false);
    });
}

fn topology(client: &Client, time: Duration) {
    let plugin = client.plugin();
    rounds(time, || {
        let topology: TopologyDescription = client.topology().unwrap();
        let shape = Shape::new(ElementType::F32, [2, 3]);
        let layout = || match plugin.extension::<Layouts>() {
            Some(layouts) => layouts.topology_default_layout(&topology, &shape).map(drop),
            None => Ok(()),
        };
        let uses: [Use<'_>; 7] = [
            &|| topology.platform_name().and(topology.platform_version()).map(drop),
            &|| topology.device_descriptions()?.iter().try_for_each(describe),
            &|| topology.serialize().map(drop),
            &|| topology.attributes().map(drop),
            &|| topology.fingerprint().map(drop),
            &|| topology.memory_kind_ids().map(drop),
            &layout,
        ];
        share(&uses, 20, false);
    });
}

fn describe(device: &DeviceDescription) -> Result<(), Error> {
    device.id().and(device.process_index())?;
    device.attributes()?;
    device.kind().and(device.debug_string()).and(device.display_string()).map(drop)
}

fn client(client: &Client, time: Duration) {
    let plugin = client.plugin();
    let descriptions = plugin.extension::<MemoryDescriptions>();
    let (device, memories): (Device, Vec<Memory>) = (client.default_device().unwrap(), client.memories().unwrap());
    let memory = |memory: &Memory| {
        memory.id().and(memory.kind_id())?;
        memory.kind().and(memory.debug_string()).and(memory.display_string())?;
        memory.devices().map(drop)
    };
    let compile_one = || client.compile(&Program::mlir(PROGRAM), &CompileOptions::default()).map(drop);
    let uses: [Use<'_>; 16] = [
        &|| client.platform_name().and(client.platform_version()).map(drop),
        &|| client.process_index().map(drop),
        &|| client.devices().and(client.addressable_devices()).map(drop),
        &|| client.lookup_device(device.id()?).and(client.lookup_addressable_device(0)).map(drop),
        &|| client.memories().map(drop),
        &|| client.topology()?.platform_name().map(drop),
        &|| client.default_device_assignment(1, 1).map(drop),
        &|| client.buffer_from_host(&data(), &[1024])?.to_host::<f32>().map(|contents| check(&contents)),
        &|| device.is_addressable().and(device.local_hardware_id().map(|_| true)).map(drop),
        &|| describe(&device.description()?),
        &|| device.memories().and(device.default_memory().map(|memory| vec![memory])).map(drop),
        &|| device.memory_stats().map(drop),
        &|| device.attributes().map(drop),
        &|| device.track("shared").map(drop),
        &|| memories.iter().try_for_each(memory),
        &|| match &descriptions {
            Some(descriptions) => descriptions.memories(&device.description()?).map(drop),
            None => Ok(()),
        },
    ];
    rounds(time, || share(&uses, 5, false));
    share(&[&compile_one], 1, false);
}

fn transfer_manager(client: &Client, time: Duration) {
    let memory = client.default_device().unwrap().default_memory().unwrap();
    let shapes = [Shape::new(ElementType::U8, [8]), Shape::new(ElementType::U8, [4])];
    rounds(time, || {
        let manager: AsyncHostToDeviceTransferManager = match AsyncHostToDeviceTransferManager::new(&memory, &shapes) {
            Ok(manager) => manager,
            Err(error) => return assert!(is_unsupported(&error), "{error}"),
        };
        let sent = AtomicUsize::new(0);
        let send = || {
            let offset = sent.fetch_add(1, Ordering::SeqCst);
            manager.transfer_data(0, offset, vec![u8::try_from(offset).unwrap()])?.wait()
        };
        // Only one thread receives the second buffer.
        let retrieve = || {
            drop(manager.retrieve_buffer(1));
            Ok(())
        };
        let uses: [Use<'_>; 5] = [
            &send,
            &|| manager.buffer_size(0).map(|size| assert_eq!(size, 8)),
            &|| manager.device()?.id().map(drop),
            &|| manager.add_metadata(&[]),
            &retrieve,
        ];
        let buffer = manager.retrieve_buffer(0).unwrap();
        share(&uses, 1, false);
        manager.transfer_last_data(0, 8, Vec::<u8>::new()).unwrap().wait().unwrap();
        assert_eq!(buffer.to_host::<u8>().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}
