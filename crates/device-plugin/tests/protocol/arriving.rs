//! Tests a device whose transfers continue after the call. Its buffers become ready or fail later.

use std::sync::{Arc, Mutex, OnceLock};

use device_plugin::features::{DeviceCopies, Features};
use device_plugin::*;
use pjrt_sys::*;

use crate::framework::{Client, Framework, garbage, pair};

struct Arriving;

impl DevicePlugin for Arriving {
    const NAME: &'static str = "arriving";
    type Backend = Dma;
}

/// Transfers in progress, in the order in which they started.
type Wire = Arc<Mutex<Vec<(Buffer, Completer)>>>;

/// A device whose transfers end only when a test completes them.
struct Dma {
    under_way: Wire,
}

/// An array of two integers: the data in transit, a cell that is set when the data has arrived, and the event of the
/// arrival.
#[derive(Clone)]
struct Buffer {
    data: Arc<Vec<u8>>,
    there: Arc<OnceLock<()>>,
    event: Event,
}

/// The value of each client's option `test`, with the client's transfers in progress.
static WIRES: Mutex<Vec<(String, Wire)>> = Mutex::new(Vec::new());

/// Completes the oldest transfer of one client with `result`. The client's option `test` has the value `test`.
fn arrive(test: &str, result: Result<()>) {
    let wires = WIRES.lock().unwrap();
    let wire = Arc::clone(&wires.iter().find(|(name, _)| name == test).expect("a client").1);
    drop(wires);
    let (buffer, completer) = wire.lock().unwrap().remove(0);
    if result.is_ok() {
        buffer.there.set(()).expect("once");
    }
    completer.complete_inline(result);
}

impl Dma {
    fn send(&self, data: Vec<u8>) -> Buffer {
        let (event, completer) = Event::pending();
        let buffer = Buffer { data: Arc::new(data), there: Arc::default(), event };
        self.under_way.lock().unwrap().push((buffer.clone(), completer));
        buffer
    }
}

impl Buffer {
    fn data(&self) -> Result<&[u8]> {
        self.there.get().ok_or_else(|| Error::internal("used before it was there"))?;
        Ok(&self.data)
    }
}

impl Backend for Dma {
    type Buffer = Buffer;

    const FEATURES: Features<Self> = Features::none().device_copies();

    device_plugin_testing::one_device!("DMA");
    device_plugin_testing::one_program!("echo", pair());

    fn create(options: &ClientOptions) -> Result<Self> {
        let under_way = Wire::default();
        let test = options.get("test").map(ToString::to_string).unwrap_or_default();
        WIRES.lock().unwrap().push((test, Arc::clone(&under_way)));
        Ok(Self { under_way })
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Buffer> {
        Ok(self.send(host.into_bytes()))
    }

    fn ready(&self, buffer: &Buffer) -> Event {
        buffer.event.clone()
    }

    fn read(&self, buffer: &Buffer, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer.data()?);
        Ok(())
    }

    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        launch.inputs[0].data()?;
        let output = launch.inputs[0].clone();
        launch.outputs.push(output)?;
        Ok(Event::ready())
    }
}

impl DeviceCopies for Dma {
    fn copy(&self, buffer: &Buffer, _: &Shape, _: Placement) -> Result<Buffer> {
        Ok(self.send(buffer.data()?.to_vec()))
    }
}

fn table() -> Framework {
    Framework(raw::api::<Arriving>())
}

fn client(test: &str) -> Client {
    table().client(&[NamedValue::new("test", test)]).unwrap()
}

fn is_ready(buffer: *mut PJRT_Buffer) -> bool {
    let event = table().ready_event(buffer);
    let ready = table().is_ready(event);
    table().destroy_event(event);
    ready
}

fn copy(client: Client, buffer: *mut PJRT_Buffer) -> *mut PJRT_Buffer {
    let memory = table().memories(client)[0];
    let asked = table().ask::<slot::PJRT_Buffer_CopyToMemory>(|args| (args.buffer, args.dst_memory) = (buffer, memory));
    asked.unwrap().dst_buffer
}

#[test]
fn buffer_becomes_ready_on_arrival() {
    let client = client("arrives");
    let executable = table().compile(client, "echo").unwrap();
    let buffer = table().ints(client, &[3, 4]);
    let copy = copy(client, buffer);
    assert!(!is_ready(buffer) && !is_ready(copy));
    arrive("arrives", Ok(()));
    assert!(is_ready(buffer));
    // The copy started when its source became ready, so it is still in progress.
    assert!(!is_ready(copy));
    arrive("arrives", Ok(()));
    assert!(is_ready(copy));
    let (outputs, done) = table().execute(executable, &[copy], 1).unwrap();
    table().wait(done).unwrap();
    for buffer in [buffer, copy, outputs[0]] {
        assert_eq!(table().read_ints(buffer).unwrap(), [3, 4]);
    }
    table().destroy(&[buffer, copy, outputs[0]]);
    table().destroy_loaded(executable);
    table().destroy_client(client);
}

#[test]
fn failed_transfer_fails_dependents() {
    let client = client("fails");
    let executable = table().compile(client, "echo").unwrap();
    let buffer = table().ints(client, &[3, 4]);
    let copy = copy(client, buffer);
    arrive("fails", Err(Error::resource_exhausted("the wire is cut")));
    for lost in [buffer, copy] {
        let fault = table().read_ints(lost).unwrap_err();
        assert_eq!(fault.code, ErrorCode::RESOURCE_EXHAUSTED);
        assert!(fault.message.contains("the wire is cut"), "{fault:?}");
    }
    // An execution that uses the buffer fails, too.
    let told = match table().execute(executable, &[buffer], 1) {
        Err(fault) => fault,
        Ok((outputs, done)) => {
            let fault = table().wait(done).unwrap_err();
            table().destroy(&outputs);
            fault
        }
    };
    assert!(told.message.contains("the wire is cut"), "{told:?}");
    table().destroy(&[buffer, copy]);
    table().destroy_loaded(executable);
    table().destroy_client(client);
}

#[test]
fn pending_memory_is_not_ready() {
    let client = client("empty");
    let memory = table().memories(client)[0];
    let shape = pair();
    let mut args = garbage::<PJRT_Client_CreateUninitializedBuffer_Args>();
    args.client = client;
    args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
    (args.shape_dims, args.shape_num_dims) = (shape.dimensions.as_ptr(), shape.dimensions.len());
    (args.shape_layout, args.memory, args.device) = (std::ptr::null_mut(), memory, std::ptr::null_mut());
    table().call::<slot::PJRT_Client_CreateUninitializedBuffer>(&mut args).unwrap();
    assert!(!is_ready(args.buffer));
    arrive("empty", Ok(()));
    assert!(is_ready(args.buffer));
    assert_eq!(table().read_ints(args.buffer).unwrap(), [0, 0]);
    table().destroy(&[args.buffer]);
    table().destroy_client(client);
}
