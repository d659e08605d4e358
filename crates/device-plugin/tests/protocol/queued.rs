//! Tests a device that orders submitted operations itself. Executions receive buffers whose values are still being
//! computed. For the framework, a buffer is ready only when its value exists.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use device_plugin::features::{BufferAddresses, DeviceCopies, Features};
use device_plugin::*;
use device_plugin_testing::Exclusive;
use pjrt_sys::*;

use crate::framework::{self, Answer, Framework};

struct Queued;

impl DevicePlugin for Queued {
    const NAME: &'static str = "queued";
    type Backend = Board;
}

/// A backend with two devices. The second device has no memory for copies.
struct Board;

/// A cell for a value. It is set when the queue reaches the operation that computes the value.
type Cell = Arc<OnceLock<Vec<u8>>>;

type Work = Box<dyn FnOnce() + Send>;
/// The submitted operations. The tests decide when each operation runs.
static QUEUE: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());
static SUBMITTED: Condvar = Condvar::new();
/// A lock that each test holds, because the tests share the queue.
static EXCLUSIVE: Exclusive = Exclusive::new();

fn submit(work: impl FnOnce() + Send + 'static) {
    QUEUE.lock().unwrap().push_back(Box::new(work));
    SUBMITTED.notify_all();
}

/// Waits until the queue contains an operation, because threads of the SDK submit deferred launches.
fn await_work() {
    drop(SUBMITTED.wait_while(QUEUE.lock().unwrap(), |queue| queue.is_empty()).unwrap());
}

/// Runs the first operation in the queue. Returns `false` if the queue is empty.
fn step() -> bool {
    let work = QUEUE.lock().unwrap().pop_front();
    work.map(|work| work()).is_some()
}

impl Backend for Board {
    type Buffer = Cell;
    type Executable = String;

    const FEATURES: Features<Self> = Features::none().buffer_addresses().device_copies().queued();

    device_plugin_testing::unit_backend!();

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "Queued"), DeviceInfo::new(1, "Full")]
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        vec![MemoryInfo::new("device", 0, [0]).on_host(), MemoryInfo::new("device", 0, [1]).on_host()]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Cell> {
        Ok(Arc::new(OnceLock::from(host.into_bytes())))
    }

    fn read(&self, buffer: &Cell, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer.get().expect("read before it was there"));
        Ok(())
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<String>> {
        let (shape, text) = (Shape::new(ElementType::U8, [2]), String::from_utf8(program.code().to_vec()).unwrap());
        Ok(Compiled::new(text, ExecutableInfo::new("next", [shape.clone()], [shape])))
    }

    /// Queues an operation that adds 1 to each byte. The program `fail` writes garbage and fails. The program `early`
    /// completes immediately.
    fn execute(&self, program: &Arc<String>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let (from, made) = (launch.inputs[0].clone(), Cell::default());
        launch.outputs.push(Arc::clone(&made))?;
        if **program == "early" {
            let _ = made.set(vec![0, 0]);
            return Ok(Event::ready());
        }
        let (event, completer) = Event::pending();
        let fails = **program == "fail";
        submit(move || {
            if fails {
                let _ = made.set(vec![0, 0]);
                return completer.complete_inline(Err(Error::new(ErrorCode::DATA_LOSS, "lost")));
            }
            let bytes = from.get().expect("executed before its turn");
            let _ = made.set(bytes.iter().map(|byte| byte + 1).collect());
            completer.complete_inline(Ok(()));
        });
        Ok(event)
    }
}

impl BufferAddresses for Board {
    fn host_bytes<'a>(&self, buffer: &'a Cell) -> Option<&'a [u8]> {
        Some(buffer.get().expect("seen before it was there"))
    }
}

impl DeviceCopies for Board {
    fn copy(&self, buffer: &Cell, _: &Shape, to: Placement) -> Result<Cell> {
        let copy = move |from: &Cell| match to.device {
            0 => Ok(from.get().expect("copied before its turn").clone()),
            _ => Err(Error::resource_exhausted("no room for a copy")),
        };
        if buffer.get().is_some() {
            return Ok(Arc::new(OnceLock::from(copy(buffer)?)));
        }
        // Queue the copy. The backend does not report a failure of the queued copy.
        let (from, made) = (buffer.clone(), Cell::default());
        let fill = Arc::clone(&made);
        submit(move || {
            if let Ok(bytes) = copy(&from) {
                let _ = fill.set(bytes);
            }
        });
        Ok(made)
    }
}

fn plugin() -> Framework {
    Framework(raw::api::<Queued>())
}

/// A client, its program, an argument, and the output of an execution that the device has not started.
struct Fixture {
    client: framework::Client,
    program: framework::Loaded,
    input: framework::Buffer,
    output: framework::Buffer,
    event: framework::Event,
}

impl Fixture {
    fn new() -> Self {
        let client = plugin().client(&[]).unwrap();
        let program = plugin().compile(client, "").unwrap();
        let input = plugin().put(client, &Shape::new(ElementType::U8, [2]), &[3, 4], 0).unwrap();
        let (outputs, event) = plugin().execute(program, &[input], 1).unwrap();
        Self { client, program, input, output: outputs[0], event }
    }

    fn copy(&self, device: usize) -> Answer<framework::Buffer> {
        let device = plugin().devices(self.client)[device];
        let copy = plugin()
            .ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (self.output, device));
        copy.map(|args| args.dst_buffer)
    }

    fn end(self) {
        assert!(!step(), "the device has more to do");
        plugin().wait(self.event).unwrap();
        plugin().destroy(&[self.input, self.output]);
        plugin().destroy_loaded(self.program);
        plugin().destroy_client(self.client);
    }
}

#[test]
fn copy_of_pending_buffer() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    let copy = fixture.copy(0).unwrap();
    let ready = plugin().ready_event(copy);
    assert!(!plugin().is_ready(ready));
    // After the execution, the copy is ready, and its memory may be used.
    assert!(step());
    plugin().wait(ready).unwrap();
    let pointer = plugin().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = copy).unwrap().buffer_pointer;
    let bytes: *const u8 = std::ptr::with_exposed_provenance(pointer);
    assert_eq!(unsafe { framework::slice(bytes, 2) }, [4, 5]);
    assert_eq!(plugin().read(copy).unwrap(), [4, 5]);
    plugin().destroy(&[copy]);
    fixture.end();
}

#[test]
fn late_copy_failure_is_reported() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    let copy = fixture.copy(1).unwrap();
    let ready = plugin().ready_event(copy);
    while step() {}
    let fault = plugin().wait(ready).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::RESOURCE_EXHAUSTED, "no room for a copy"));
    assert!(plugin().read(copy).unwrap_err().message.contains("no room for a copy"));
    // If the first copy has already failed, another copy of the same buffer fails in the call itself.
    assert!(fixture.copy(1).unwrap_err().message.contains("no room for a copy"));
    plugin().destroy(&[copy]);
    fixture.end();
}

#[test]
fn executions_take_pending_inputs() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    // The second execution does not wait for the first one.
    let (outputs, event) = plugin().execute(fixture.program, &[fixture.output], 1).unwrap();
    let copy = fixture.copy(0).unwrap();
    // The third launch is deferred until the copy is ready, but `PJRT_LoadedExecutable_Execute` returns at once.
    let (third, third_event) = plugin().execute(fixture.program, &[copy], 1).unwrap();
    assert!(step(), "the first execution, which makes the copy");
    assert!(step(), "the second execution");
    await_work();
    assert!(step(), "the third execution");
    plugin().wait(third_event).unwrap();
    let third = third[0];
    plugin().wait(event).unwrap();
    assert_eq!(plugin().read(outputs[0]).unwrap(), [5, 6]);
    assert_eq!(plugin().read(third).unwrap(), [5, 6]);
    plugin().destroy(&[outputs[0], copy, third]);
    fixture.end();
}

/// A launch may receive an input that fails later. In this case, its outputs contain garbage and must fail, too.
#[test]
fn late_input_failure_fails_outputs() {
    let _turn = EXCLUSIVE.turn();
    let client = plugin().client(&[]).unwrap();
    let [fail, next, early] = ["fail", "", "early"].map(|code| plugin().compile(client, code).unwrap());
    let input = plugin().put(client, &Shape::new(ElementType::U8, [2]), &[3, 4], 0).unwrap();
    let (lost, lost_event) = plugin().execute(fail, &[input], 1).unwrap();
    // The second execution waits in the queue behind the first. The third completes before its input, and the fourth
    // uses the output of the second.
    let (second, second_event) = plugin().execute(next, &[lost[0]], 1).unwrap();
    let (third, third_event) = plugin().execute(early, &[lost[0]], 1).unwrap();
    let (fourth, fourth_event) = plugin().execute(next, &[second[0]], 1).unwrap();
    assert!(![second_event, third_event, fourth_event].into_iter().any(|event| plugin().is_ready(event)));
    while step() {}
    assert_eq!(plugin().wait(lost_event).unwrap_err().message, "lost");
    for (buffer, event, message) in [
        (second[0], second_event, "argument 0 failed: lost"),
        (third[0], third_event, "argument 0 failed: lost"),
        (fourth[0], fourth_event, "argument 0 failed: argument 0 failed: lost"),
    ] {
        let fault = plugin().wait(event).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::DATA_LOSS, message));
        assert_eq!(plugin().read(buffer).unwrap_err(), fault);
        assert!(plugin().execute(next, &[buffer], 1).unwrap_err().message.contains("lost"));
    }
    plugin().destroy(&[input, lost[0], second[0], third[0], fourth[0]]);
    [fail, next, early].into_iter().for_each(|program| plugin().destroy_loaded(program));
    plugin().destroy_client(client);
}

/// A launch that has failed ends without waiting for its inputs.
#[test]
fn failed_launch_does_not_await_inputs() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    let fail = plugin().compile(fixture.client, "fail").unwrap();
    let (outputs, event) = plugin().execute(fail, &[fixture.output], 1).unwrap();
    // Complete the last operation first, like a device that ends the launch for another reason.
    let work = QUEUE.lock().unwrap().pop_back().unwrap();
    work();
    assert_eq!(plugin().wait(event).unwrap_err().message, "lost");
    assert!(!plugin().is_ready(fixture.event));
    assert!(step());
    plugin().destroy(&outputs);
    plugin().destroy_loaded(fail);
    fixture.end();
}
