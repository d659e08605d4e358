//! Tests every safe function of a buffer on buffers in every state. The contents may be ready, pending, failed or
//! deleted. A plugin may crash in some states, so each real plugin runs in a child process.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlpark::versioned::Dlpack;
use pjrt::extensions::{Layouts, RawBuffers};
use pjrt::{
    AliasFulfillment, AsyncHostToDeviceTransferManager, Buffer, Client, Device, ElementType, Error, ErrorCode,
    ErrorKind, ExecuteOptions, Input, LoadedExecutable, Memory, Shape,
};

use crate::real::{compile, each_child, embedded, supported};

/// A timeout that no operation of these tests exceeds.
const LONG: Duration = Duration::from_secs(60);
/// Time for a call to begin while the contents are pending. The calls return the same results if it is too short.
const SHORT: Duration = Duration::from_millis(2);
/// Rows and columns of the buffers. An emulator would take minutes for products of large matrices.
const SIZE: usize = if cfg!(target_arch = "x86_64") { 512 } else { 64 };
const DIMS: [i64; 2] = [SIZE as i64; 2];

/// A program whose run takes longer than a call.
fn square() -> String {
    let matrix = format!("tensor<{SIZE}x{SIZE}xf32>");
    format!(
        "func.func @main(%x: {matrix}) -> {matrix} {{
            %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {matrix}
            %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {matrix}
            return %1 : {matrix}
        }}"
    )
}

struct Setup {
    client: Client,
    device: Device,
    /// The last device, which is another one if the client has several.
    other: Device,
    memory: Memory,
    shape: Shape,
    square: LoadedExecutable,
    raw_buffers: Option<RawBuffers>,
    layouts: Option<Layouts>,
}

/// Ends the wait of a pending buffer.
type End = Box<dyn FnOnce() -> Result<(), Error>>;

/// What a call needs from the buffer.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// The contents. The call fails if the buffer has none.
    Contents,
    /// Only properties. The call succeeds unless the buffer is deleted.
    Nothing,
    /// The call may succeed or fail.
    Any,
}
use Needs::{Any, Contents, Nothing};

type Call = fn(&Setup, &mut Option<Arc<Buffer>>) -> Result<(), Error>;

const CALLS: &[(&str, Needs, Call)] = &[
    ("shape", Nothing, |_, x| get(x).shape().map(drop)),
    ("unpadded_dimensions", Nothing, |_, x| get(x).unpadded_dimensions().map(drop)),
    ("dynamic_dimension_indices", Nothing, |_, x| get(x).dynamic_dimension_indices().map(drop)),
    ("memory_layout", Nothing, |_, x| get(x).memory_layout().map(drop)),
    ("on_device_size", Any, |_, x| get(x).on_device_size().map(drop)),
    ("device", Nothing, |_, x| get(x).device().map(drop)),
    ("memory", Nothing, |_, x| get(x).memory().map(drop)),
    ("is_on_cpu", Nothing, |_, x| get(x).is_on_cpu().map(drop)),
    ("is_deleted", Any, |_, x| get(x).is_deleted().map(drop)),
    ("delete", Any, |_, x| get(x).delete().and_then(|()| get(x).is_deleted()).map(drop)),
    ("ready_event", Contents, |_, x| get(x).ready_event()?.wait()),
    ("on_ready", Any, |_, x| get(x).ready_event()?.on_ready(drop)),
    ("wait", Contents, |_, x| get(x).wait()),
    ("to_host", Contents, |_, x| get(x).to_host::<f32>().map(drop)),
    ("copy_to", Contents, |_, x| get(x).download().copy_to(&mut vec![0f32; SIZE * SIZE])),
    ("start", Contents, |_, x| get(x).download().start::<f32>()?.wait().map(drop)),
    ("start, dropped", Any, |_, x| get(x).download().start::<f32>().map(drop)),
    ("start_bytes", Contents, |_, x| get(x).download().start_bytes()?.wait().map(drop)),
    ("raw", Contents, |_, x| get(x).download().raw(0, 8).start()?.wait().map(drop)),
    ("raw, without bytes", Any, |_, x| get(x).download().raw(0, 0).start()?.wait().map(drop)),
    ("raw, dropped", Any, |_, x| get(x).download().raw(0, 8).start().map(drop)),
    ("defer", Contents, |_, x| get(x).download().raw(0, 8).defer()?.start(vec![0; 8])?.wait().map(drop)),
    ("defer, dropped", Any, |_, x| get(x).download().raw(0, 8).defer().map(drop)),
    ("unsafe_pointer", Contents, |_, x| get(x).unsafe_pointer().map(drop)),
    ("external_reference", Contents, |_, x| get(x).external_reference()?.address().map(drop)),
    ("host_view", Contents, |_, x| get(x).host_view::<f32>().map(drop)),
    ("to_dlpack", Contents, |_, x| get(x).to_dlpack::<_>().map(|tensor: Dlpack| drop(tensor))),
    ("copy to the device", Any, |setup, x| get(x).copy_to(&setup.device)?.wait()),
    ("copy to the last device", Any, |setup, x| get(x).copy_to(&setup.other)?.wait()),
    ("copy to the memory", Any, |setup, x| get(x).copy_to(&setup.memory)?.wait()),
    ("bitcast", Contents, |_, x| get(x).bitcast(&Shape::new(ElementType::S32, DIMS), None)?.wait()),
    ("fulfill", Contents, |setup, x| {
        let (alias, fulfillment) = setup.memory.buffer(&setup.shape).alias()?;
        fulfillment.fulfill(get(x))?;
        alias.wait()
    }),
    ("execute", Contents, |setup, x| setup.square.execute(&[get(x)])?[0].wait()),
    ("donate", Contents, |setup, x| {
        setup.square.execute_with([Input::Donate(take(x))], &ExecuteOptions::new())?.outputs[0].wait()
    }),
    ("donate_with_control_dependency", Contents, |_, x| {
        let (after, dependency) = take(x).donate_with_control_dependency()?;
        dependency.ready();
        after.wait()
    }),
    ("RawBuffers::alias", Any, |setup, x| setup.raw_buffers.as_ref().map_or(Ok(()), |raw| raw.alias(get(x)).map(drop))),
    ("RawBuffer::read", Contents, |setup, x| match &setup.raw_buffers {
        Some(raw) => raw.alias(get(x))?.read(0, 8).map(drop),
        None => get(x).wait(),
    }),
    ("RawBuffer::host_pointer", Any, |setup, x| {
        setup.raw_buffers.as_ref().map_or(Ok(()), |raw| raw.alias(get(x))?.host_pointer().map(drop))
    }),
    ("buffer_layout", Any, |setup, x| {
        setup.layouts.as_ref().map_or(Ok(()), |layouts| layouts.buffer_layout(get(x)).map(drop))
    }),
    ("drop", Any, |_, x| {
        *x = None;
        Ok(())
    }),
];

fn get(x: &Option<Arc<Buffer>>) -> &Arc<Buffer> {
    x.as_ref().expect("the buffer is not donated")
}

fn take(x: &mut Option<Arc<Buffer>>) -> Buffer {
    x.take().and_then(Arc::into_inner).expect("the buffer has one owner")
}

impl Setup {
    fn new(client: &Client) -> Self {
        let device = client.default_device().unwrap();
        Self {
            client: client.clone(),
            memory: device.default_memory().unwrap(),
            device,
            other: client.addressable_devices().unwrap().pop().unwrap(),
            shape: Shape::new(ElementType::F32, DIMS),
            square: compile(client, &square()),
            raw_buffers: client.plugin().extension(),
            layouts: client.plugin().extension(),
        }
    }

    fn upload(&self) -> Buffer {
        self.client.buffer_from_host(&vec![0.001f32; SIZE * SIZE], &DIMS).unwrap()
    }

    fn run(&self, x: &Buffer) -> Result<Buffer, Error> {
        Ok(self.square.execute(&[x])?.remove(0))
    }

    fn alias(&self) -> Result<(Buffer, AliasFulfillment), Error> {
        self.memory.buffer(&self.shape).alias()
    }
}

/// How an alias ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    FulfilledLater,
    FailedLater,
    Failed,
}

/// Creates a buffer that waits for an alias.
type Derive = fn(&Setup, Buffer) -> Result<Buffer, Error>;

const DERIVED: &[(&str, Derive)] = &[
    ("alias", |_, alias| Ok(alias)),
    ("alias of an alias", |setup, source| {
        let (alias, fulfillment) = setup.alias()?;
        fulfillment.fulfill(&source)?;
        Ok(alias)
    }),
    ("output of an alias", |setup, alias| setup.run(&alias)),
    ("copy of an alias", |setup, alias| alias.copy_to(&setup.memory)),
    ("bitcast of an alias", |setup, alias| alias.bitcast(&setup.shape, None)),
];

fn from_alias(setup: &Setup, derive: Derive, way: Way) -> Result<(Buffer, End), Error> {
    let (alias, fulfillment) = setup.alias()?;
    let fail = move |fulfillment: AliasFulfillment| fulfillment.fail(ErrorCode::DATA_LOSS, "lost");
    if way == Way::Failed {
        let buffer = derive(setup, alias)?;
        fail(fulfillment)?;
        return Ok((buffer, no_end()));
    }
    let (buffer, source) = (derive(setup, alias)?, setup.upload());
    let later = move || if way == Way::FulfilledLater { fulfillment.fulfill(&source) } else { fail(fulfillment) };
    Ok((buffer, Box::new(later)))
}

/// The name of a state, whether the buffer has contents in the end, and a function that creates a buffer in this state.
type State = (&'static str, bool, fn(&Setup) -> Result<(Buffer, End), Error>);

fn no_end() -> End {
    Box::new(|| Ok(()))
}

const STATES: &[State] = &[
    ("ready", true, |setup| {
        let x = setup.upload();
        x.wait()?;
        Ok((x, no_end()))
    }),
    ("output of a running program", true, |setup| Ok((setup.run(&setup.upload())?, no_end()))),
    ("uninitialized", true, |setup| Ok((setup.memory.buffer(&setup.shape).uninitialized()?, no_end()))),
    ("error", false, |setup| Ok((setup.memory.buffer(&setup.shape).error(ErrorCode::DATA_LOSS, "lost")?, no_end()))),
    ("output of an error", false, |setup| {
        let error = setup.memory.buffer(&setup.shape).error(ErrorCode::DATA_LOSS, "lost")?;
        Ok((setup.run(&error)?, no_end()))
    }),
    ("deleted", false, |setup| {
        let x = setup.upload();
        x.delete()?;
        Ok((x, no_end()))
    }),
    ("source of a bitcast", true, |setup| {
        let x = setup.upload();
        drop(x.bitcast(&setup.shape, None)?);
        Ok((x, no_end()))
    }),
    ("source of an alias", true, |setup| {
        let (x, (_, fulfillment)) = (setup.upload(), setup.alias()?);
        fulfillment.fulfill(&x)?;
        Ok((x, no_end()))
    }),
    ("transfer", true, |setup| {
        let manager = AsyncHostToDeviceTransferManager::new(&setup.memory, std::slice::from_ref(&setup.shape))?;
        let x = manager.retrieve_buffer(0)?;
        Ok((x, Box::new(move || manager.transfer_last_data(0, 0, vec![0u8; 4 * SIZE * SIZE])?.wait())))
    }),
    ("failed transfer", false, |setup| {
        let manager = AsyncHostToDeviceTransferManager::new(&setup.memory, std::slice::from_ref(&setup.shape))?;
        let x = manager.retrieve_buffer(0)?;
        manager.set_buffer_error(0, ErrorCode::DATA_LOSS, "lost")?;
        let end = move || {
            drop(manager);
            Ok(())
        };
        Ok((x, Box::new(end)))
    }),
];

/// Calls a function on another thread, ends the buffer's wait meanwhile, and checks the result of the call.
fn cross(setup: &Setup, state: &str, has_contents: bool, (buffer, end): (Buffer, End), call: &(&str, Needs, Call)) {
    let (name, needs, call) = *call;
    // The last of these lines names the call that ended the process.
    println!("{name}, {state}");
    let buffer = Mutex::new(Some(Arc::new(buffer)));
    let (sender, receiver) = channel();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = buffer.lock().unwrap();
            sender.send(call(setup, &mut buffer)).unwrap();
        });
        let early = receiver.recv_timeout(SHORT);
        end().unwrap_or_else(|error| panic!("{name}, {state}: the end: {error}"));
        match early {
            Err(RecvTimeoutError::Timeout) => receiver.recv_timeout(LONG),
            early => early,
        }
    });
    let result = result.unwrap_or_else(|error| panic!("{name}, {state}: {error}"));
    match result {
        Err(error) if error.kind() == ErrorKind::Unsupported || error.code() == ErrorCode::UNIMPLEMENTED => {}
        Err(error) if has_contents && needs != Any && !state.starts_with("source") => {
            panic!("{name}, {state}: {error}")
        }
        Ok(()) if !has_contents && needs == Contents => panic!("{name}, {state}: succeeded"),
        _ => {}
    }
}

/// A thread that waits for the memory of a pending buffer does not delay calls of other threads that need no contents.
fn calls_beside_a_wait(setup: &Setup, client: &Client) {
    for name in ["delete", "bitcast"] {
        println!("{name} beside a wait");
        let pending = from_alias(setup, |setup, alias| setup.run(&alias), Way::FulfilledLater);
        let Some((x, end)) = supported(client, name, pending) else { return };
        let (sender, receiver) = channel();
        let result = std::thread::scope(|scope| {
            scope.spawn(|| drop(x.external_reference()));
            std::thread::sleep(SHORT);
            scope.spawn(|| {
                let shape = Shape::new(ElementType::S32, DIMS);
                sender.send(if name == "delete" { x.delete() } else { x.bitcast(&shape, None).map(drop) }).unwrap();
            });
            let result = receiver.recv_timeout(LONG);
            end().unwrap();
            result
        });
        let result = result.unwrap_or_else(|error| panic!("{name}: {error}"));
        supported(client, name, result);
    }
}

fn cross_all(client: &Client) {
    let setup = Setup::new(client);
    calls_beside_a_wait(&setup, client);
    for (state, has_contents, create) in STATES {
        for call in CALLS {
            let created = create(&setup);
            // The run of an argument without contents may fail at once.
            let is_refused = created.as_ref().is_err_and(|error| error.code() == ErrorCode::DATA_LOSS);
            if is_refused && !has_contents {
                break;
            }
            let Some(buffer) = supported(client, state, created) else { break };
            cross(&setup, state, *has_contents, buffer, call);
        }
    }
    for (derived, derive) in DERIVED {
        for way in [Way::FulfilledLater, Way::FailedLater, Way::Failed] {
            for call in CALLS {
                let Some(buffer) = supported(client, derived, from_alias(&setup, *derive, way)) else { break };
                cross(&setup, &format!("{derived}, {way:?}"), way == Way::FulfilledLater, buffer, call);
            }
        }
    }
    client.synchronize(LONG).unwrap();
}

#[test]
fn embedded_device() {
    cross_all(&embedded());
}

#[test]
fn real_plugins() {
    each_child("buffer_states::real_plugins", cross_all);
}
