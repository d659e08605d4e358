//! Tracks downloads that have not finished. A download copies the contents of a buffer to the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_record::{Contents, Download};

use crate::core::Destination;

/// A download that has not finished.
#[derive(Debug)]
pub(super) struct Pending {
    /// The number of the call in the recording.
    pub(super) call: u64,
    /// Whether the call copies raw bytes, which have no layout.
    pub(super) is_raw: bool,
    pub(super) download: Download,
    pub(super) destination: Destination,
}

/// The pending downloads, by the handles of their events.
///
/// The layer reads the data before the framework learns that the download has ended, because the framework may then
/// free the memory. If a call reports the end, the layer reads the data before the call returns. If a callback reports
/// the end, the layer reads the data before the callback runs. If two threads observe the end at the same time, the
/// second thread waits until the first thread has read the data. Otherwise, the second thread could return to the
/// framework too early.
#[derive(Debug, Default)]
pub(super) struct Downloads(Mutex<HashMap<usize, Slot>>);

/// A pending download, or `None` after a thread has taken it to write its data.
type Slot = Arc<Mutex<Option<Pending>>>;

impl Downloads {
    pub(super) fn add(&self, event: usize, pending: Pending) {
        self.lock().insert(event, Arc::new(Mutex::new(Some(pending))));
    }

    /// Runs `write` with the pending download of an event that has become ready. Does nothing if no pending download
    /// has this event. If another thread has taken the download, waits until that thread has finished.
    pub(super) fn finish(&self, event: usize, write: impl FnOnce(Pending)) {
        let Some(slot) = self.lock().get(&event).map(Arc::clone) else { return };
        let mut pending = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending) = pending.take() {
            write(pending);
        }
        self.forget_slot(event, &slot);
    }

    /// Removes the download of an event that is about to be destroyed, because a new event may get the same address.
    pub(super) fn forget(&self, event: usize) {
        self.lock().remove(&event);
    }

    /// Returns whether a pending download has this event.
    pub(super) fn has(&self, event: usize) -> bool {
        self.lock().contains_key(&event)
    }

    fn forget_slot(&self, event: usize, slot: &Slot) {
        let mut all = self.lock();
        if all.get(&event).is_some_and(|found| Arc::ptr_eq(found, slot)) {
            all.remove(&event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the message for the contents of a download, without the data.
pub(super) fn contents(pending: &Pending) -> Contents {
    let download = &pending.download;
    Contents {
        buffer: download.buffer,
        array: download.array.clone(),
        layout: if pending.is_raw { None } else { download.layout.clone() },
        ..Contents::default()
    }
}
