//! Handles Ctrl-C while a program runs. The run is poisoned, so that the device is free before the process ends.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use pjrt::{Device, ErrorCode};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;

/// Launch id that distinguishes the executions of this command from others.
pub(crate) const LAUNCH_ID: i32 = 1;

/// How long the device has to stop a poisoned run and to be closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Handles signals while it exists: an interruption ends the executions on a device that have [`LAUNCH_ID`]. Drop it
/// after the device is closed.
pub(crate) struct Watch {
    state: Arc<State>,
    /// Its drop signals that the device is closed.
    _open: Sender<()>,
}

struct State {
    device: Mutex<Option<Device>>,
    /// The signal that was received, or 0.
    signal: AtomicI32,
}

impl Watch {
    pub(crate) fn new(device: &Device) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let state = Arc::new(State { device: Mutex::new(Some(device.clone())), signal: AtomicI32::new(0) });
        let (open, closed) = channel();
        let shared = Arc::clone(&state);
        Builder::new().name("pjrt signals".to_owned()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                shared.end(signal, &closed);
            }
        })?;
        Ok(Self { state, _open: open })
    }

    /// Releases the device, which can then be closed. Returns the exit code if there was an interruption.
    pub(crate) fn release(&self) -> Option<u8> {
        drop(self.state.device());
        match self.state.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(code(signal)),
        }
    }
}

/// The exit code by which shells report a process that a signal ended.
fn code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

impl State {
    fn device(&self) -> Option<Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the run. If that succeeds, the main thread has [`PATIENCE`] to end the process.
    fn end(&self, signal: i32, closed: &Receiver<()>) {
        self.signal.store(signal, Ordering::SeqCst);
        let poison = |device: Device| device.poison_execution(LAUNCH_ID, ErrorCode::CANCELLED, "interrupted");
        if self.device().map(poison).is_some_and(|poisoned| matches!(poisoned, Ok(true))) {
            // Nothing is ever sent. This returns when the other end is dropped.
            let _ = closed.recv_timeout(PATIENCE);
        }
        // Do not run the process's exit handlers, because threads of the plugin may still be running.
        exit(code(signal).into());
    }
}
