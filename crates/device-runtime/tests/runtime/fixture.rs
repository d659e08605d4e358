//! A client of the dummy plugin, and helpers for all tests.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pjrt::{
    Buffer, Client, ClientOptions, CompileOptions, Device, Error, ExecuteOptions, Input, LoadedExecutable, Program,
    Upload,
};

use crate::dummy::control::{Control, Settings};
use crate::dummy::driver::Plugin;

/// Maximum time of a test. A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on another thread, and fails if it takes longer than [`LIMIT`].
pub(crate) fn limited(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = sender.send(());
    });
    match receiver.recv_timeout(LIMIT) {
        Err(RecvTimeoutError::Timeout) => panic!("the test did not end within {LIMIT:?}"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

pub(crate) struct Fixture {
    // Dropped first, so that a failed test does not wait for a queue that it holds.
    _release: Release,
    pub(crate) client: Client,
    pub(crate) control: Arc<Control>,
}

struct Release(Arc<Control>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.release_all();
    }
}

impl Fixture {
    pub(crate) fn new(settings: Settings) -> Self {
        let control = Control::new(settings);
        let plugin = pjrt::Plugin::from_static(Plugin::api()).unwrap();
        let client = plugin.client(&ClientOptions::new().with("control", control.id)).unwrap();
        Self { _release: Release(Arc::clone(&control)), client, control }
    }

    pub(crate) fn device(&self, index: usize) -> Device {
        self.client.addressable_devices().unwrap().swap_remove(index)
    }

    pub(crate) fn compile(&self, text: &str) -> LoadedExecutable {
        self.try_compile(text).unwrap()
    }

    pub(crate) fn try_compile(&self, text: &str) -> Result<LoadedExecutable, Error> {
        self.client.compile(&Program::mlir(text), &CompileOptions::default())
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Buffer {
        self.put_on(0, bytes).unwrap()
    }

    pub(crate) fn put_on(&self, device: usize, bytes: &[u8]) -> Result<Buffer, Error> {
        self.client.upload(Upload::of(bytes).to(&self.device(device)))
    }

    /// Returns the bytes of device memory in use.
    pub(crate) fn used(&self, device: usize) -> i64 {
        self.device(device).memory_stats().unwrap().bytes_in_use
    }

    /// Waits until all operations have ended, and destroys the client.
    pub(crate) fn end(self) {
        self.client.synchronize(LIMIT).unwrap();
        let Self { client, control, .. } = self;
        drop(client);
        // A thread of the SDK may hold the last reference to the backend.
        control.wait(|state| state.closed.then_some(()));
        control.assert_no_violations();
    }
}

/// Runs a program on device 0.
pub(crate) fn run(program: &LoadedExecutable, inputs: &[&Buffer]) -> Result<Buffer, Error> {
    program.execute(inputs).map(|mut outputs| outputs.remove(0))
}

/// Runs a program on device 0 and donates its inputs.
pub(crate) fn donate(program: &LoadedExecutable, inputs: Vec<Buffer>) -> Result<Buffer, Error> {
    let run = program.execute_with(inputs.into_iter().map(Input::Donate), &ExecuteOptions::new())?;
    let mut outputs = run.outputs;
    Ok(outputs.remove(0))
}

pub(crate) fn bytes(buffer: &Buffer) -> Result<Vec<u8>, Error> {
    buffer.to_host::<u8>()
}
