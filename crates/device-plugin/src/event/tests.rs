//! Tests events, completers and their callbacks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use expect_test::expect;

use super::*;

#[test]
fn callbacks_run_once() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let count = |result: &Result<()>| {
        assert_eq!(result.as_ref().unwrap_err().message(), "no");
        CALLS.fetch_add(1, Ordering::Relaxed);
    };
    let (event, completer) = Event::pending();
    event.on_ready(count);
    event.on_ready(count);
    assert_eq!((event.result(), CALLS.load(Ordering::Relaxed)), (None, 0));
    completer.complete(Err(Error::internal("no")));
    assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    event.on_ready(count);
    assert_eq!(CALLS.load(Ordering::Relaxed), 3);
    assert!(event.is_ready() && event.wait().is_err());
}

#[test]
fn callback_registers_another_and_drops_event() {
    let (event, completer) = Event::pending();
    let (done, ran) = Event::pending();
    let inner = event.clone();
    event.on_ready(move |_| inner.on_ready(move |_| ran.complete(Ok(()))));
    drop(event);
    completer.complete(Ok(()));
    assert_eq!(done.result(), Some(Ok(())));
}

#[test]
fn other_callbacks_run_after_panic() {
    let (event, completer) = Event::pending();
    let (done, ran) = Event::pending();
    event.on_ready(|_| panic!("a callback panics"));
    event.on_ready(move |_| ran.complete(Ok(())));
    completer.complete(Ok(()));
    assert_eq!(done.result(), Some(Ok(())));
}

#[test]
fn dropped_completer_fails_event() {
    let (event, completer) = Event::pending();
    drop(completer);
    assert_eq!(event.wait().unwrap_err().code(), ErrorCode::CANCELLED);
}

#[test]
fn completer_dropped_by_panic_reports_panic() {
    let (event, completer) = Event::pending();
    let worker = std::thread::spawn(move || {
        let _lost = completer;
        panic!("the driver's thread panics");
    });
    assert!(worker.join().is_err());
    let error = event.wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::CANCELLED);
    expect!["the plugin panicked on the thread of an asynchronous operation; run the work in Completer::run to report the panic's message"]
        .assert_eq(error.message());
}

#[test]
fn completer_contains_panics_of_work() {
    let (event, completer) = Event::pending();
    let (alive, held) = (Arc::new(()), Arc::new(()));
    let (probe, in_work) = (Arc::downgrade(&held), Arc::clone(&alive));
    event.on_ready(move |_| assert!(probe.upgrade().is_none(), "dropped before the event is ready"));
    completer.run(move || {
        drop((held, in_work));
        panic!("a kernel panics")
    });
    let error = event.wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::INTERNAL);
    assert!(error.message().contains("a kernel panics"), "{error}");
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn blocking_waits_complete_events() {
    // Waits that need each other, as those for two queues of a driver do.
    let (first, wait) = channel::<Result<()>>();
    let (event, (second, last)) = (Event::from_wait(move || wait.recv().unwrap()), channel());
    let other = Event::from_wait(move || {
        last.recv().unwrap();
        first.send(Err(Error::internal("the fence failed"))).unwrap();
        Ok(())
    });
    assert!(!event.is_ready() && !other.is_ready());
    second.send(()).unwrap();
    assert_eq!(event.wait().unwrap_err().message(), "the fence failed");
    other.wait().unwrap();
    assert!(Event::from_wait(|| panic!("on purpose")).wait().unwrap_err().message().contains("on purpose"));
}

#[test]
fn all_waits_and_reports_first_error() {
    assert!(Event::all([]).is_born_ready());
    let (a, set_a) = Event::pending();
    let (b, set_b) = Event::pending();
    let all = Event::all([Event::ready(), a, b]);
    set_b.complete(Err(Error::internal("b")));
    assert!(!all.is_ready());
    set_a.complete(Ok(()));
    assert_eq!(all.wait().unwrap_err().message(), "b");
}

#[test]
fn callbacks_move_to_completion_thread() {
    let ran_on = |complete: fn(Completer)| {
        let (event, completer) = Event::pending();
        let (sender, receiver) = channel();
        let (here, away) = (sender.clone(), sender);
        event.on_ready(move |_| here.send(("here", std::thread::current().id())).unwrap());
        event.on_ready_off_thread(move |_| away.send(("away", std::thread::current().id())).unwrap());
        complete(completer);
        let mut ran: Vec<_> = receiver.iter().take(2).collect();
        ran.sort_by_key(|(what, _)| *what);
        let this = std::thread::current().id();
        assert_eq!(ran[1], ("here", this));
        ran[0].1 == this
    };
    assert!(!ran_on(|completer| completer.complete(Ok(()))));
    assert!(!ran_on(drop));
    assert!(!ran_on(|completer| completer.run(|| Ok(()))));
    assert!(ran_on(|completer| completer.complete_inline(Ok(()))));
    assert!(ran_on(|completer| completer.run_inline(|| Ok(()))));
    assert!(ran_on(|completer| completer.complete_internally(Ok(()))));
    // A callback of one event may complete a second event. The call that completed the first event then determines
    // where the work of the second event runs. After `complete`, this work therefore does not run on this thread.
    assert!(!ran_on(|completer| {
        let (first, first_completer) = Event::pending();
        first.on_ready(move |result| completer.complete_internally(result.clone()));
        first_completer.complete(Ok(()));
    }));
    assert!(ran_on(|completer| {
        let (first, first_completer) = Event::pending();
        first.on_ready(move |result| completer.complete_inline(result.clone()));
        first_completer.complete(Ok(()));
    }));
}

#[test]
fn long_chain_needs_little_stack() {
    const LENGTH: usize = 100_000;
    let (first, completer) = Event::pending();
    let mut last = first;
    for _ in 0..LENGTH {
        let (next, completer) = Event::pending();
        last.on_ready(move |result| completer.complete_internally(result.clone()));
        last = next;
    }
    completer.complete(Err(Error::internal("no")));
    assert_eq!(last.wait().unwrap_err().message(), "no");
}
