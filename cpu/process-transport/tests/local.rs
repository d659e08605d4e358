//! Runs the test cases of all transports with `LocalTransport`. Threads represent the processes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cases;

use std::time::Duration;

use process_transport::{LocalListener, Transport};

/// Runs a function in each of `count` connected processes.
fn in_processes(count: usize, run: impl Fn(Box<dyn Transport>) + Sync) {
    let listeners: Vec<_> = (0..count).map(|_| LocalListener::bind().unwrap()).collect();
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.address().to_owned()).collect();
    std::thread::scope(|scope| {
        for (rank, listener) in listeners.into_iter().enumerate() {
            let (run, addresses) = (&run, &addresses);
            scope.spawn(move || run(Box::new(listener.connect(rank, addresses, Duration::from_secs(60)).unwrap())));
        }
    });
}

#[test]
fn cases_of_all_transports() {
    in_processes(4, |own| cases::all(&*own));
}

#[test]
fn lost_and_dropped_processes() {
    in_processes(3, cases::lost_and_dropped_processes);
}
