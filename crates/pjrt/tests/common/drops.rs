//! Data of a test that reports when it is dropped.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Longer than any operation takes.
const LONG: Duration = Duration::from_secs(600);

/// A field of the data. It reports its own drop.
pub(crate) struct Reporter {
    count: Arc<AtomicUsize>,
    signal: mpsc::Sender<()>,
}

/// The reports of the data's drop.
pub(crate) struct Drops {
    count: Arc<AtomicUsize>,
    signal: mpsc::Receiver<()>,
}

/// Creates the field and what receives its report.
pub(crate) fn reporter() -> (Reporter, Drops) {
    let count = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    (Reporter { count: count.clone(), signal: sender }, Drops { count, signal: receiver })
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.count.fetch_add(1, SeqCst);
        // The test may have stopped listening.
        let _ = self.signal.send(());
    }
}

impl Drops {
    /// How often the data was dropped.
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Waits until the data was dropped once, which a thread of the plugin may do.
    pub(crate) fn wait(&self) {
        self.signal.recv_timeout(LONG).unwrap();
        assert_eq!(self.count(), 1);
    }
}
