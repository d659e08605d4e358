//! Handles Ctrl-C while a program runs. A signal poisons the execution, so that the device is free before the process
//! ends.

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

/// Launch id of this command's executions. Poisoning affects only executions with this id.
pub(crate) const LAUNCH_ID: i32 = 1;

/// Maximum time between the poisoning of an execution and the closing of its device. After this time, the process ends
/// anyway.
const PATIENCE: Duration = Duration::from_secs(2);

/// Handles signals while it exists. A signal ends the executions with [`LAUNCH_ID`] on a device. Drop this value after
/// the device is closed.
pub(crate) struct Watch {
    state: Arc<State>,
    /// Dropping this sender signals that the device is closed.
    _open: Sender<()>,
}

struct State {
    device: Mutex<Option<Device>>,
    /// Number of the signal that was received, or 0.
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

    /// Releases the device handle, so that the device can be closed. Returns the exit code if a signal was received.
    pub(crate) fn release(&self) -> Option<u8> {
        drop(self.state.device());
        match self.state.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(code(signal)),
        }
    }
}

/// Returns the exit code that shells report for a process that a signal ended.
pub(crate) fn code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

impl State {
    fn device(&self) -> Option<Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Poisons the execution. If this succeeds, gives the main thread [`PATIENCE`] to close the device. Then ends the
    /// process.
    fn end(&self, signal: i32, closed: &Receiver<()>) {
        self.signal.store(signal, Ordering::SeqCst);
        let poison = |device: Device| device.poison_execution(LAUNCH_ID, ErrorCode::CANCELLED, "interrupted");
        if self.device().map(poison).is_some_and(|poisoned| matches!(poisoned, Ok(true))) {
            // No value is ever sent. `recv_timeout` returns when the sender is dropped.
            let _ = closed.recv_timeout(PATIENCE);
        }
        // Do not run the process's exit handlers, because threads of the plugin may still be running.
        exit(code(signal).into());
    }
}
