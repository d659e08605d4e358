//! Tests a device that also orders transfers itself. Reads and copies begin before their buffer is ready.

use std::sync::{Arc, Mutex, OnceLock};

use device_plugin::features::{AsyncReads, DeviceCopies, Features};
use device_plugin::*;
use device_plugin_testing::Exclusive;
use pjrt_sys::*;

use crate::framework::{self, Framework};

struct Ordered;

impl DevicePlugin for Ordered {
    const NAME: &'static str = "ordered";
    type Backend = Board;
}

struct Board;

/// A value, which is set when the queue reaches the operation that computes it, and the event of a copy.
#[derive(Clone)]
struct Cell {
    value: Arc<OnceLock<Result<Vec<u8>>>>,
    ready: Event,
}

type Work = Box<dyn FnOnce() + Send>;
/// The submitted operations. The tests decide when they run.
static QUEUE: Mutex<Vec<Work>> = Mutex::new(Vec::new());
/// A lock that each test holds, because the tests share the queue.
static EXCLUSIVE: Exclusive = Exclusive::new();

/// Submits an operation that computes a value from another one.
fn submit(from: &Cell, compute: impl FnOnce(&[u8]) -> Result<Vec<u8>> + Send + 'static) -> Cell {
    let ((ready, completer), value) = (Event::pending(), Arc::new(OnceLock::new()));
    let (from, made) = (Arc::clone(&from.value), Arc::clone(&value));
    QUEUE.lock().unwrap().push(Box::new(move || {
        let source = from.get().expect("an operation before its turn").clone();
        let result = made.get_or_init(|| source.and_then(|bytes| compute(&bytes)));
        completer.complete(result.clone().map(drop));
    }));
    Cell { value, ready }
}

/// Runs all submitted operations, and returns their number.
fn run() -> usize {
    let work = std::mem::take(&mut *QUEUE.lock().unwrap());
    let count = work.len();
    work.into_iter().for_each(|work| work());
    count
}

impl Backend for Board {
    type Buffer = Cell;
    type Executable = String;

    const FEATURES: Features<Self> = Features::none().async_reads().device_copies().queued().queued_transfers();

    device_plugin_testing::unit_backend!();

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "Ordered")]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Cell> {
        Ok(Cell { value: Arc::new(OnceLock::from(Ok(host.into_bytes()))), ready: Event::ready() })
    }

    fn ready(&self, buffer: &Cell) -> Event {
        buffer.ready.clone()
    }

    fn read(&self, _: &Cell, _: &mut [u8]) -> Result<()> {
        Err(Error::internal("a whole buffer is read with begin_read"))
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<String>> {
        let (shape, text) = (Shape::new(ElementType::U8, [2]), String::from_utf8(program.code().to_vec()).unwrap());
        Ok(Compiled::new(text, ExecutableInfo::new("next", [shape.clone()], [shape])))
    }

    /// Submits an operation that adds 1 to each byte. The program `fail` fails.
    fn execute(&self, program: &Arc<String>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let fails = **program == "fail";
        let made = submit(&launch.inputs[0], move |bytes| match fails {
            true => Err(Error::new(ErrorCode::DATA_LOSS, "lost")),
            false => Ok(bytes.iter().map(|byte| byte + 1).collect()),
        });
        let done = made.ready.clone();
        launch.outputs.push(made)?;
        Ok(done)
    }
}

impl AsyncReads for Board {
    fn begin_read(&self, buffer: &Cell, mut to: HostDestination) -> Result<Event> {
        Ok(submit(buffer, move |bytes| {
            to.bytes().copy_from_slice(bytes);
            Ok(Vec::new())
        })
        .ready)
    }
}

impl DeviceCopies for Board {
    fn copy(&self, buffer: &Cell, _: &Shape, _: Placement) -> Result<Cell> {
        Ok(submit(buffer, |bytes| Ok(bytes.to_vec())))
    }
}

fn plugin() -> Framework {
    Framework(raw::api::<Ordered>())
}

/// Launches the program `code`, copies its output, and reads the copy, before the device has run anything. Returns the
/// events of the copy and of the read, after the device has run everything, and the bytes that were read.
fn launch_copy_and_read(code: &str) -> (framework::Answer, framework::Answer, [u8; 2]) {
    let client = plugin().client(&[]).unwrap();
    let program = plugin().compile(client, code).unwrap();
    let input = plugin().put(client, &Shape::new(ElementType::U8, [2]), &[3, 4], 0).unwrap();
    let (outputs, done) = plugin().execute(program, &[input], 1).unwrap();
    let device = plugin().devices(client)[0];
    let copy = plugin()
        .ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (outputs[0], device))
        .unwrap()
        .dst_buffer;
    let mut bytes = [0; 2];
    let (read, _) = plugin().read_into(copy, bytes.as_mut_ptr(), 2).unwrap();
    let ready = plugin().ready_event(copy);
    assert!(![done, ready, read].into_iter().any(|event| plugin().is_ready(event)));
    assert_eq!(run(), 3, "the launch, the copy and the read were submitted at once");
    let result = (plugin().wait(ready), plugin().wait(read));
    assert_eq!(plugin().wait(done).is_ok(), result.0.is_ok());
    plugin().destroy(&[input, outputs[0], copy]);
    plugin().destroy_loaded(program);
    plugin().destroy_client(client);
    (result.0, result.1, bytes)
}

#[test]
fn copies_and_reads_begin_before_their_buffer_is_ready() {
    let _turn = EXCLUSIVE.turn();
    let (copy, read, bytes) = launch_copy_and_read("");
    assert_eq!((copy.is_ok(), read.is_ok(), bytes), (true, true, [4, 5]));
}

#[test]
fn failure_of_the_buffer_fails_the_copy_and_the_read() {
    let _turn = EXCLUSIVE.turn();
    let (copy, read, bytes) = launch_copy_and_read("fail");
    assert_eq!(copy.unwrap_err().message, "lost");
    assert_eq!(read.unwrap_err().message, "lost");
    assert_eq!(bytes, [0, 0]);
}
