//! Tests events that fail, become ready late, become ready on other threads, or are dropped early.

use expect_test::expect;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use crate::block_on::block_on;
use crate::fake::{Fake, plugin_of, table};
use pjrt::{Buffer, Client, ErrorCode, ErrorKind, Event};

fn buffer(client: &Client) -> Buffer {
    client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap()
}

/// A waker that counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(count.clone())))
}

#[test]
fn ready_event_returns_error() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = buffer(&client);
    fake.event_error.store(13, SeqCst);
    let event = buffer.ready_event().unwrap();
    assert!(event.is_ready().unwrap());
    for _ in 0..2 {
        let error = event.wait().unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::INTERNAL, "fake error 13"));
    }
    assert_eq!(block_on(event).unwrap_err().code(), ErrorCode::INTERNAL);
    assert_eq!(buffer.wait().unwrap_err().code(), ErrorCode::INTERNAL);
    assert_eq!(buffer.to_host::<f32>().unwrap_err().code(), ErrorCode::INTERNAL, "no zeros instead of an error");
    assert_eq!(block_on(buffer.download().start::<f32>().unwrap()).unwrap_err().code(), ErrorCode::INTERNAL);
}

#[test]
fn errors_keep_unknown_codes_and_payloads() {
    let error = Fake::new().client().lookup_device(99).unwrap_err();
    assert_eq!(error.code(), ErrorCode::from_raw(99));
    assert_eq!(error.kind(), ErrorKind::Plugin);
    assert_eq!(error.function(), Some("PJRT_Client_LookupDevice"));
    expect!["PJRT_Client_LookupDevice: error code 99: fake error 99"].assert_eq(&error.to_string());
    assert_eq!(error.payloads(), [("type".to_owned(), b"test".to_vec()), ("bytes".to_owned(), vec![0, 255])]);
    let clone = error.clone();
    drop(error);
    assert_eq!(clone.message(), "fake error 99");
}

#[test]
fn late_callback_wakes_waiter() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = buffer(&client);
    fake.manual.store(true, SeqCst);
    let mut event = buffer.ready_event().unwrap();
    let count = Arc::new(Count::default());
    assert!(poll(&mut event, &count).is_pending());
    assert!(poll(&mut event, &count).is_pending());
    assert_eq!(count.0.load(SeqCst), 0);
    fake.finish();
    assert_eq!(count.0.load(SeqCst), 1);
    assert!(matches!(poll(&mut event, &count), Poll::Ready(Ok(()))));
    // A callback also wakes another thread that awaits the event in its executor.
    let late = buffer.ready_event().unwrap();
    let waiting = std::thread::spawn(|| block_on(late));
    while !waiting.is_finished() {
        fake.finish();
        std::thread::yield_now();
    }
    waiting.join().unwrap().unwrap();
}

#[test]
fn pending_events_may_be_dropped() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = buffer(&client);
    fake.manual.store(true, SeqCst);
    let count = Arc::new(Count::default());
    let mut polled = buffer.ready_event().unwrap();
    assert!(poll(&mut polled, &count).is_pending());
    let unpolled = buffer.ready_event().unwrap();
    let called = Arc::new(AtomicBool::new(false));
    let theirs = called.clone();
    let registered = buffer.ready_event().unwrap();
    registered.on_ready(move |result| theirs.store(result.is_ok(), SeqCst)).unwrap();
    drop((polled, unpolled, registered));
    drop((buffer, client));
    fake.finish();
    assert!(called.load(SeqCst), "the callback of a dropped event still runs");
    assert!(fake.all_gone());
}

#[test]
fn callback_owns_captures() {
    let fake = Fake::new();
    let client = fake.client();
    let event = {
        let buffer = buffer(&client);
        fake.manual.store(true, SeqCst);
        buffer.ready_event().unwrap()
    };
    let (sender, receiver) = mpsc::channel();
    {
        let text = String::from("owned by the callback");
        event.on_ready(move |_| sender.send(text).unwrap()).unwrap();
    }
    fake.finish();
    assert_eq!(receiver.recv().unwrap(), "owned by the callback");
}

#[test]
fn contains_panics_of_callbacks_and_wakers() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let fake = Fake::new();
    let client = fake.client();
    let buffer = buffer(&client);
    // If the event is already ready, the callback panics within the registration.
    buffer.ready_event().unwrap().on_ready(|_| panic!("a callback that panics")).unwrap();
    fake.manual.store(true, SeqCst);
    let mut event = buffer.ready_event().unwrap();
    assert!(Pin::new(&mut event).poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    buffer.ready_event().unwrap().on_ready(|_| panic!("a callback that panics")).unwrap();
    fake.finish();
    assert!(matches!(poll(&mut event, &Arc::new(Count::default())), Poll::Ready(Ok(()))));
}

#[test]
fn failed_registration_drops_callback() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = buffer(&client);
    fake.refuse_callbacks.store(true, SeqCst);
    let held = Arc::new(());
    let theirs = held.clone();
    let error = buffer.ready_event().unwrap().on_ready(move |_| drop(theirs)).unwrap_err();
    assert_eq!(error.function(), Some("PJRT_Event_OnReady"));
    assert_eq!(Arc::strong_count(&held), 1);
    fake.manual.store(true, SeqCst);
    let mut event: Event = buffer.ready_event().unwrap();
    assert!(matches!(poll(&mut event, &Arc::new(Count::default())), Poll::Ready(Err(_))));
    fake.manual.store(false, SeqCst);
    // If the plugin cannot register a callback for a copy, `Download::start` waits for the copy.
    let read = buffer.download().start::<f32>().unwrap();
    assert!(read.is_ready());
    assert_eq!(read.wait().unwrap(), [1.0, 2.0]);
}

/// Calls each blocking function that reads a buffer or waits for it, while the buffer's events are pending. Returns the
/// result of each function.
fn read_late(fake: &'static Fake, client: &Client) -> Vec<Result<Vec<f32>, pjrt::Error>> {
    let buffer = Arc::new(buffer(client));
    let theirs = buffer.clone();
    fake.manual.store(true, SeqCst);
    let reading = std::thread::spawn(move || {
        let buffer = theirs;
        let mut place = [0f32; 2];
        let into = buffer.download().copy_to(&mut place).map(|()| place.to_vec());
        let waited = buffer.wait().map(|()| vec![]);
        let event = buffer.ready_event().and_then(|event| event.wait()).map(|()| vec![]);
        vec![buffer.to_host::<f32>(), into, waited, event]
    });
    while !reading.is_finished() {
        fake.finish();
        std::thread::yield_now();
    }
    fake.manual.store(false, SeqCst);
    reading.join().unwrap()
}

#[test]
fn waits_by_any_available_function() {
    let mut no_await = table();
    no_await.PJRT_Event_Await = None;
    let mut no_callback = no_await;
    no_callback.PJRT_Event_OnReady = None;
    let mut only_callback = no_await;
    only_callback.PJRT_Event_IsReady = None;
    for table in [no_await, no_callback, only_callback] {
        let fake = Fake::new();
        let client = fake.client_of(&plugin_of(table).unwrap());
        let read: Vec<_> = read_late(fake, &client).into_iter().map(Result::unwrap).collect();
        assert_eq!(read, [vec![1.0, 2.0], vec![1.0, 2.0], vec![], vec![]]);
        fake.event_error.store(13, SeqCst);
        for result in read_late(fake, &client) {
            assert_eq!(result.unwrap_err().message(), "fake error 13", "the operation's own error");
        }
        // An operation may itself fail with code 12, `UNIMPLEMENTED`. This must not be confused with a missing function
        // of the plugin.
        fake.event_error.store(12, SeqCst);
        assert_eq!(buffer(&client).to_host::<f32>().unwrap_err().message(), "fake error 12");
        fake.event_error.store(0, SeqCst);
        if table.PJRT_Event_OnReady.is_some() {
            let event = buffer(&client).ready_event().unwrap();
            block_on(event).unwrap();
        }
        drop(client);
        assert!(fake.all_gone());
    }
}

#[test]
fn await_only_plugin_returns_errors() {
    let mut table = table();
    table.PJRT_Event_OnReady = None;
    table.PJRT_Event_IsReady = None;
    let fake = Fake::new();
    let client = fake.client_of(&plugin_of(table).unwrap());
    let buffer = buffer(&client);
    let mut place = [0f32; 2];
    buffer.download().copy_to(&mut place).unwrap();
    assert_eq!(place, [1.0, 2.0]);
    fake.event_error.store(13, SeqCst);
    assert_eq!(buffer.download().copy_to(&mut place).unwrap_err().message(), "fake error 13");
    assert_eq!(buffer.to_host::<f32>().unwrap_err().message(), "fake error 13");
}

#[test]
fn no_wait_function_is_error() {
    let mut table = table();
    table.PJRT_Event_Await = None;
    table.PJRT_Event_OnReady = None;
    let mut no_error = table;
    no_error.PJRT_Event_Error = None;
    table.PJRT_Event_IsReady = None;
    for (table, missing) in [(table, "PJRT_Event_Await"), (no_error, "PJRT_Event_Error")] {
        let fake = Fake::new();
        let client = fake.client_of(&plugin_of(table).unwrap());
        let buffer = buffer(&client);
        let event = buffer.ready_event().unwrap();
        for result in [event.wait(), buffer.wait(), buffer.download().copy_to(&mut [0f32; 2])] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.function()), (ErrorKind::Unsupported, Some(missing)), "{error}");
        }
        let error = buffer.to_host::<f32>().unwrap_err();
        assert_eq!((error.kind(), error.function()), (ErrorKind::Unsupported, Some(missing)), "{error}");
    }
}
