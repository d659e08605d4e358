//! Ctrl-C while a program runs: the run is poisoned, so that the device is free before the process ends.

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

/// Tells the executions of the command from those of others.
pub(crate) const LAUNCH_ID: i32 = 1;

/// How long the device has to stop a poisoned run and to be closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// From here on, an interruption ends the executions on a device with [`LAUNCH_ID`]. Dropped once the device is closed.
pub(crate) struct Watch {
    state: Arc<State>,
    /// Dropping it tells that the device is closed.
    _open: Sender<()>,
}

struct State {
    device: Mutex<Option<Device>>,
    /// The signal that came; 0 while none did.
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

    /// Lets go of the device, which can then be closed. After an interruption this is the code to end with.
    pub(crate) fn release(&self) -> Option<u8> {
        drop(self.state.device());
        match self.state.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(code(signal)),
        }
    }
}

/// The code by which shells know a process that a signal ended.
fn code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

impl State {
    fn device(&self) -> Option<Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the run and leaves it to the main thread to end the process, if it can.
    fn end(&self, signal: i32, closed: &Receiver<()>) {
        self.signal.store(signal, Ordering::SeqCst);
        let poison = |device: Device| device.poison_execution(LAUNCH_ID, ErrorCode::CANCELLED, "interrupted");
        if self.device().map(poison).is_some_and(|poisoned| matches!(poisoned, Ok(true))) {
            // Nothing is ever sent: this ends when the other end is dropped.
            let _ = closed.recv_timeout(PATIENCE);
        }
        // Without the process's exit handlers: threads of the plugin may still be at work.
        exit(code(signal).into());
    }
}
