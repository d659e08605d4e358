//! Helpers for test data that reports when it is dropped.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A timeout that no operation of the tests exceeds.
const LONG: Duration = Duration::from_secs(600);

/// A field of the test data. When the data is dropped, the field sends a report to [`Drops`].
pub(crate) struct Reporter {
    count: Arc<AtomicUsize>,
    signal: mpsc::Sender<()>,
}

/// The receiver of the reports of a [`Reporter`].
pub(crate) struct Drops {
    count: Arc<AtomicUsize>,
    signal: mpsc::Receiver<()>,
}

/// Creates a reporter and the receiver of its reports.
pub(crate) fn reporter() -> (Reporter, Drops) {
    let count = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    (Reporter { count: count.clone(), signal: sender }, Drops { count, signal: receiver })
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.count.fetch_add(1, SeqCst);
        // Sending fails if the test has dropped the receiver. Ignore this error.
        let _ = self.signal.send(());
    }
}

impl Drops {
    /// Returns how often the data was dropped.
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Waits until the data was dropped, possibly on a thread of the plugin. Checks that it was dropped only once.
    pub(crate) fn wait(&self) {
        self.signal.recv_timeout(LONG).unwrap();
        assert_eq!(self.count(), 1);
    }
}
