//! Tests how `pjrt` handles function tables that are short, old, new or invalid. Also tests valid and broken chains of
//! extension structs.

#![allow(
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    reason = "broken plugins on purpose"
)]

use crate::fake;
use expect_test::expect;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::fake::{Fake, plugin_of, table};
use pjrt::extensions::{Ffi, Layouts, Profiler, RawBuffers, Streams};
use pjrt::{ApiVersion, ErrorKind, Function, LoadErrorKind, Plugin, StaticApi};
use pjrt_sys::*;

#[cfg(unix)]
unsafe extern "C" {
    fn mmap(addr: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn mprotect(addr: *mut c_void, len: usize, prot: c_int) -> c_int;
}

#[cfg(windows)]
unsafe extern "system" {
    fn VirtualAlloc(address: *mut c_void, size: usize, kind: u32, protection: u32) -> *mut c_void;
    fn VirtualProtect(address: *mut c_void, size: usize, protection: u32, old: *mut u32) -> c_int;
}

const PAGE: usize = 4096;

/// Allocates two pages of memory.
#[cfg(unix)]
fn two_pages() -> *mut c_void {
    // 3 is `PROT_READ | PROT_WRITE`, and 0x22 is `MAP_PRIVATE | MAP_ANONYMOUS`.
    unsafe { mmap(null_mut(), 2 * PAGE, 3, 0x22, -1, 0) }
}

/// Makes a page unreadable.
#[cfg(unix)]
fn protect(page: *mut c_void) {
    assert_eq!(unsafe { mprotect(page, PAGE, 0) }, 0);
}

/// Allocates two pages of memory.
#[cfg(windows)]
fn two_pages() -> *mut c_void {
    // 0x3000 is `MEM_COMMIT | MEM_RESERVE`, and 4 is `PAGE_READWRITE`.
    unsafe { VirtualAlloc(null_mut(), 2 * PAGE, 0x3000, 4) }
}

/// Makes a page unreadable.
#[cfg(windows)]
fn protect(page: *mut c_void) {
    let mut old = 0;
    // 1 is `PAGE_NOACCESS`.
    assert_ne!(unsafe { VirtualProtect(page, PAGE, 1, &raw mut old) }, 0);
}

/// Copies the first `size` bytes of a table to the end of a page. The next page is not readable, so a read beyond
/// `size` crashes the test.
fn at_page_end(table: &PJRT_Api, size: usize) -> *const PJRT_Api {
    let pages = two_pages();
    assert!(pages.addr().is_multiple_of(PAGE) && !pages.is_null());
    let start = unsafe { pages.byte_add(PAGE - size) };
    unsafe { start.cast::<u8>().copy_from_nonoverlapping((&raw const *table).cast(), size) };
    protect(unsafe { pages.byte_add(PAGE) });
    start.cast()
}

fn load(table: *const PJRT_Api) -> Result<Plugin, LoadErrorKind> {
    Plugin::from_static(unsafe { StaticApi::new(table) }).map_err(|error| error.kind().clone())
}

/// Size of `PJRT_Api` in API 0.81, in bytes.
const SIZE_0_81: usize = 984;

#[test]
fn short_table_is_read_within_size() {
    let mut short = table();
    short.struct_size = SIZE_0_81;
    short.pjrt_api_version.minor_version = 81;
    let plugin = load(at_page_end(&short, SIZE_0_81)).unwrap();
    assert_eq!(plugin.api().struct_size(), SIZE_0_81);
    assert!(plugin.supports(Function::PJRT_Client_Create));
    assert!(!plugin.supports(Function::PJRT_Error_ForEachPayload), "beyond the table's end");
    let client = Fake::new().client_of(&plugin);
    assert_eq!(client.platform_name().unwrap(), "fake");
    // The error has no payloads, because the function that returns payloads is beyond the end of the table.
    assert!(client.lookup_device(5).unwrap_err().payloads().is_empty());
    let executable = client.compile(&pjrt::Program::mlir(""), &pjrt::CompileOptions::default()).unwrap();
    let error = executable.executable().parameter_memory_kinds().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.function(), Some("PJRT_Executable_ParameterMemoryKinds"));
    expect!["PJRT_Executable_ParameterMemoryKinds: UNIMPLEMENTED: the plugin has API 0.81 and lacks this function; it requires API 0.102"]
        .assert_eq(&error.to_string());
}

#[test]
fn compile_copies_only_readable_programs() {
    let mut whole = table();
    whole.PJRT_Executable_OptimizedProgram = Some(fake::optimized_program);
    let plugin = plugin_of(whole).unwrap();
    // `pjrt` copies the optimized program only if it can parse the format. If the first call returns an empty format,
    // the program must be copied to learn the format.
    for (format, copies) in [("mlir", 0), ("stablehlo_v1", 0), ("hlo", 1), ("hlo_with_config", 1), ("", 1)] {
        let fake = Fake::new();
        *fake.program_format.lock().unwrap() = format;
        let client = fake.client_of(&plugin);
        let executable = client.compile(&pjrt::Program::mlir(""), &pjrt::CompileOptions::default()).unwrap();
        let calls = || (fake.program_sizes.load(SeqCst), fake.program_copies.load(SeqCst));
        assert_eq!(calls(), (1, copies), "{format:?}");
        let program = executable.executable().optimized_program().unwrap();
        assert_eq!((program.format(), &program.code()[..]), (format, &[0xff; 4][..]));
        assert_eq!(calls(), (2, copies + 1), "{format:?}");
    }
}

#[test]
fn partial_pointer_is_hidden() {
    let mut odd = table();
    odd.struct_size = slot::PJRT_Buffer_Delete::OFFSET + 4;
    let plugin = load(at_page_end(&odd, odd.struct_size.next_multiple_of(8))).unwrap();
    assert!(!plugin.supports(Function::PJRT_Buffer_Delete));
    assert!(plugin.supports(Function::PJRT_Event_Await));
}

#[test]
fn truncates_longer_table() {
    #[repr(C)]
    struct Newer(PJRT_Api, [usize; 64]);
    let mut newer = Newer(table(), [usize::MAX; 64]);
    newer.0.struct_size = size_of::<Newer>();
    newer.0.pjrt_api_version.minor_version = 300;
    let plugin = load((&raw const *Box::leak(Box::new(newer))).cast()).unwrap();
    assert_eq!(plugin.api_version().minor, 300);
    Fake::new().client_of(&plugin);
}

#[test]
fn null_slots_are_unsupported() {
    let mut without = table();
    without.PJRT_Client_PlatformName = None;
    let client = Fake::new().client_of(&plugin_of(without).unwrap());
    let error = client.platform_name().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.function(), Some("PJRT_Client_PlatformName"));
    assert!(client.plugin().attributes().unwrap().is_empty(), "attributes may be missing");
}

#[test]
fn rejects_unusable_tables() {
    assert!(matches!(load(std::ptr::null()), Err(LoadErrorKind::NullTable)));
    let whole = Box::leak(Box::new(table()));
    assert!(matches!(load((&raw const *whole).wrapping_byte_add(4)), Err(LoadErrorKind::MisalignedTable)));

    let change = |f: fn(&mut PJRT_Api)| {
        let mut changed = table();
        f(&mut changed);
        load(Box::leak(Box::new(changed))).unwrap_err()
    };
    let error = change(|table| table.struct_size = 24);
    assert!(matches!(error, LoadErrorKind::TruncatedTable { struct_size: 24, .. }), "{error:?}");
    let error = change(|table| table.pjrt_api_version.major_version = 1);
    let found = ApiVersion { major: 1, minor: 114 };
    assert!(matches!(&error, LoadErrorKind::MajorVersion { found: major } if *major == found), "{error:?}");
    let error = change(|table| table.pjrt_api_version.minor_version = 56);
    let found = ApiVersion { major: 0, minor: 56 };
    assert!(matches!(&error, LoadErrorKind::MinorVersion { found: minor } if *minor == found), "{error:?}");
    let error = change(|table| table.struct_size = slot::PJRT_Error_GetCode::OFFSET);
    assert!(matches!(error, LoadErrorKind::MissingFunction { function: "PJRT_Error_GetCode" }), "{error:?}");
    let error = change(|table| table.PJRT_Error_Destroy = None);
    assert!(matches!(error, LoadErrorKind::MissingFunction { function: "PJRT_Error_Destroy" }), "{error:?}");
}

#[test]
fn concurrent_initialization_runs_once() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn slow(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
        CALLS.fetch_add(1, SeqCst);
        std::thread::yield_now();
        null_mut()
    }
    let mut counted = table();
    counted.PJRT_Plugin_Initialize = Some(slow);
    let api = unsafe { StaticApi::new(Box::leak(Box::new(counted))) };
    let plugins: Vec<Plugin> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(move || Plugin::from_static(api).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(CALLS.load(SeqCst), 1);
    assert!(plugins.iter().all(|plugin| *plugin == plugins[0]));
}

#[test]
fn remembers_failed_initialization() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn fail(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
        CALLS.fetch_add(1, SeqCst);
        // The fake's `PJRT_Client_LookupDevice` returns an error with the given code.
        let mut args = PJRT_Client_LookupDevice_Args::new();
        args.id = 14;
        unsafe { table().PJRT_Client_LookupDevice.unwrap()(&mut args) }
    }
    let mut failing = table();
    failing.PJRT_Plugin_Initialize = Some(fail);
    let failing = Box::leak(Box::new(failing));
    for _ in 0..2 {
        let error = load(failing).unwrap_err();
        let LoadErrorKind::Initialize(error) = error else { panic!("{error:?}") };
        assert_eq!(error.code(), pjrt::ErrorCode::UNAVAILABLE);
        assert_eq!(error.message(), "fake error 14");
    }
    assert_eq!(CALLS.load(SeqCst), 1);
}

fn node(ty: PJRT_Extension_Type, struct_size: usize, next: *mut PJRT_Extension_Base) -> *mut PJRT_Extension_Base {
    Box::leak(Box::new(PJRT_Extension_Base { struct_size, type_: ty, next }))
}

fn with_chain(first: *mut PJRT_Extension_Base) -> Plugin {
    let mut chained = table();
    chained.extension_start = first;
    plugin_of(chained).unwrap()
}

#[test]
fn walks_chain_and_keeps_unknown_types() {
    let mut layouts = PJRT_Layouts_Extension::new();
    layouts.base.type_ = PJRT_Extension_Type::PJRT_Extension_Type_Layouts;
    let layouts = Box::leak(Box::new(layouts));
    let unknown = node(PJRT_Extension_Type(9000), 24, (&raw mut *layouts).cast());
    let plugin = with_chain(node(PJRT_Extension_Type::PJRT_Extension_Type_FFI, 24, unknown));
    let found = plugin.extensions().into_iter().map(|found| (found.number, found.name, found.struct_size));
    let layouts = PJRT_Layouts_Extension::STRUCT_SIZE;
    let expected = [(5, Some("FFI"), 24), (9000, None, 24), (4, Some("Layouts"), layouts)];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert!(plugin.extension::<Layouts>().is_some(), "not only the first node is looked at");
    assert!(with_chain(null_mut()).extension::<Layouts>().is_none());
}

#[test]
fn short_extension_hides_functions() {
    // The layouts extension of API 0.81 has 72 bytes. A later version added the function at offset 72.
    let exact: &mut [usize] = vec![0usize; 9].leak();
    exact[0] = 72;
    exact[1] = 4;
    // SAFETY: the struct has its announced size, and all function pointers are null.
    let plugin = with_chain(exact.as_mut_ptr().cast());
    let layouts = plugin.extension::<Layouts>().unwrap();
    assert!(!plugin.supports(Function::PJRT_Layouts_PJRT_Executable_GetParameterLayouts));
    let fake = Fake::new();
    let client = fake.client_of(&plugin);
    let executable = client.compile(&pjrt::Program::mlir(""), &pjrt::CompileOptions::default()).unwrap();
    let error = layouts.parameter_layouts(executable.executable()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.function(), Some("PJRT_Layouts_PJRT_Executable_GetParameterLayouts"));
    // Check that a buffer of another plugin is rejected.
    let other = Fake::new().client();
    let buffer = other.buffer_from_host(&[1u8], &[1]).unwrap();
    assert_eq!(layouts.buffer_layout(&buffer).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn broken_chains_are_cut() {
    let ring = node(PJRT_Extension_Type(1), 24, null_mut());
    unsafe { (*ring).next = node(PJRT_Extension_Type(2), 24, ring) };
    assert_eq!(with_chain(ring).extensions().len(), 2);
    let short = node(PJRT_Extension_Type(3), 8, null_mut());
    assert_eq!(with_chain(node(PJRT_Extension_Type(2), 24, short)).extensions().len(), 1);
    let astray = std::ptr::without_provenance_mut(0x1001);
    assert_eq!(with_chain(node(PJRT_Extension_Type(2), 24, astray)).extensions().len(), 1);
    let mut long = null_mut();
    for _ in 0..1000 {
        long = node(PJRT_Extension_Type(2), 24, long);
    }
    assert_eq!(with_chain(long).extensions().len(), 128);
}

#[test]
fn short_extensions_hide_functions_in_every_group() {
    /// Creates a plugin whose extension `E` is truncated after `words` words.
    fn cut<E: Extension>(words: usize) -> Plugin {
        let cut: &mut [usize] = vec![1usize; words].leak();
        cut[0] = words * 8;
        cut[1] = usize::try_from(E::TYPE.0).unwrap();
        cut[2] = 0;
        // The function pointers are invalid, but no code calls them.
        with_chain(cut.as_mut_ptr().cast())
    }
    let streams = cut::<PJRT_Stream_Extension>(4);
    assert!(streams.extension::<Streams>().is_some());
    assert!(streams.supports(Function::PJRT_Get_Stream_For_External_Ready_Events));
    assert!(!streams.supports(Function::PJRT_Wait_Until_Buffer_Ready_On_Stream));
    let raw_buffers = cut::<PJRT_RawBuffer_Extension>(9);
    assert!(raw_buffers.extension::<RawBuffers>().is_some());
    assert!(raw_buffers.supports(Function::PJRT_RawBuffer_CopyRawDeviceToHost));
    assert!(!raw_buffers.supports(Function::PJRT_RawBuffer_GetHostPointer));
    let plugin = cut::<PJRT_FFI_Extension>(5);
    let ffi = plugin.extension::<Ffi>().unwrap();
    assert!(!plugin.supports(Function::PJRT_FFI_Register_Handler));
    // SAFETY: the plugin lacks the function, so the handler is not used.
    let missing = unsafe { ffi.register_handler("x", "y", std::ptr::NonNull::dangling(), Default::default()) };
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Unsupported);
    // The profiler extension points to a table with its functions. This table may also be missing or truncated.
    assert!(cut::<PJRT_Profiler_Extension>(3).extension::<Profiler>().is_none());
    let profiler = |table: *mut PLUGIN_Profiler_Api| {
        let mut extension = PJRT_Profiler_Extension::new();
        extension.base.type_ = PJRT_Profiler_Extension::TYPE;
        extension.profiler_api = table;
        with_chain((&raw mut *Box::leak(Box::new(extension))).cast()).extension::<Profiler>()
    };
    assert!(profiler(null_mut()).is_none());
    for words in 1..13 {
        let table: &mut [usize] = vec![0usize; words].leak();
        table[0] = words * 8;
        let none = profiler(table.as_mut_ptr().cast()).unwrap();
        let error = none.start(&[]).unwrap_err();
        assert_eq!((error.kind(), error.function()), (ErrorKind::Unsupported, Some("PLUGIN_Profiler_Create")));
    }
}
