//! The times of kernels in profiles.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use device_plugin::profiler::{self, Activity, Place};

/// The kernels of a launch while a framework records a profile, with the driver's events `E`.
pub struct KernelTimes<E> {
    device: usize,
    kernels: Mutex<Vec<(String, Instant, E)>>,
}

impl<E> KernelTimes<E> {
    /// Returns an empty list for a launch on a device, or `None` if no profile is recorded.
    pub fn start(device: usize) -> Option<Arc<Self>> {
        profiler::is_recording().then(|| Arc::new(Self { device, kernels: Mutex::default() }))
    }

    /// Adds a kernel that has just been enqueued.
    pub fn add(&self, name: &str, event: E) {
        let kernel = (name.to_owned(), Instant::now(), event);
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).push(kernel);
    }

    /// Adds the kernels to the profile, in the line `kernels` of the device. Call it after they have ended. `times`
    /// returns the times from the call of [`KernelTimes::add`] to the start and to the end of a kernel, or `None` if
    /// the driver does not know them.
    pub fn record(&self, times: impl Fn(&E) -> Option<[Duration; 2]>) {
        let kernels = std::mem::take(&mut *self.kernels.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, enqueued, event) in kernels {
            if let Some([start, end]) = times(&event) {
                let place = Place::device(self.device, "kernels");
                profiler::record(Activity::new(name, place, enqueued + start, enqueued + end));
            }
        }
    }
}

impl<E> fmt::Debug for KernelTimes<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelTimes").field("device", &self.device).finish_non_exhaustive()
    }
}
