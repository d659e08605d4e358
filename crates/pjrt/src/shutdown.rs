//! The end of a client with a deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pjrt_types::ErrorCode;

use crate::client::{Client, deadline};
use crate::error::{Error, ErrorKind};

/// How long cancelled runs may take to end. The embedded CPU device ends a run after its current step.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum number of runs that are cancelled on a device for each launch id.
const MOST_RUNS: usize = 1 << 16;

impl Client {
    /// Waits as [`Client::synchronize`] does, then destroys the client. XLA's plugins wait for their runs when a client
    /// is destroyed, so this also waits for untracked runs. The embedded CPU device cancels them.
    ///
    /// At the deadline, pending runs are cancelled, and their events and outputs get an error with the code `CANCELLED`.
    /// This includes all runs without a launch id, and tracked runs with one
    /// ([`ClientOptions::with_tracked_runs`](crate::ClientOptions::with_tracked_runs)). It requires a plugin that can poison
    /// runs ([`Device::poison_execution`](crate::Device::poison_execution)). The client is destroyed if all operations end
    /// within two seconds after that. Runs of an adopted client are not cancelled.
    ///
    /// Drop the client's buffers, executables, devices, events and other clones first. Call this before the process
    /// ends, so that the plugin has no pending operations then.
    ///
    /// # Errors
    ///
    /// - Of kind [`Timeout`](crate::ErrorKind::Timeout) if operations were still pending after `timeout`, whether or not
    ///   they were cancelled, or if the plugin is still destroying the client. The destruction continues.
    /// - Of kind [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if other handles keep the client alive, and for
    ///   calls from within a callback.
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

    /// Cancels runs. Returns their number.
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

    /// Destroys the client unless other handles keep it alive.
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
        // The destruction has no time limit, so it runs on another thread.
        let ticket = in_flight.ticket();
        let destroy = move || {
            drop(inner);
            drop(ticket);
        };
        if let Err(error) = std::thread::Builder::new().name("pjrt-destroy".to_owned()).spawn(destroy) {
            // The closure, and with it the client, was dropped on this thread.
            tracing::debug!(%error, "a client was destroyed without a thread of its own");
        }
        match in_flight.wait(until) {
            0 => Ok(()),
            _ => Err(Error::timeout(format!("the plugin is still destroying the client after {timeout:?}"))),
        }
    }
}
