//! Tests events that are destroyed while pending, destroyed inside their own callback, or completed on a thread of the
//! backend.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use device_plugin::ErrorCode;
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Event, toy};
use crate::toy::{abandon_gate, open_gate};

fn create() -> Event {
    toy().ask::<slot::PJRT_Event_Create>(|_| {}).unwrap().event
}

fn set(event: Event, code: u32, message: &str) -> Answer {
    let args = toy().ask::<slot::PJRT_Event_Set>(|args| {
        args.event = event;
        args.error_code = PJRT_Error_Code(code);
        (args.error_message, args.error_message_size) = (message.as_ptr().cast(), message.len());
    });
    args.map(drop)
}

/// The event's result that a callback received, and the thread on which the callback ran.
type Seen = (Answer, std::thread::ThreadId);

struct Told {
    to: Sender<Seen>,
    /// The event that the callback destroys, or null.
    event: Event,
}

unsafe extern "C" fn tell(error: *mut PJRT_Error, told: *mut c_void) {
    let told = unsafe { Box::from_raw(told.cast::<Told>()) };
    let answer = toy().check(error);
    if !told.event.is_null() {
        assert!(toy().is_ready(told.event));
        toy().destroy_event(told.event);
    }
    told.to.send((answer, std::thread::current().id())).unwrap();
}

fn told(to: &Sender<Seen>, event: Event) -> *mut c_void {
    Box::into_raw(Box::new(Told { to: to.clone(), event })).cast()
}

#[test]
fn destroy_in_own_callback() {
    let (to, seen) = channel();
    let event = create();
    toy().on_ready(event, tell, told(&to, event)).unwrap();
    assert!(seen.try_recv().is_err());
    // The callback destroys the event before `set` returns.
    set(event, 0, "").unwrap();
    assert_eq!(seen.recv().unwrap().0, Ok(()));

    // The callback also destroys an event that is ready already. It runs before `on_ready` returns.
    let event = create();
    set(event, 3, "bad").unwrap();
    toy().on_ready(event, tell, told(&to, event)).unwrap();
    assert_eq!(seen.recv().unwrap().0.unwrap_err().message, "bad");
}

#[test]
fn destroy_while_pending_runs_callback() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=later\nin=s32[1]\ngate=destroyed-pending").unwrap();
    let buffer = toy().ints(client, &[1]);
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    let (to, seen) = channel();
    toy().on_ready(event, tell, told(&to, null_mut())).unwrap();
    toy().on_ready(event, tell, told(&to, null_mut())).unwrap();
    toy().destroy_event(event);
    let ready = toy().ready_event(outputs[0]);
    assert!(!toy().is_ready(ready));
    let fault = toy().ask::<slot::PJRT_Event_Error>(|args| args.event = ready).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::FAILED_PRECONDITION);
    open_gate("destroyed-pending");
    for _ in 0..2 {
        let (answer, thread) = seen.recv().unwrap();
        assert_eq!(answer, Ok(()));
        assert_ne!(thread, std::thread::current().id());
    }
    assert_eq!(toy().wait(ready), Ok(()));
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn callback_may_call_plugin() {
    // The plugin holds no lock during the callback. The callback waits for its own event, registers another callback
    // with it, and creates another event.
    unsafe extern "C" fn call(error: *mut PJRT_Error, count: *mut c_void) {
        toy().check(error).unwrap();
        let (event, count) = unsafe { *count.cast::<(Event, &AtomicUsize)>() };
        toy().ask::<slot::PJRT_Event_Await>(|args| args.event = event).unwrap();
        unsafe extern "C" fn inner(error: *mut PJRT_Error, count: *mut c_void) {
            toy().check(error).unwrap();
            unsafe { &*count.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
        }
        toy().on_ready(event, inner, std::ptr::from_ref(count).cast_mut().cast()).unwrap();
        toy().destroy_event(create());
        count.fetch_add(1, Ordering::Relaxed);
    }
    let count = AtomicUsize::new(0);
    let event = create();
    let mut argument = (event, &count);
    toy().on_ready(event, call, (&raw mut argument).cast()).unwrap();
    set(event, 0, "").unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2);
    toy().destroy_event(event);
}

#[test]
fn frameworks_make_and_set_events_once() {
    let event = create();
    set(event, 5, "gone").unwrap();
    let fault = set(event, 0, "").unwrap_err();
    assert_eq!(fault.code, ErrorCode::FAILED_PRECONDITION);
    expect!["PJRT_Event_Set: the event is already set"].assert_eq(&fault.message);
    for _ in 0..2 {
        let fault = toy().ask::<slot::PJRT_Event_Await>(|args| args.event = event).map(drop).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::NOT_FOUND, "gone"));
    }
    toy().destroy_event(event);

    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[1]);
    let ready = toy().ready_event(buffer);
    assert_eq!(set(ready, 0, "").unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    toy().wait(ready).unwrap();
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

#[test]
fn threads_await_set_event() {
    let event = create();
    std::thread::scope(|scope| {
        let address = event.addr();
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let event = std::ptr::with_exposed_provenance_mut(address);
                    toy().ask::<slot::PJRT_Event_Await>(|args| args.event = event).map(drop)
                })
            })
            .collect();
        event.expose_provenance();
        set(event, 15, "lost").unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap_err().code, ErrorCode::DATA_LOSS);
        }
    });
    toy().destroy_event(event);
}

#[test]
fn dropped_completer_fails_execution() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=later\nin=s32[1]\ngate=forgotten").unwrap();
    let buffer = toy().ints(client, &[1]);
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    abandon_gate("forgotten");
    let fault = toy().wait(event).unwrap_err();
    assert_eq!(fault.code, ErrorCode::CANCELLED);
    assert_eq!(toy().read_ints(outputs[0]).unwrap_err(), fault);
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}
