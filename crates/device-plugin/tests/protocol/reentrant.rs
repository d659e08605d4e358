//! Tests callbacks that call the plugin: on the thread that completes an event, within the framework's own call, and
//! while the objects that they use are destroyed.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};

use device_plugin::{ErrorCode, NamedValue};
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, Event, Loaded, toy};
use crate::garbage::Random;
use crate::history::fixture;
use crate::toy::{notes, open_gate};

/// The function that a callback runs with the result of the event.
type Work = Box<dyn FnOnce(Answer)>;

unsafe extern "C" fn run(error: *mut PJRT_Error, work: *mut c_void) {
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    work(toy().check(error));
}

fn when_ready(event: Event, work: impl FnOnce(Answer) + 'static) {
    let work: Work = Box::new(work);
    toy().on_ready(event, run, Box::into_raw(Box::new(work)).cast()).unwrap();
}

/// The objects of an execution in progress.
struct Run {
    client: Client,
    echo: Loaded,
    later: Loaded,
    input: Buffer,
    output: Buffer,
    event: Event,
}

fn begin(name: &str) -> Run {
    let client = toy().client(&[NamedValue::new("name", name)]).unwrap();
    let echo = toy().compile(client, "op=echo\nin=s32[2]").unwrap();
    let later = toy().compile(client, &format!("op=later\nin=s32[2]\ngate={name}")).unwrap();
    let input = toy().ints(client, &[1, 2]);
    let (outputs, event) = toy().execute(later, &[input], 1).unwrap();
    Run { client, echo, later, input, output: outputs[0], event }
}

fn closed(name: &str) {
    let start = std::time::Instant::now();
    while notes(&format!("{name} is closed")).is_empty() {
        assert!(start.elapsed().as_secs() < 20, "{name} is never closed");
        std::thread::yield_now();
    }
}

#[test]
fn callback_destroys_its_objects() {
    let name = "reentrant end";
    let Run { client, echo, later, input, output, event } = begin(name);
    let (to, done) = channel();
    when_ready(event, move |answer| {
        answer.unwrap();
        // Use the buffer that has just become ready.
        let (outputs, next) = toy().execute(echo, &[output], 1).unwrap();
        toy().wait(next).unwrap();
        assert_eq!(toy().read_ints(outputs[0]).unwrap(), [1, 2]);
        // Within this callback, wait for another callback.
        let (inner, outer): (Sender<()>, _) = channel();
        let own = fixture::event();
        when_ready(own, move |_| inner.send(()).unwrap());
        fixture::set(own);
        outer.recv().unwrap();
        toy().destroy_event(own);
        // Destroy the client before its objects, and the event within its own callback.
        toy().destroy_client(client);
        toy().destroy_event(event);
        toy().delete(output);
        toy().destroy(&[output, input, outputs[0]]);
        toy().destroy_loaded(later);
        toy().destroy_loaded(echo);
        to.send(()).unwrap();
    });
    open_gate(name);
    done.recv().unwrap();
    closed(name);
}

#[test]
fn callback_awaits_and_registers() {
    let name = "reentrant await";
    let Run { client, echo, later, input, output, event } = begin(name);
    let (to, done) = channel();
    let ready = toy().ready_event(output);
    // Starts a chain of callbacks, each of which registers the next one with an event that is already ready.
    fn deeper(event: Event, left: usize, to: Sender<usize>) {
        when_ready(event, move |answer| {
            answer.unwrap();
            match left {
                0 => to.send(0).unwrap(),
                _ => deeper(event, left - 1, to),
            }
        });
    }
    let chain = to.clone();
    when_ready(event, move |answer| {
        answer.unwrap();
        // The ready event of the buffer belongs to the same operation.
        toy().ask::<slot::PJRT_Event_Await>(|args| args.event = ready).unwrap();
        assert_eq!(toy().read_ints(output).unwrap(), [1, 2]);
        deeper(event, 100, chain);
        to.send(1).unwrap();
    });
    open_gate(name);
    assert_eq!((done.recv().unwrap(), done.recv().unwrap()), (0, 1));
    for event in [event, ready] {
        toy().destroy_event(event);
    }
    toy().destroy(&[input, output]);
    toy().destroy_loaded(later);
    toy().destroy_loaded(echo);
    toy().destroy_client(client);
}

/// The user data of a callback that reports the release of memory.
struct Last {
    client: Client,
    buffer: Buffer,
    calls: AtomicUsize,
}

#[test]
fn foreign_release_calls_plugin() {
    unsafe extern "C" fn released(_: *mut c_void, last: *mut c_void) {
        let last = unsafe { &*last.cast::<Last>() };
        // The client still exists. Destroy another buffer while the first one is being destroyed.
        assert_eq!(toy().devices(last.client).len(), 2);
        let buffer = toy().ints(last.client, &[7]);
        toy().destroy(&[buffer, last.buffer]);
        last.calls.fetch_add(1, Ordering::SeqCst);
    }
    let client = toy().client(&[]).unwrap();
    let last = Last { client, buffer: toy().ints(client, &[1]), calls: AtomicUsize::new(0) };
    let data = [1i32, 2];
    let view = toy().ask::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(|args| {
        (args.client, args.device, args.memory) = (client, null_mut(), toy().memories(client)[2]);
        args.device_buffer_ptr = data.as_ptr().cast_mut().cast();
        (args.dims, args.num_dims, args.element_type) = (fixture::DIMS.as_ptr(), 1, fixture::S32);
        args.layout = null_mut();
        args.on_delete_callback = Some(released);
        args.on_delete_callback_arg = (&raw const last).cast_mut().cast();
        args.stream = 0;
    });
    toy().destroy(&[view.unwrap().buffer]);
    assert_eq!(last.calls.load(Ordering::SeqCst), 1);
    // The callback of the event that ends the loan of host memory destroys the client.
    let (buffer, done) = toy().put_as(client, &crate::framework::pair(), data.as_ptr().cast(), None, 2, 2).unwrap();
    let (to, came) = channel();
    when_ready(done, move |answer| {
        answer.unwrap();
        toy().destroy_event(done);
        toy().destroy_client(client);
        to.send(()).unwrap();
    });
    assert!(came.try_recv().is_err());
    toy().destroy(&[buffer]);
    came.recv().unwrap();
}

/// Handles that several threads use, as in frameworks.
#[derive(Clone, Copy)]
struct Shared {
    client: Client,
    echo: Loaded,
    donate: Loaded,
    buffers: [Buffer; 4],
}
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

/// Uses a shared buffer in a random way. An error is acceptable only if another thread has deleted or donated the
/// buffer.
fn use_shared(shared: &Shared, random: &mut Random) -> Answer {
    let buffer = shared.buffers[random.below(4)];
    match random.below(9) {
        0 => {
            let (outputs, event) = toy().execute(shared.echo, &[buffer], 1)?;
            toy().destroy(&outputs);
            toy().wait(event)
        }
        1 => {
            // If another thread uses the buffer, the donating execution works on a copy.
            let (outputs, event) = toy().execute(shared.donate, &[buffer], 1)?;
            toy().wait(event).unwrap();
            assert_eq!(toy().read_ints(outputs[0]).unwrap(), [2, 3]);
            toy().destroy(&outputs);
            Ok(())
        }
        2 => toy().read_ints(buffer).map(|values| assert_eq!(values, [1, 2])),
        3 => {
            let event = toy().ready_event(buffer);
            let _ = toy().wait(event);
            Ok(())
        }
        4 => {
            let device = toy().devices(shared.client)[1];
            let copy =
                toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (buffer, device));
            let copy = copy?.dst_buffer;
            assert_eq!(toy().read_ints(copy).unwrap(), [1, 2]);
            toy().destroy(&[copy]);
            Ok(())
        }
        5 => {
            toy().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = buffer)?;
            toy().ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|args| args.buffer = buffer).map(drop)
        }
        6 => {
            let own = toy().ints(shared.client, &[1, 2]);
            let (outputs, event) = toy().execute(shared.donate, &[own], 1).unwrap();
            toy().destroy_event(event);
            assert!(toy().is_deleted(own));
            toy().destroy(&[own]);
            toy().destroy(&outputs);
            Ok(())
        }
        7 => {
            let loaded = toy().compile(shared.client, "op=echo\nin=s32[2]").unwrap();
            toy().destroy_loaded(loaded);
            Ok(())
        }
        _ => {
            if random.below(60) == 0 {
                toy().delete(buffer);
            }
            Ok(())
        }
    }
}

#[test]
fn sixteen_threads_do_everything_at_once() {
    for round in 0..8 {
        let name = format!("sixteen {round}");
        let client = toy().client(&[NamedValue::new("name", name.as_str())]).unwrap();
        let shared = Shared {
            client,
            echo: toy().compile(client, "op=echo\nin=s32[2]").unwrap(),
            donate: toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap(),
            buffers: std::array::from_fn(|_| toy().ints(client, &[1, 2])),
        };
        let start = Arc::new(Barrier::new(16));
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let start = Arc::clone(&start);
                scope.spawn(move || {
                    // Let the closure capture the whole struct, which is `Send`, and not its fields.
                    let shared = { shared };
                    let mut random = Random::new(100 * round + thread);
                    start.wait();
                    for _ in 0..60 {
                        if let Err(fault) = use_shared(&shared, &mut random) {
                            assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
                        }
                    }
                });
            }
        });
        toy().destroy_client(shared.client);
        toy().destroy(&shared.buffers);
        toy().destroy_loaded(shared.echo);
        toy().destroy_loaded(shared.donate);
        closed(&name);
    }
}
