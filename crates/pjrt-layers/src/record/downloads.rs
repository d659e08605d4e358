//! Downloads whose data are not there yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_record::{Contents, Download};

use crate::core::Destination;

/// A download whose data are not there yet.
#[derive(Debug)]
pub(super) struct Pending {
    /// The number of the call.
    pub(super) call: u64,
    /// Whether the data have no layout.
    pub(super) is_raw: bool,
    pub(super) download: Download,
    pub(super) destination: Destination,
}

/// The pending downloads by their events.
///
/// The data are read in the call or callback through which the framework learns that they are there, before it returns.
/// A second thread that learns of it at the same time waits until the data were read, because the framework may free the
/// memory as soon as one of its threads knows.
#[derive(Debug, Default)]
pub(super) struct Downloads(Mutex<HashMap<usize, Slot>>);

/// A pending download, taken by the first thread that learns of its end.
type Slot = Arc<Mutex<Option<Pending>>>;

impl Downloads {
    pub(super) fn add(&self, event: usize, pending: Pending) {
        self.lock().insert(event, Arc::new(Mutex::new(Some(pending))));
    }

    /// Runs a function with the download of an event that has become ready, unless another thread does so or did.
    pub(super) fn finish(&self, event: usize, write: impl FnOnce(Pending)) {
        let Some(slot) = self.lock().get(&event).map(Arc::clone) else { return };
        let mut pending = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending) = pending.take() {
            write(pending);
        }
        self.forget_slot(event, &slot);
    }

    /// Forgets the event that the framework destroys, before another one gets its address.
    pub(super) fn forget(&self, event: usize) {
        self.lock().remove(&event);
    }

    /// Whether a download is pending. Most events belong to other calls.
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

/// The message for a download, without its data.
pub(super) fn contents(pending: &Pending) -> Contents {
    let download = &pending.download;
    Contents {
        buffer: download.buffer,
        array: download.array.clone(),
        layout: if pending.is_raw { None } else { download.layout.clone() },
        ..Contents::default()
    }
}
