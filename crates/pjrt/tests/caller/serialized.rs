//! Tests which serialized executables, serialized topologies, replica counts and device counts `pjrt` passes to the
//! plugin, and which ones it rejects. `pjrt` must check them, because plugins do not check serialized bytes, and XLA's
//! plugins abort the process for some counts.

#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use crate::fake;
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::fake::{Fake, plugin_of, table};
use pjrt::{
    Client, CompileOptions, DeviceAssignment, ErrorKind, ExecutableCache, Program, SerializedExecutable,
    SerializedTopology, TopologyDescription,
};
use pjrt_sys::*;

const CODE: &[u8] = b"machine code";

/// The serialized executables that [`load`] received in all tests of this module.
static LOADED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

unsafe extern "C" fn serialize(args: *mut PJRT_Executable_Serialize_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let args = unsafe { &mut *args };
    args.serialized_bytes = CODE.as_ptr().cast::<c_char>();
    args.serialized_bytes_size = CODE.len();
    null_mut()
}

unsafe extern "C" fn load(args: *mut PJRT_Executable_DeserializeAndLoad_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let args = unsafe { &mut *args };
    let (data, len) = (args.serialized_executable.cast::<u8>(), args.serialized_executable_size);
    // SAFETY: the bytes are readable for their length.
    LOADED.lock().unwrap().push(unsafe { std::slice::from_raw_parts(data, len) }.to_vec());
    let mut compile = PJRT_Client_Compile_Args::new();
    compile.client = args.client;
    // SAFETY: the fake's function reads only the client.
    let error = unsafe { table().PJRT_Client_Compile.unwrap()(&mut compile) };
    args.loaded_executable = compile.executable;
    error
}

fn client(minor: i32) -> Client {
    let mut table = table();
    table.pjrt_api_version.minor_version = minor;
    table.PJRT_Executable_Serialize = Some(serialize);
    table.PJRT_Executable_DeserializeAndLoad = Some(load);
    Fake::new().client_of(&plugin_of(table).unwrap())
}

fn serialized(client: &Client) -> SerializedExecutable {
    let executable = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    executable.executable().serialize().unwrap()
}

fn loads_of(payload: &[u8]) -> usize {
    LOADED.lock().unwrap().iter().filter(|loaded| *loaded == payload).count()
}

#[test]
fn plugin_receives_its_own_bytes() {
    let client = client(114);
    let stored = serialized(&client).into_bytes();
    let again = SerializedExecutable::from_bytes(stored).unwrap();
    assert_eq!(again.payload(), CODE);
    let before = loads_of(CODE);
    client.deserialize_and_load(&again).unwrap();
    assert!(loads_of(CODE) > before);
    assert!(again.identity().contains(&("platform".to_owned(), "fake".to_owned())), "{again:?}");
}

/// If a plugin cannot serialize executables, or rejects an executable that it serialized, the cache compiles the
/// program instead.
#[test]
fn cache_compiles_what_it_cannot_store_or_load() {
    unsafe extern "C" fn refuse(args: *mut PJRT_Executable_DeserializeAndLoad_Args) -> *mut PJRT_Error {
        // SAFETY: the caller passes valid arguments.
        let size = unsafe { (*args).serialized_executable_size };
        assert_eq!(size, CODE.len());
        fake::make_error(Some(15))
    }
    let client_of = |serialize: Option<_>| {
        let mut table = table();
        table.PJRT_Executable_Serialize = serialize;
        table.PJRT_Executable_DeserializeAndLoad = Some(refuse);
        Fake::new().client_of(&plugin_of(table).unwrap())
    };
    let folder = std::env::temp_dir().join(format!("pjrt-cache-of-fakes-{}", std::process::id()));
    let compile = |client: &Client| {
        let cache = ExecutableCache::in_directory(&folder).unwrap();
        cache.compile(client, &Program::mlir(""), &CompileOptions::default()).unwrap();
        cache.statistics()
    };
    let found = compile(&client_of(None));
    assert_eq!((found.compilations, found.not_stored, found.rejected_files), (1, 1, 0));
    let client = client_of(Some(serialize));
    let found = compile(&client);
    assert_eq!((found.compilations, found.not_stored, found.rejected_files), (1, 0, 0));
    let found = compile(&client);
    assert_eq!((found.compilations, found.not_stored, found.rejected_files), (1, 0, 1));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn altered_bytes_are_refused() {
    let bytes = serialized(&client(114)).into_bytes();
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 0x10;
        let error = SerializedExecutable::from_bytes(altered).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert!(SerializedExecutable::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    assert!(SerializedExecutable::from_bytes(CODE).is_err());
    assert!(SerializedTopology::from_bytes(bytes).is_err());
}

#[test]
fn another_build_is_refused() {
    let mut table = table();
    table.pjrt_api_version.minor_version = 113;
    static LOADS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(_: *mut PJRT_Executable_DeserializeAndLoad_Args) -> *mut PJRT_Error {
        LOADS.fetch_add(1, SeqCst);
        null_mut()
    }
    table.PJRT_Executable_DeserializeAndLoad = Some(count);
    let other = Fake::new().client_of(&plugin_of(table).unwrap());
    let error = other.deserialize_and_load(&serialized(&client(114))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(LOADS.load(SeqCst), 0, "the plugin was asked");
}

#[test]
fn unchecked_bytes_reach_the_plugin() {
    let client = client(114);
    // SAFETY: P2: the fake does not execute the bytes.
    unsafe { client.deserialize_and_load_unchecked(b"from another framework") }.unwrap();
    assert_eq!(loads_of(b"from another framework"), 1);
}

#[test]
fn rejects_foreign_topology() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(_: *mut PJRT_TopologyDescription_Deserialize_Args) -> *mut PJRT_Error {
        CALLS.fetch_add(1, SeqCst);
        null_mut()
    }
    let mut table = table();
    table.PJRT_TopologyDescription_Deserialize = Some(count);
    let plugin = plugin_of(table).unwrap();
    assert!(SerializedTopology::from_bytes(b"not in an envelope".as_slice()).is_err());
    // SAFETY: P3: the function does not read the bytes, and returns a null topology.
    let answer = unsafe { TopologyDescription::deserialize_unchecked(&plugin, b"anything") };
    assert_eq!(answer.map(drop).unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(CALLS.load(SeqCst), 1);
}

#[test]
fn rejects_counts_that_abort_xla() {
    static COMPILED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn compile(_: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
        COMPILED.fetch_add(1, SeqCst);
        null_mut()
    }
    let mut table = table();
    table.PJRT_Client_Compile = Some(compile);
    let client = Fake::new().client_of(&plugin_of(table).unwrap());
    let program = Program::mlir("");
    let assigned = |id| DeviceAssignment::new(1, 1, vec![id]).unwrap();
    for options in [
        CompileOptions::default().with_device_ordinal(-5),
        CompileOptions::default().with_device_ordinal(i64::MAX),
        CompileOptions::default().with_device_assignment(assigned(-1)),
        CompileOptions::default().with_device_assignment(assigned(i64::MAX)),
        CompileOptions::default().with_num_replicas(2_147_483_647),
    ] {
        let error = client.compile(&program, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(client.compile_with_raw_options(&program, &options.encode()).is_err());
    }
    assert_eq!(client.compile_with_raw_options(&program, b"").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = client.default_device_assignment(1 << 10, 1 << 11).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(COMPILED.load(SeqCst), 0, "the plugin was asked");
}

#[test]
fn rejects_bad_cpu_device_counts() {
    static CREATED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn create(_: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
        CREATED.fetch_add(1, SeqCst);
        null_mut()
    }
    let mut table = table();
    table.PJRT_Client_Create = Some(create);
    let plugin = plugin_of(table).unwrap();
    let refused = |options: pjrt::ClientOptions| {
        let error = plugin.client(&options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    };
    let options = pjrt::ClientOptions::new;
    refused(options().with("cpu_device_count", -1));
    refused(options().with("cpu_device_count", 100_000));
    refused(options().with("cpu_device_count", "x"));
    refused(options().with("cpu_device_count", true));
    assert_eq!(CREATED.load(SeqCst), 0, "the plugin was asked");
}
