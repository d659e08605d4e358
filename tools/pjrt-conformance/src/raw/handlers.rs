//! Handlers of custom calls. The plugin calls all of these handlers except `count_untyped` through XLA's FFI.
//!
//! The structs follow `xla/ffi/api/c_api.h`. In all versions of XLA's FFI, the structs begin with these fields.
#![allow(dead_code, reason = "the structs have the fields of the interface, of which the handlers read some")]

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};

use pjrt::extensions::{Ffi, GpuCustomCalls, GpuHandlers, HandlerTraits};
use pjrt::{Client, ExecuteContext};

use crate::stop::Stop;

/// Value of `XLA_FFI_Extension_Metadata`.
const METADATA: c_int = 1;
/// Value of `XLA_FFI_ExecutionStage_EXECUTE`.
const EXECUTE: c_int = 3;
/// Index of `XLA_FFI_ExecutionContext_Get` among the functions of `XLA_FFI_Api`.
const CONTEXT_GET: usize = 6;

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut Self,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    struct_size: usize,
    extension_start: *mut Extension,
    major: c_int,
    minor: c_int,
}

/// The first fields of `XLA_FFI_Metadata`.
#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
}

/// The first fields of `XLA_FFI_Api`.
#[repr(C)]
struct Api {
    struct_size: usize,
    extension_start: *mut Extension,
    version: Version,
    internal: *const c_void,
    functions: [Option<ContextGet>; CONTEXT_GET + 1],
}

/// The first fields of `XLA_FFI_CallFrame`.
#[repr(C)]
pub(super) struct Frame {
    struct_size: usize,
    extension_start: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: c_int,
}

/// The fields of `XLA_FFI_ExecutionContext_Get_Args`.
#[repr(C)]
struct ContextGetArgs {
    struct_size: usize,
    extension_start: *mut Extension,
    context: *mut c_void,
    type_id: *mut i64,
    data: *mut c_void,
}

/// Type of `XLA_FFI_ExecutionContext_Get`. The functions before it in `XLA_FFI_Api` have other types, and are never
/// called.
type ContextGet = unsafe extern "C" fn(*mut ContextGetArgs) -> *mut c_void;

/// Number of calls that [`count`] and [`count_untyped`] have counted so far.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Type id of the data that [`read_data`] requests. `FOUND` is the address of the data that [`read_data`] received.
static TYPE: AtomicI64 = AtomicI64::new(0);
static FOUND: AtomicUsize = AtomicUsize::new(0);
/// Whether the plugin returned an error for the last request of [`read_data`].
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns the number of calls that the counting handlers have counted so far.
pub(crate) fn calls() -> usize {
    CALLS.load(SeqCst)
}

/// Returns the call frame if the plugin calls the handler in the execution stage. Returns `None` in all other stages.
/// If the plugin queries the metadata of the handler, answers with the plugin's own FFI version and returns `None`.
///
/// # Safety
///
/// `frame` must be the argument that the plugin passed to a handler.
unsafe fn execution<'a>(frame: *mut Frame) -> Option<&'a Frame> {
    // SAFETY: C11 (callbacks of an extension): the frame is valid during the call.
    let frame = unsafe { &*frame };
    let mut next = frame.extension_start;
    while !next.is_null() {
        // SAFETY: C11 (callbacks of an extension): every extension begins with its base.
        let base = unsafe { &*next };
        if base.kind == METADATA {
            // SAFETY: C11 (callbacks of an extension): the frame points to the plugin's FFI table. The handler adapts
            // to the version of this table.
            let version = unsafe { (*frame.api).version };
            // SAFETY: C11 (callbacks of an extension): an extension of type `METADATA` is a `MetadataExtension`.
            let metadata = unsafe { (*next.cast::<MetadataExtension>()).metadata };
            // SAFETY: C11 (callbacks of an extension): the plugin provides this struct for the answer.
            let answer = unsafe { &mut *metadata };
            (answer.version.major, answer.version.minor) = (version.major, version.minor);
            return None;
        }
        next = base.next;
    }
    (frame.stage == EXECUTE).then_some(frame)
}

/// An `XLA_FFI_Handler` that counts its calls in the execution stage.
pub(super) unsafe extern "C" fn count(frame: *mut Frame) -> *mut c_void {
    // SAFETY: C11 (callbacks of an extension): the plugin calls the handler with a frame.
    if unsafe { execution(frame) }.is_some() {
        CALLS.fetch_add(1, SeqCst);
    }
    null_mut()
}

/// A handler for untyped custom calls of XLA's GPU plugins. Its parameters are the stream, the buffers, and the opaque
/// string with its length. Counts its calls.
unsafe extern "C" fn count_untyped(_: *mut c_void, _: *mut *mut c_void, _: *const u8, _: usize) {
    CALLS.fetch_add(1, SeqCst);
}

/// An `XLA_FFI_Handler` that requests the user data of the execution context. If the plugin returns an error, returns
/// the same error, so that the execution fails.
unsafe extern "C" fn read_data(frame: *mut Frame) -> *mut c_void {
    // SAFETY: C11 (callbacks of an extension): the plugin calls the handler with a frame.
    let Some(frame) = (unsafe { execution(frame) }) else { return null_mut() };
    // SAFETY: C11 (callbacks of an extension): the table lives as long as the process.
    let api = unsafe { &*frame.api };
    let mut type_id = TYPE.load(SeqCst);
    let mut args = ContextGetArgs {
        struct_size: size_of::<ContextGetArgs>(),
        extension_start: null_mut(),
        context: frame.context,
        type_id: &raw mut type_id,
        data: null_mut(),
    };
    let Some(get) = api.functions[CONTEXT_GET] else { return null_mut() };
    // SAFETY: C11 (callbacks of an extension): the function is from the plugin's table, and the context is that of this
    // call.
    let error = unsafe { get(&raw mut args) };
    FOUND.store(args.data.addr(), SeqCst);
    REFUSED.store(!error.is_null(), SeqCst);
    error
}

fn pointer(function: *mut c_void) -> Result<NonNull<c_void>, Stop> {
    NonNull::new(function).ok_or_else(|| Stop::Fail("a function of the suite is null".to_owned()))
}

/// Returns the platform name under which handlers for a client's platform are registered.
pub(super) fn platform(client: &Client) -> Result<String, Stop> {
    let name = client.platform_name()?;
    // XLA's CPU plugins register handlers for the platform `Host`.
    Ok(if name == "cpu" { "Host".to_owned() } else { name })
}

/// Registers an FFI handler that counts its calls.
pub(crate) fn register_counter(ffi: &Ffi, client: &Client, target: &str) -> Result<(), Stop> {
    let handler = pointer(count as *mut c_void)?;
    // SAFETY: the handler is a function of this library, which stays loaded, and adapts to the plugin's version.
    Ok(unsafe { ffi.register_handler(target, &platform(client)?, handler, HandlerTraits::default()) }?)
}

/// Registers a handler that counts its calls, through the extension of XLA's GPU plugins. The handler is an
/// `XLA_FFI_Handler` if `typed` is set, and a handler for untyped custom calls otherwise.
pub(crate) fn register_gpu_counter(calls: &GpuCustomCalls, target: &str, typed: bool) -> Result<(), Stop> {
    if !typed {
        let function = pointer(count_untyped as *mut c_void)?;
        // SAFETY: the function has the signature of a handler for untyped custom calls, uses no argument, and stays
        // loaded.
        return Ok(unsafe { calls.register_untyped(target, function) }?);
    }
    let handlers =
        GpuHandlers { instantiate: None, prepare: None, initialize: None, execute: pointer(count as *mut c_void)? };
    // SAFETY: the handler is a function of this library, which stays loaded, and adapts to the plugin's version.
    Ok(unsafe { calls.register(target, handlers, HandlerTraits::default()) }?)
}

/// Registers a handler that requests the user data of type `type_id`.
pub(crate) fn register_reader(ffi: &Ffi, client: &Client, target: &str, type_id: i64) -> Result<(), Stop> {
    TYPE.store(type_id, SeqCst);
    let handler = pointer(read_data as *mut c_void)?;
    // SAFETY: the handler is a function of this library, which stays loaded, and adapts to the plugin's version.
    Ok(unsafe { ffi.register_handler(target, &platform(client)?, handler, HandlerTraits::default()) }?)
}

/// Adds user data of type `type_id` to an execution context. Returns the address of the data.
pub(crate) fn add_data(ffi: &Ffi, context: &ExecuteContext, type_id: i64) -> Result<usize, Stop> {
    static DATA: u64 = 7;
    let data = pointer(std::ptr::from_ref(&DATA).cast_mut().cast())?;
    // SAFETY: the data lives as long as the process, and the handler does not write to it.
    unsafe { ffi.add_user_data(context, type_id, data) }?;
    Ok(data.addr().get())
}

/// Returns the address of the data that the handler of [`register_reader`] received last. Returns `None` if the plugin
/// returned an error instead.
pub(crate) fn found() -> Option<usize> {
    (!REFUSED.load(SeqCst)).then(|| FOUND.load(SeqCst))
}
