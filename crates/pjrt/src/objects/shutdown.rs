//! Shutdown of a client with a deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pjrt_types::ErrorCode;

use crate::error::{Error, ErrorKind};
use crate::objects::client::deadline;
use crate::objects::owners::Client;

/// Maximum time that cancelled runs may take to end. The embedded CPU device of the crate `plugin-registry` ends a run
/// after the current step of the program.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum number of runs to cancel for each device and launch id. The limit ends the loop if a plugin reports a
/// cancelled run for every call.
const MOST_RUNS: usize = 1 << 16;

impl Client {
    /// Waits for pending operations, like [`Client::synchronize`], and then destroys the client. Untracked runs may
    /// still be pending at the destruction. XLA's plugins then wait for these runs, and the embedded CPU device of the
    /// crate `plugin-registry` cancels them.
    ///
    /// If operations are still pending after `timeout`, pending runs are cancelled, and their events and outputs get an
    /// error with the code `CANCELLED`. All pending runs without a launch id are cancelled. Runs with a launch id are
    /// cancelled only if they are tracked
    /// ([`ClientOptions::with_tracked_runs`](crate::ClientOptions::with_tracked_runs)). The plugin must support
    /// [`Device::poison_execution`](crate::Device::poison_execution). If all operations end within two seconds after
    /// the cancellation, the client is destroyed. Runs of an adopted client are not cancelled.
    ///
    /// First drop all handles that keep the client alive: buffers, executables, devices, events and clones of the
    /// client. Call this function before the process ends, so that no operations of the plugin are pending at exit.
    ///
    /// # Errors
    ///
    /// - Returns an error of kind [`Timeout`](crate::ErrorKind::Timeout) if operations were still pending after
    ///   `timeout`, even if they were then cancelled. The kind is also `Timeout` if the plugin is still destroying the
    ///   client at the deadline. The destruction continues in this case.
    /// - Returns an error of kind [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if other handles keep the
    ///   client alive, or if `shutdown` is called within a callback of the plugin.
    pub fn shutdown(self, timeout: Duration) -> Result<(), Error> {
        let mut until = deadline(timeout);
        let waited = self.wait_for_operations(until, timeout);
        if let Err(late) = &waited {
            if late.kind() != ErrorKind::Timeout || self.cancel_runs() == 0 {
                return waited;
            }
            until = Instant::now() + GRACE;
            self.wait_for_operations(until, timeout)?;
        }
        self.destroy(until, timeout).and(waited)
    }

    /// Cancels pending runs and returns the number of cancelled runs. Cancels no runs of an adopted client.
    fn cancel_runs(&self) -> usize {
        let inner = self.inner();
        if !inner.is_owned() {
            return 0;
        }
        let mut ids = inner.in_flight().launch_ids();
        ids.push(0);
        let mut cancelled = 0;
        for device in self.addressable_devices().unwrap_or_default() {
            for id in &ids {
                let poison = || device.poison_execution(*id, ErrorCode::CANCELLED, "the client was shut down");
                cancelled += (0..MOST_RUNS).take_while(|_| matches!(poison(), Ok(true))).count();
            }
        }
        cancelled
    }

    /// Destroys the client. Returns an error if other handles keep the client alive, or if the plugin is still
    /// destroying it at the time `until`.
    fn destroy(self, until: Instant, timeout: Duration) -> Result<(), Error> {
        let in_flight = self.inner().in_flight().clone();
        let inner = self.into_inner();
        let others = Arc::strong_count(&inner).saturating_sub(1);
        let Some(inner) = Arc::into_inner(inner) else {
            return Err(Error::invalid(format!(
                "the client is kept alive by {others} other handles; drop its buffers, executables, devices and clones \
                 first"
            )));
        };
        // `PJRT_Client_Destroy` has no time limit. Run it on another thread, so that this thread can stop waiting at
        // the deadline.
        let ticket = in_flight.ticket();
        let destroy = move || {
            drop(inner);
            drop(ticket);
        };
        if let Err(error) = std::thread::Builder::new().name("pjrt-destroy".to_owned()).spawn(destroy) {
            // `spawn` dropped the closure, and thus the client, on this thread.
            tracing::debug!(%error, "a client was destroyed without a thread of its own");
        }
        match in_flight.wait(until) {
            0 => Ok(()),
            _ => Err(Error::timeout(format!("the plugin is still destroying the client after {timeout:?}"))),
        }
    }
}
