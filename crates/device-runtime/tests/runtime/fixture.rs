//! A client of the dummy plugin, and helpers for all tests.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use device_plugin::StaticApi;
use device_runtime::QueueKind;
use pjrt::{
    Buffer, Client, ClientOptions, CompileOptions, Device, Error, ExecuteOptions, Input, LoadedExecutable, Program,
    Upload,
};

use crate::dummy::control::{Control, Settings};
use crate::dummy::driver::Plugin;
use crate::dummy::features::Featured;

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

/// Runs a test with a fixture, and checks at the end that the runtime has kept its promises.
pub(crate) fn with_settings(settings: Settings, test: impl FnOnce(&Fixture) + Send + 'static) {
    limited(move || {
        let fixture = Fixture::new(settings);
        test(&fixture);
        fixture.end();
    });
}

/// Runs a test with a fixture that has the default settings.
pub(crate) fn with_fixture(test: impl FnOnce(&Fixture) + Send + 'static) {
    with_settings(Settings::default(), test);
}

/// Runs a test with a fixture whose driver has all features.
pub(crate) fn with_features(test: impl FnOnce(&Fixture) + Send + 'static) {
    limited(move || {
        let fixture = Fixture::featured(Settings::default());
        test(&fixture);
        fixture.end();
    });
}

/// Fails if the thread ends soon.
pub(crate) fn expect_waits<T>(thread: &JoinHandle<T>) {
    std::thread::sleep(Duration::from_millis(20));
    assert!(!thread.is_finished());
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
        Self::of(Plugin::api(), settings)
    }

    /// Returns a fixture whose driver has all features.
    pub(crate) fn featured(settings: Settings) -> Self {
        Self::of(Featured::api(), settings)
    }

    fn of(plugin: StaticApi, settings: Settings) -> Self {
        let control = Control::new(settings);
        let plugin = pjrt::Plugin::from_static(plugin).unwrap();
        let client = plugin.client(&ClientOptions::new().with("control", control.id)).unwrap();
        Self { _release: Release(Arc::clone(&control)), client, control }
    }

    pub(crate) fn device(&self, index: usize) -> Device {
        self.client.addressable_devices().unwrap().swap_remove(index)
    }

    /// Returns a fixture whose device 0 has 2048 bytes of memory. All of it is freed, but a held launch uses it.
    pub(crate) fn exhausted() -> Self {
        let fixture = Self::new(Settings { limit: 2048, ..Settings::default() });
        let x = fixture.put_ready(&[1; 1000]);
        fixture.control.hold(0, QueueKind::Compute);
        drop(run(&fixture.next(1000), &[&x]).unwrap());
        fixture
    }

    pub(crate) fn compile(&self, text: &str) -> LoadedExecutable {
        self.try_compile(text).unwrap()
    }

    pub(crate) fn try_compile(&self, text: &str) -> Result<LoadedExecutable, Error> {
        self.client.compile(&Program::mlir(text), &CompileOptions::default())
    }

    /// Compiles a program for two devices.
    pub(crate) fn compile_pair(&self, text: &str) -> LoadedExecutable {
        self.compile_for(2, text)
    }

    /// Compiles a program for a number of devices.
    pub(crate) fn compile_for(&self, devices: i64, text: &str) -> LoadedExecutable {
        let mut options = CompileOptions::default();
        options.num_replicas = devices;
        self.client.compile(&Program::mlir(text), &options).unwrap()
    }

    /// Compiles a program that adds 1 to each byte of an array of `size` bytes. If the array is donated, the program
    /// overwrites it.
    pub(crate) fn next(&self, size: usize) -> LoadedExecutable {
        self.compile(&next(size))
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Buffer {
        self.put_on(0, bytes).unwrap()
    }

    pub(crate) fn put_on(&self, device: usize, bytes: &[u8]) -> Result<Buffer, Error> {
        self.client.upload(Upload::of(bytes).to(&self.device(device)))
    }

    /// Uploads to device 0 and waits for the upload.
    pub(crate) fn put_ready(&self, bytes: &[u8]) -> Buffer {
        self.put_ready_on(0, bytes)
    }

    pub(crate) fn put_ready_on(&self, device: usize, bytes: &[u8]) -> Buffer {
        let buffer = self.put_on(device, bytes).unwrap();
        buffer.wait().unwrap();
        buffer
    }

    /// Uploads `size` bytes of this value to device 0 on another thread.
    pub(crate) fn spawn_upload(&self, value: u8, size: usize) -> JoinHandle<Result<Buffer, Error>> {
        let client = self.client.clone();
        std::thread::spawn(move || client.buffer_from_host(&vec![value; size], &[i64::try_from(size).unwrap()]))
    }

    /// Returns the bytes of device memory in use.
    pub(crate) fn used(&self, device: usize) -> i64 {
        self.device(device).memory_stats().unwrap().bytes_in_use
    }

    /// Waits until all operations have ended, and destroys the client.
    pub(crate) fn end(self) {
        self.client.synchronize(LIMIT).unwrap();
        self.close();
    }

    /// Destroys the client, and waits until the driver is dropped.
    pub(crate) fn close(self) -> Arc<Control> {
        let Self { client, control, .. } = self;
        drop(client);
        // A thread of the SDK may hold the last reference to the backend.
        control.wait_until(|state| state.closed);
        control.assert_no_violations();
        control
    }
}

/// Returns the text of the program of [`Fixture::next`].
pub(crate) fn next(size: usize) -> String {
    format!("name=next size={size} inputs=1 donated=0 alias=0:0 out=x0+1")
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
