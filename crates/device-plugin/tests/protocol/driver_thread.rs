//! Tests events that a driver completes on its own thread. Calls of the driver are not allowed on this thread.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use device_plugin::features::{DeviceCopies, Features, RawBuffers};
use device_plugin::*;
use pjrt_sys::*;

use crate::framework::{Buffer, Framework, garbage, pair};

struct Driven;

impl DevicePlugin for Driven {
    const NAME: &'static str = "driven";
    type Backend = Device;
}

thread_local! {
    static IS_DRIVERS: Cell<bool> = const { Cell::new(false) };
}

/// Names of backend methods that the SDK called on a thread of the driver. It must not call any method there.
static VIOLATIONS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

fn check(method: &'static str) {
    if IS_DRIVERS.get() {
        VIOLATIONS.lock().unwrap().push(method);
    }
}

/// Memory of the device. Freeing it calls the driver.
struct Memory(OnceLock<Vec<u8>>);

impl Drop for Memory {
    fn drop(&mut self) {
        check("free");
    }
}

struct Handle(Arc<Memory>);

impl Clone for Handle {
    fn clone(&self) -> Self {
        check("retain");
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        check("release");
    }
}

impl Handle {
    fn bytes(&self) -> &[u8] {
        self.0.0.get().expect("used before it was there")
    }
}

/// Work that the driver has not completed yet: the memory of the result, and its completer.
type Work = (Arc<Memory>, Completer);

struct Device {
    work: Sender<Work>,
}

/// Receives the work of the most recently created client.
static WORK: Mutex<Option<Receiver<Work>>> = Mutex::new(None);

impl Drop for Device {
    fn drop(&mut self) {
        check("close");
    }
}

impl Backend for Device {
    type Buffer = Handle;

    const FEATURES: Features<Self> = Features::none().device_copies().raw_buffers();

    device_plugin_testing::several_devices!(2, "Driven");
    device_plugin_testing::one_program!("echo", pair());

    fn create(_: &ClientOptions) -> Result<Self> {
        let (work, receiver) = channel();
        *WORK.lock().unwrap() = Some(receiver);
        Ok(Self { work })
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Handle> {
        check("buffer_from_host");
        Ok(Handle(Arc::new(Memory(OnceLock::from(host.into_bytes())))))
    }

    fn ready(&self, _: &Handle) -> Event {
        check("ready");
        Event::ready()
    }

    fn read(&self, buffer: &Handle, to: &mut [u8]) -> Result<()> {
        check("read");
        to.copy_from_slice(buffer.bytes());
        Ok(())
    }

    /// Creates an output whose value the test provides later.
    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        check("execute");
        let made = Arc::new(Memory(OnceLock::new()));
        launch.outputs.push(Handle(Arc::clone(&made)))?;
        let (event, completer) = Event::pending();
        self.work.send((made, completer)).expect("the test listens");
        Ok(event)
    }
}

impl DeviceCopies for Device {
    fn bitcast(&self, buffer: &Handle, _: &Shape, _: &Shape, _: Placement) -> Result<Handle> {
        check("bitcast");
        Ok(buffer.clone())
    }
}

impl RawBuffers for Device {
    fn write_raw(&self, _: &Handle, _: usize, _: &[u8]) -> Result<()> {
        check("write_raw");
        Ok(())
    }

    fn read_raw(&self, buffer: &Handle, offset: usize, to: &mut [u8]) -> Result<()> {
        check("read_raw");
        to.copy_from_slice(&buffer.bytes()[offset..offset + to.len()]);
        Ok(())
    }
}

fn plugin() -> Framework {
    Framework(raw::api::<Driven>())
}

/// Runs `work` on a thread of the driver.
fn on_driver_thread(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            IS_DRIVERS.set(true);
            work();
        });
    });
}

/// The user data of a framework's callback.
struct Called {
    buffer: Buffer,
    said: Sender<bool>,
}

/// Destroys a buffer, as a framework may do in a callback, and reports whether it runs on a thread of the driver.
unsafe extern "C" fn destroys(error: *mut PJRT_Error, called: *mut c_void) {
    let called = unsafe { Box::from_raw(called.cast::<Called>()) };
    let _ = plugin().check(error);
    plugin().destroy(&[called.buffer]);
    called.said.send(IS_DRIVERS.get()).unwrap();
}

/// Tests one execution, which `end` completes on a thread of the driver. `succeeds` states whether the execution then
/// has no error. Before its completion, the output is requested through each function that can wait.
fn test(end: fn(Completer), succeeds: bool) {
    let client = plugin().client(&[]).unwrap();
    let work = WORK.lock().unwrap().take().unwrap();
    let echo = plugin().compile(client, "").unwrap();
    let input = plugin().ints(client, &[1, 2]);
    let (outputs, event) = plugin().execute(echo, &[input], 1).unwrap();
    let output = outputs[0];
    let mut to = [[0u8; 8]; 3];
    let [read_to, raw_to, late_to] = &mut to;
    let read = plugin().read_into(output, read_to.as_mut_ptr(), 8).unwrap().0;
    let raw = plugin().ask::<slot::PJRT_Buffer_CopyRawToHost>(|args| {
        (args.buffer, args.dst, args.offset, args.transfer_size) = (output, raw_to.as_mut_ptr().cast(), 0, 8);
    });
    let late = plugin().ask::<slot::PJRT_Buffer_CopyRawToHostFuture>(|args| {
        (args.buffer, args.offset, args.transfer_size) = (output, 0, 8);
    });
    let late = late.unwrap();
    let mut told = garbage::<PJRT_Buffer_CopyRawToHostFuture_Callback_Args>();
    (told.callback_data, told.dst) = (late.callback_data, late_to.as_mut_ptr().cast());
    told.error_code = PJRT_Error_Code(0);
    unsafe { late.future_ready_callback.unwrap()(&raw mut told) };
    let device = plugin().devices(client)[1];
    let copy = plugin().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| {
        (args.buffer, args.dst_device) = (output, device);
    });
    let shape = pair();
    let cast = plugin().ask::<slot::PJRT_Buffer_Bitcast>(|args| {
        (args.buffer, args.device_layout) = (output, null_mut());
        args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        (args.dims, args.num_dims) = (shape.dimensions.as_ptr(), 1);
    });
    let (copy, cast) = (copy.unwrap().dst_buffer, cast.unwrap().out_buffer);
    // Create a deferred launch, and a second launch that waits for the output of the first.
    let (next, next_event) = plugin().execute(echo, &[output], 1).unwrap();
    let (last, last_event) = plugin().execute(echo, &[next[0]], 1).unwrap();
    let (said, says) = channel();
    let called = Called { buffer: cast, said };
    let ready = plugin().ready_event(cast);
    plugin().on_ready(ready, destroys, Box::into_raw(Box::new(called)).cast()).unwrap();
    plugin().destroy_event(ready);
    // Now only the waiting operations own the output.
    plugin().destroy(&[input, output]);
    let run = |succeeds: bool, end: fn(Completer)| {
        let (made, completer) = work.recv().unwrap();
        if succeeds {
            made.0.set(vec![5, 0, 0, 0, 6, 0, 0, 0]).unwrap();
        }
        // Drop the driver's reference, because a driver does not keep memory that the framework has released.
        drop(made);
        on_driver_thread(move || end(completer));
    };
    run(succeeds, end);
    let events = [event, read, raw.unwrap().event, late.event];
    for event in events {
        assert_eq!(plugin().wait(event).is_ok(), succeeds);
    }
    assert!(!says.recv().unwrap(), "a callback of the framework ran on the driver's thread");
    if succeeds {
        run(true, |completer| completer.complete(Ok(())));
        run(true, |completer| completer.complete(Ok(())));
        assert_eq!(to, [[5, 0, 0, 0, 6, 0, 0, 0]; 3]);
    }
    for event in [next_event, last_event] {
        assert_eq!(plugin().wait(event).is_ok(), succeeds);
    }
    assert_eq!(plugin().read(copy).is_ok(), succeeds);
    plugin().destroy(&[copy, next[0], last[0]]);
    plugin().destroy_loaded(echo);
    plugin().destroy_client(client);
    let violations = VIOLATIONS.lock().unwrap();
    assert!(violations.is_empty(), "called on the driver's thread: {violations:?}");
}

/// Destroys everything except a pending read. Then completes the execution with `end`. The client is freed when the
/// read ends.
fn test_last(end: fn(Completer)) {
    let client = plugin().client(&[]).unwrap();
    let work = WORK.lock().unwrap().take().unwrap();
    let echo = plugin().compile(client, "").unwrap();
    let input = plugin().ints(client, &[1, 2]);
    let (outputs, event) = plugin().execute(echo, &[input], 1).unwrap();
    let mut to = [0u8; 8];
    let read = plugin().read_into(outputs[0], to.as_mut_ptr(), 8).unwrap().0;
    plugin().destroy(&[input, outputs[0]]);
    plugin().destroy_loaded(echo);
    plugin().destroy_client(client);
    plugin().destroy_event(event);
    let (made, completer) = work.recv().unwrap();
    made.0.set(vec![7; 8]).unwrap();
    drop(made);
    on_driver_thread(move || end(completer));
    let _ = plugin().wait(read);
    assert!(work.recv().is_err(), "the backend was dropped");
    let violations = VIOLATIONS.lock().unwrap();
    assert!(violations.is_empty(), "called on the driver's thread: {violations:?}");
}

/// This is a single test, because `WORK` holds the work of one client at a time.
#[test]
fn nobody_calls_the_backend_there() {
    test(|completer| completer.complete(Ok(())), true);
    test(|completer| completer.run(|| Ok(())), true);
    test(|completer| completer.complete(Err(Error::internal("a cable"))), false);
    test(drop, false);
    test_last(|completer| completer.complete(Ok(())));
    test_last(drop);
}
