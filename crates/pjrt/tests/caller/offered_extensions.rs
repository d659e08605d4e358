//! Tests the extension types of `pjrt` with a device that is written with the crate `device-plugin`. The device
//! provides an extension by listing it in `FEATURES`.

use expect_test::expect;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use device_plugin::features::{self as offered, Features};
use device_plugin::{
    Backend, CompileOptions as Options, Compiled, DevicePlugin, ExecutableInfo, Result, device_plugin,
};
use pjrt::extensions::{AbiVersions, Callbacks, ExecutableMetadata, HostMemoryAllocator, SliceFailure};
use pjrt::raw::AsRaw;
use pjrt::{Client, ClientOptions, CompileOptions, ErrorCode, ErrorKind, LoadedExecutable, Plugin, Program};

struct Full;

#[device_plugin]
impl DevicePlugin for Full {
    const NAME: &'static str = "full";
    type Backend = Device;
}

/// Another plugin with the same device. Objects of this plugin are not valid for the plugin `Full`, and vice versa.
struct Stranger;

#[device_plugin]
impl DevicePlugin for Stranger {
    const NAME: &'static str = "stranger";
    type Backend = Device;
}

#[derive(Default)]
struct Device {
    failures: offered::FailureCallbacks,
}

/// Number of host memory allocations that are not freed.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Pinned {
    bytes: Vec<u8>,
    node: u8,
}

impl AsMut<[u8]> for Pinned {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        ALLOCATED.fetch_sub(1, SeqCst);
        assert_ne!(self.node, 3, "on purpose");
    }
}

impl Backend for Device {
    type Buffer = Arc<Vec<u8>>;
    type Executable = u8;

    const FEATURES: Features<Self> =
        Features::none().abi_versions().executable_metadata().host_memory_allocator().failure_reports();

    fn create(_: &device_plugin::ClientOptions) -> Result<Self> {
        Ok(Self::default())
    }

    fn devices(&self) -> Vec<device_plugin::DeviceInfo> {
        vec![device_plugin::DeviceInfo::new(0, "full")]
    }

    fn buffer_from_host(
        &self,
        host: device_plugin::HostArray<'_>,
        _: device_plugin::Placement,
    ) -> Result<Arc<Vec<u8>>> {
        Ok(Arc::new(host.into_bytes()))
    }

    fn read(&self, buffer: &Arc<Vec<u8>>, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer);
        Ok(())
    }

    /// Compiles a program. The first byte of the program is the ABI version of the executable.
    fn compile(&self, program: &Program, _: &Options) -> Result<Compiled<u8>> {
        let version = program.code().first().copied().unwrap_or_default();
        Ok(Compiled::new(version, ExecutableInfo::new("versioned", [], [])))
    }

    fn execute(&self, _: &Arc<u8>, _: &mut device_plugin::Launch<'_, Self>) -> Result<device_plugin::Event> {
        Ok(device_plugin::Event::ready())
    }
}

const RUNTIME: u8 = b'5';

fn number(version: &[u8]) -> Result<u8> {
    match version {
        [number] => Ok(*number),
        _ => Err(device_plugin::Error::invalid_argument("a version has one byte")),
    }
}

impl offered::AbiVersions for Device {
    fn platform_id() -> u64 {
        42
    }

    fn runtime_abi_version(&self) -> Result<Vec<u8>> {
        Ok(vec![RUNTIME])
    }

    fn executable_abi_version(executable: &u8) -> Result<Vec<u8>> {
        Ok(vec![*executable])
    }

    fn check_runtime(runtime: &[u8], other: &[u8]) -> Result<()> {
        if number(runtime)? == number(other)? {
            Ok(())
        } else {
            Err(device_plugin::Error::failed_precondition("another runtime"))
        }
    }

    fn check_executable(runtime: &[u8], executable: &[u8]) -> Result<()> {
        if number(executable)? <= number(runtime)? {
            Ok(())
        } else {
            Err(device_plugin::Error::failed_precondition("the executable is newer"))
        }
    }
}

impl offered::ExecutableMetadata for Device {
    fn executable_metadata(executable: &u8) -> Result<Vec<u8>> {
        match executable {
            b'!' => panic!("on purpose"),
            b'?' => Err(device_plugin::Error::unimplemented("no metadata")),
            b'0' => Ok(Vec::new()),
            version => Ok(vec![b'm', *version]),
        }
    }
}

impl offered::HostMemoryAllocator for Device {
    fn allocate_host(&self, size: usize, numa_node: Option<usize>) -> Result<offered::HostAllocation> {
        let bytes = match numa_node {
            Some(7) => return Err(device_plugin::Error::invalid_argument("there is no node 7")),
            // Return one byte too few, to test the check of the size.
            Some(6) => vec![1; size.saturating_sub(1)],
            _ => vec![1; size],
        };
        ALLOCATED.fetch_add(1, SeqCst);
        Ok(Box::new(Pinned { bytes, node: u8::try_from(numa_node.unwrap_or(0)).unwrap() }))
    }
}

impl offered::FailureReports for Device {
    fn failure_callbacks(&self) -> &offered::FailureCallbacks {
        &self.failures
    }
}

fn client() -> Client {
    Plugin::from_static(Full::api()).unwrap().client(&ClientOptions::new()).unwrap()
}

fn stranger() -> Client {
    Plugin::from_static(Stranger::api()).unwrap().client(&ClientOptions::new()).unwrap()
}

fn compile(client: &Client, version: &str) -> LoadedExecutable {
    client.compile(&Program::new("text", version.as_bytes()), &CompileOptions::default()).unwrap()
}

#[test]
fn chain_lists_them_with_their_sizes() {
    let plugin = Plugin::from_static(Full::api()).unwrap();
    let found: Vec<_> = plugin.extensions().iter().map(|found| (found.number, found.struct_size)).collect();
    assert_eq!(found[found.len() - 4..], [(20, 120), (13, 40), (23, 32), (14, 40)]);
}

mod abi_version {
    use super::*;

    #[test]
    fn compares_stored_versions_without_loading() {
        let client = client();
        let versions = client.plugin().extension::<AbiVersions>().unwrap();
        let runtime = versions.of_client(&client).unwrap();
        assert_eq!((runtime.platform_id().unwrap(), runtime.serialize().unwrap()), (42, vec![RUNTIME]));
        let [older, newer] = ["4", "6"].map(|version| {
            let version = versions.of_executable(compile(&client, version).executable()).unwrap();
            assert_eq!(version.platform_id().unwrap(), 42);
            versions.parse_executable(&version.serialize().unwrap()).unwrap()
        });
        assert!(!runtime.as_raw().is_null() && !older.as_raw().is_null());
        runtime.check_executable(&older).unwrap();
        let error = runtime.check_executable(&newer).unwrap_err();
        assert_eq!((error.code(), error.kind()), (ErrorCode::FAILED_PRECONDITION, ErrorKind::Plugin));
        assert_eq!(error.function(), Some("PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable"));
        runtime.check_runtime(&versions.parse_runtime(&[RUNTIME]).unwrap()).unwrap();
        let garbage = versions.parse_runtime(b"garbage").unwrap();
        assert_eq!(runtime.check_runtime(&garbage).unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    }

    #[test]
    fn objects_of_other_plugins_are_rejected() {
        let versions = client().plugin().extension::<AbiVersions>().unwrap();
        let theirs = stranger();
        let their_versions = theirs.plugin().extension::<AbiVersions>().unwrap();
        assert_eq!(versions.of_client(&theirs).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let ours = versions.parse_runtime(&[RUNTIME]).unwrap();
        let their_runtime = their_versions.of_client(&theirs).unwrap();
        assert_eq!(ours.check_runtime(&their_runtime).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn outlives_the_client() {
        let client = client();
        let runtime = client.plugin().extension::<AbiVersions>().unwrap().of_client(&client).unwrap();
        drop(client);
        assert_eq!(runtime.serialize().unwrap(), [RUNTIME]);
    }
}

mod executable_metadata {
    use super::*;

    #[test]
    fn is_copied_and_errors_are_reported() {
        let client = client();
        let metadata = client.plugin().extension::<ExecutableMetadata>().unwrap();
        let of = |version: &str| metadata.of(compile(&client, version).executable());
        assert_eq!(of("4").unwrap(), b"m4");
        assert_eq!(of("0").unwrap(), b"");
        let error = of("?").unwrap_err();
        assert_eq!(error.function(), Some("PJRT_ExecutableMetadata_GetExecutableMetadata"));
        assert_eq!(of("!").unwrap_err().code(), ErrorCode::INTERNAL);
        let theirs = compile(&stranger(), "4");
        assert_eq!(metadata.of(theirs.executable()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

mod host_memory {
    use super::*;

    /// These checks are in one test, because they share the counter `ALLOCATED`.
    #[test]
    fn is_zeroed_writable_and_freed_once() {
        let client = client();
        let allocator = client.plugin().extension::<HostMemoryAllocator>().unwrap();
        let mut memory = allocator.allocate(&client, 8, None).unwrap();
        assert_eq!(*memory, [0; 8]);
        memory.copy_from_slice(&[7; 8]);
        let nothing = allocator.allocate(&client, 0, Some(1)).unwrap();
        assert_eq!((nothing.len(), ALLOCATED.load(SeqCst)), (0, 2));
        drop(nothing);
        // The memory can be sent to another thread, and is freed when it is dropped there.
        let read = std::thread::spawn(move || memory.as_ref().to_vec()).join().unwrap();
        assert_eq!((read, ALLOCATED.load(SeqCst)), (vec![7; 8], 0));
        // The memory keeps the client alive.
        let kept = allocator.allocate(&client, 1, None).unwrap();
        drop(client);
        assert_eq!(kept.len(), 1);
        let client = self::client();
        let error = allocator.allocate(&client, 8, Some(7)).unwrap_err();
        assert!(error.message().contains("no node 7"), "{error}");
        let error = allocator.allocate(&client, 8, Some(6)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INTERNAL, "{error}");
        expect!["PJRT_HostMemoryAllocator_Allocate: the backend allocated 7 bytes instead of 8"]
            .assert_eq(error.message());
        assert_eq!(allocator.allocate(&client, 8, Some(u32::MAX)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(allocator.allocate(&client, usize::MAX, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(allocator.allocate(&stranger(), 8, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
        drop(kept);
        // A panic in the destructor of the device's memory does not reach the caller.
        drop(allocator.allocate(&client, 8, Some(3)).unwrap());
        assert_eq!(ALLOCATED.load(SeqCst), 0);
    }
}

mod callbacks {
    use super::*;

    #[test]
    fn receive_their_own_kind_of_failure() {
        let client = client();
        let callbacks = client.plugin().extension::<Callbacks>().unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (slices, errors) = (seen.clone(), seen.clone());
        callbacks
            .on_slice_failure(&client, move |failure| slices.lock().unwrap().push(format!("slice {}", failure.0)))
            .unwrap();
        callbacks
            .on_fatal_error(&client, move |code, message| errors.lock().unwrap().push(format!("{code} {message}")))
            .unwrap();
        callbacks.on_fatal_error(&client, |_, _| panic!("on purpose")).unwrap();
        callbacks.report_slice_failure(&client, SliceFailure::CHIP_DRIVER_ERROR).unwrap();
        callbacks.report_fatal_error(&client, ErrorCode::INTERNAL, "the end").unwrap();
        assert_eq!(*seen.lock().unwrap(), ["slice 5", "INTERNAL the end"]);
        // Reporting a slice failure for another client does not call the callbacks of this client.
        let other = self::client();
        callbacks.report_slice_failure(&other, SliceFailure::UNKNOWN).unwrap();
        assert_eq!(seen.lock().unwrap().len(), 2);
        let error = callbacks.report_slice_failure(&stranger(), SliceFailure::UNKNOWN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
