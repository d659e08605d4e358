//! A fake plugin in the test program, with its own function table and objects in host memory.
//!
//! A test leaks a [`Fake`] and passes its address to the client as the option `fake`. Through the `Fake`, the test
//! controls and observes the plugin. A buffer is an array of bytes in host memory, and each output of a program is a
//! copy of the first input. Events are ready immediately unless [`Fake::manual`] is set. If `manual` is set, events
//! become ready when the test calls [`Fake::finish`], which completes them on another thread.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use pjrt::{Client, ClientOptions, Plugin, StaticApi};
use pjrt_sys::*;

/// The settings of the fake plugin, and records of its calls.
#[derive(Default)]
pub(crate) struct Fake {
    /// Whether events become ready only in [`Fake::finish`].
    pub(crate) manual: AtomicBool,
    /// Error code of all events that become ready, or 0 for success.
    pub(crate) event_error: AtomicU32,
    /// Whether `PJRT_Event_OnReady` fails.
    pub(crate) refuse_callbacks: AtomicBool,
    /// Whether `PJRT_Buffer_ToHostBuffer` rejects a requested host layout instead of ignoring it.
    pub(crate) no_layouts: AtomicBool,
    /// Whether buffers report a column-major layout.
    pub(crate) column_major: AtomicBool,
    /// Whether buffers report a tiled layout.
    pub(crate) tiled: AtomicBool,
    /// Value that a copy to the host writes to every byte, or -1 to copy the buffer's contents.
    pub(crate) garbage: AtomicI64,
    /// Whether the first output of a run is null.
    pub(crate) null_outputs: AtomicBool,
    /// Number of outputs of a program, minus 1.
    pub(crate) more_outputs: AtomicUsize,
    /// Whether a run deletes the inputs that are not listed as non-donatable.
    pub(crate) donate: AtomicBool,
    /// Number of parameters that programs report, or -1 if the query fails.
    pub(crate) parameters: AtomicI64,
    /// Name of the format that `optimized_program` reports. May be empty.
    pub(crate) program_format: Mutex<&'static str>,
    /// Number of calls that query the size of the optimized program.
    pub(crate) program_sizes: AtomicU32,
    /// Number of calls that copy the optimized program.
    pub(crate) program_copies: AtomicU32,
    /// Number of existing objects.
    pub(crate) live: AtomicIsize,
    /// Type names of the destroyed objects, in the order of their destruction.
    pub(crate) destroyed: Mutex<Vec<&'static str>>,
    /// Number of calls of `PJRT_LoadedExecutable_Execute`.
    pub(crate) runs: AtomicU32,
    /// Not used. `buffer_from_host` checks lent host memory instead.
    borrowed: Mutex<Vec<(usize, usize)>>,
    events: Mutex<Vec<Arc<EventState>>>,
    device: AtomicPtr<Object>,
    pub(crate) kv: Mutex<Option<PJRT_Client_Create_Args>>,
}

unsafe impl Send for Fake {}
unsafe impl Sync for Fake {}

impl Fake {
    /// Creates a fake for one test.
    pub(crate) fn new() -> &'static Self {
        let fake = Self { garbage: AtomicI64::new(-1), parameters: AtomicI64::new(-1), ..Self::default() };
        let fake: &'static Self = Box::leak(Box::new(fake));
        // Keep all fakes reachable, so that leak checkers do not report them.
        static ALL: Mutex<Vec<&'static Fake>> = Mutex::new(Vec::new());
        ALL.lock().expect("fakes").push(fake);
        fake
    }

    /// Creates a client of the plugin with the complete function table.
    pub(crate) fn client(&'static self) -> Client {
        self.client_of(&plugin())
    }

    /// Creates a client of a plugin, for example of a plugin with a modified table.
    pub(crate) fn client_of(&'static self, plugin: &Plugin) -> Client {
        plugin.client(&self.options()).expect("client")
    }

    pub(crate) fn options(&'static self) -> ClientOptions {
        let address = (&raw const *self).expose_provenance();
        ClientOptions::new().with("fake", i64::try_from(address).expect("an address"))
    }

    /// Completes all pending events on another thread. Returns when their callbacks have run.
    pub(crate) fn finish(&'static self) {
        std::thread::spawn(|| {
            let events = std::mem::take(&mut *self.events.lock().expect("events"));
            for event in events {
                event.complete(self.error());
            }
        })
        .join()
        .expect("callbacks do not unwind");
    }

    /// Waits until all objects are destroyed, and returns whether the client was destroyed last. Waiting is necessary,
    /// because `pjrt` may destroy a client later on another thread. This happens if its last handle is dropped within a
    /// callback.
    pub(crate) fn all_gone(&self) -> bool {
        let start = std::time::Instant::now();
        while self.live.load(SeqCst) != 0 && start.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        self.live.load(SeqCst) == 0 && self.destroyed.lock().expect("log").last() == Some(&"client")
    }

    fn error(&'static self) -> Option<u32> {
        Some(self.event_error.load(SeqCst)).filter(|code| *code != 0)
    }

    fn log(&self, what: &'static str) {
        // Write to the log before decrementing `live`, because `all_gone` reads the log as soon as `live` is 0.
        self.destroyed.lock().expect("log").push(what);
        self.live.fetch_sub(1, SeqCst);
    }

    /// Creates an event that runs `work` when it becomes ready.
    fn event(&'static self, work: impl FnOnce() + Send + 'static) -> *mut PJRT_Event {
        let state = Arc::new(EventState { fake: self, state: Mutex::default(), ready: Condvar::new() });
        state.state.lock().expect("event").work = Some(Box::new(work));
        if self.manual.load(SeqCst) {
            self.events.lock().expect("events").push(state.clone());
        } else {
            state.complete(self.error());
        }
        self.live.fetch_add(1, SeqCst);
        Box::into_raw(Box::new(state)).cast()
    }
}

struct EventState {
    fake: &'static Fake,
    state: Mutex<EventParts>,
    ready: Condvar,
}

#[derive(Default)]
struct EventParts {
    outcome: Option<Option<u32>>,
    work: Option<Box<dyn FnOnce() + Send>>,
    callbacks: Vec<(PJRT_Event_OnReadyCallback, usize)>,
}

impl EventState {
    fn complete(&self, error: Option<u32>) {
        let mut state = self.state.lock().expect("event");
        if let Some(work) = state.work.take() {
            work();
        }
        state.outcome = Some(error);
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.ready.notify_all();
        for (callback, argument) in callbacks {
            unsafe { callback.expect("callback")(make_error(error), std::ptr::with_exposed_provenance_mut(argument)) };
        }
    }
}

/// A client, device or executable.
struct Object {
    fake: &'static Fake,
    parts: Vec<*mut Object>,
}

struct BufferState {
    fake: &'static Fake,
    ty: PJRT_Buffer_Type,
    dims: Vec<i64>,
    data: Arc<Vec<u8>>,
    deleted: AtomicBool,
    done: Option<Arc<EventState>>,
}

unsafe impl Send for BufferState {}

/// An error with two payloads. Tests choose its code.
#[repr(C)]
struct FakeError {
    vtable: *const c_void,
    code: u32,
    message: String,
}

pub(crate) static ERRORS: AtomicIsize = AtomicIsize::new(0);

pub(crate) fn make_error(code: Option<u32>) -> *mut PJRT_Error {
    let Some(code) = code else { return null_mut() };
    ERRORS.fetch_add(1, SeqCst);
    let message = format!("fake error {code}");
    Box::into_raw(Box::new(FakeError { vtable: null(), code, message })).cast()
}

unsafe fn fake(object: *const Object) -> &'static Fake {
    unsafe { (*object).fake }
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    ERRORS.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw((*args).error.cast::<FakeError>()) });
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    let error = unsafe { &*(*args).error.cast::<FakeError>() };
    unsafe {
        (*args).message = error.message.as_ptr().cast();
        (*args).message_size = error.message.len();
    }
}

unsafe extern "C" fn error_get_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    unsafe { (*args).code = PJRT_Error_Code((*(*args).error.cast::<FakeError>()).code) };
    null_mut()
}

unsafe extern "C" fn error_for_each_payload(args: *mut PJRT_Error_ForEachPayload_Args) -> *mut PJRT_Error {
    for (key, value) in [("type", &b"test"[..]), ("bytes", &[0, 255][..])] {
        unsafe {
            let visitor = (*args).visitor.expect("visitor");
            visitor(key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), (*args).user_arg);
        }
    }
    null_mut()
}

pub(crate) static INITIALIZED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    INITIALIZED.fetch_add(1, SeqCst);
    null_mut()
}

unsafe extern "C" fn event_destroy(args: *mut PJRT_Event_Destroy_Args) -> *mut PJRT_Error {
    let event = unsafe { Box::from_raw((*args).event.cast::<Arc<EventState>>()) };
    event.fake.log("event");
    null_mut()
}

unsafe fn event<'a>(event: *mut PJRT_Event) -> &'a EventState {
    unsafe { &*event.cast::<Arc<EventState>>() }
}

unsafe extern "C" fn event_is_ready(args: *mut PJRT_Event_IsReady_Args) -> *mut PJRT_Error {
    unsafe { (*args).is_ready = event((*args).event).state.lock().expect("event").outcome.is_some().into() };
    null_mut()
}

unsafe extern "C" fn event_error(args: *mut PJRT_Event_Error_Args) -> *mut PJRT_Error {
    make_error(unsafe { event((*args).event) }.state.lock().expect("event").outcome.expect("ready"))
}

unsafe extern "C" fn event_await(args: *mut PJRT_Event_Await_Args) -> *mut PJRT_Error {
    let event = unsafe { event((*args).event) };
    let mut state = event.state.lock().expect("event");
    while state.outcome.is_none() {
        state = event.ready.wait(state).expect("event");
    }
    make_error(state.outcome.expect("ready"))
}

unsafe extern "C" fn event_on_ready(args: *mut PJRT_Event_OnReady_Args) -> *mut PJRT_Error {
    let (event, callback, argument) = unsafe { (event((*args).event), (*args).callback, (*args).user_arg) };
    if event.fake.refuse_callbacks.load(SeqCst) {
        return make_error(Some(13));
    }
    let mut state = event.state.lock().expect("event");
    match state.outcome {
        None => state.callbacks.push((callback, argument.expose_provenance())),
        Some(outcome) => {
            drop(state);
            unsafe { callback.expect("callback")(make_error(outcome), argument) };
        }
    }
    null_mut()
}

fn object(fake: &'static Fake, parts: Vec<*mut Object>) -> *mut Object {
    Box::into_raw(Box::new(Object { fake, parts }))
}

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    if args.num_options == 0 {
        return make_error(Some(3));
    }
    let address = unsafe { (*args.create_options).__bindgen_anon_1.int64_value };
    let address = usize::try_from(address).expect("an address");
    let fake: &'static Fake = unsafe { &*std::ptr::with_exposed_provenance::<Fake>(address) };
    fake.live.fetch_add(1, SeqCst);
    *fake.kv.lock().expect("kv") = Some(*args);
    let device = object(fake, vec![]);
    fake.device.store(device, SeqCst);
    args.client = object(fake, vec![device]).cast();
    null_mut()
}

unsafe extern "C" fn client_destroy(args: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
    let client = unsafe { Box::from_raw((*args).client.cast::<Object>()) };
    for part in &client.parts {
        drop(unsafe { Box::from_raw(*part) });
    }
    client.fake.log("client");
    null_mut()
}

unsafe extern "C" fn client_platform_name(args: *mut PJRT_Client_PlatformName_Args) -> *mut PJRT_Error {
    let name = "fake";
    unsafe {
        (*args).platform_name = name.as_ptr().cast();
        (*args).platform_name_size = name.len();
    }
    null_mut()
}

unsafe extern "C" fn client_addressable_devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
    unsafe {
        let client = (*args).client.cast::<Object>();
        (*args).addressable_devices = (*client).parts.as_ptr().cast();
        (*args).num_addressable_devices = (*client).parts.len();
    }
    null_mut()
}

unsafe extern "C" fn client_lookup_device(args: *mut PJRT_Client_LookupDevice_Args) -> *mut PJRT_Error {
    // Use the device id as the error code, so that a test can request any error.
    make_error(Some(unsafe { (*args).id }.cast_unsigned()))
}

unsafe extern "C" fn client_compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let fake = unsafe { fake(args.client.cast()) };
    fake.live.fetch_add(1, SeqCst);
    args.executable = object(fake, vec![fake.device.load(SeqCst)]).cast();
    null_mut()
}

unsafe extern "C" fn loaded_destroy(args: *mut PJRT_LoadedExecutable_Destroy_Args) -> *mut PJRT_Error {
    unsafe { Box::from_raw((*args).executable.cast::<Object>()) }.fake.log("loaded executable");
    null_mut()
}

unsafe extern "C" fn executable_destroy(args: *mut PJRT_Executable_Destroy_Args) -> *mut PJRT_Error {
    unsafe { Box::from_raw((*args).executable.cast::<Object>()) }.fake.log("executable");
    null_mut()
}

unsafe extern "C" fn get_executable(args: *mut PJRT_LoadedExecutable_GetExecutable_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let fake = unsafe { fake(args.loaded_executable.cast()) };
    fake.live.fetch_add(1, SeqCst);
    args.executable = object(fake, vec![]).cast();
    null_mut()
}

unsafe extern "C" fn executable_name(args: *mut PJRT_Executable_Name_Args) -> *mut PJRT_Error {
    // Read a field of the executable, so that a sanitizer detects a use of the executable after it was freed.
    let _ = unsafe { fake((*args).executable.cast()) }.live.load(SeqCst);
    let name = "copy";
    unsafe {
        (*args).executable_name = name.as_ptr().cast();
        (*args).executable_name_size = name.len();
    }
    null_mut()
}

unsafe extern "C" fn num_outputs(args: *mut PJRT_Executable_NumOutputs_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    args.num_outputs = 1 + unsafe { fake(args.executable.cast()) }.more_outputs.load(SeqCst);
    null_mut()
}

/// Returns four bytes that are not an HLO module.
pub(crate) unsafe extern "C" fn optimized_program(args: *mut PJRT_Executable_OptimizedProgram_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let fake = unsafe { fake(args.executable.cast()) };
    let program = unsafe { &mut *args.program };
    let format = *fake.program_format.lock().expect("format");
    (program.format, program.format_size) = (format.as_ptr().cast(), format.len());
    program.code_size = 4;
    if program.code.is_null() {
        fake.program_sizes.fetch_add(1, SeqCst);
    } else {
        fake.program_copies.fetch_add(1, SeqCst);
        unsafe { program.code.cast::<u8>().write_bytes(0xff, 4) };
    }
    null_mut()
}

unsafe extern "C" fn parameter_kinds(args: *mut PJRT_Executable_ParameterMemoryKinds_Args) -> *mut PJRT_Error {
    struct Kinds([*const c_char; 8]);
    unsafe impl Sync for Kinds {}
    static KINDS: Kinds = Kinds([c"x".as_ptr(); 8]);
    static SIZES: [usize; 8] = [1; 8];
    let args = unsafe { &mut *args };
    let Ok(count) = usize::try_from(unsafe { fake(args.executable.cast()) }.parameters.load(SeqCst)) else {
        return make_error(Some(12));
    };
    args.memory_kinds = KINDS.0.as_ptr();
    args.memory_kind_sizes = SIZES.as_ptr();
    args.num_parameters = count.min(SIZES.len());
    null_mut()
}

unsafe extern "C" fn loaded_devices(args: *mut PJRT_LoadedExecutable_AddressableDevices_Args) -> *mut PJRT_Error {
    unsafe {
        let executable = (*args).executable.cast::<Object>();
        (*args).addressable_devices = (*executable).parts.as_ptr().cast();
        (*args).num_addressable_devices = (*executable).parts.len();
    }
    null_mut()
}

unsafe fn buffer<'a>(buffer: *mut PJRT_Buffer) -> &'a BufferState {
    unsafe { &*buffer.cast::<BufferState>() }
}

fn make_buffer(state: BufferState) -> *mut PJRT_Buffer {
    state.fake.live.fetch_add(1, SeqCst);
    Box::into_raw(Box::new(state)).cast()
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let fake = unsafe { fake(args.executable.cast()) };
    fake.runs.fetch_add(1, SeqCst);
    let inputs = unsafe { std::slice::from_raw_parts(*args.argument_lists, args.num_args) };
    let options = unsafe { &*args.options };
    let keep = match options.num_non_donatable_input_indices {
        0 => &[],
        n => unsafe { std::slice::from_raw_parts(options.non_donatable_input_indices, n) },
    };
    for (index, input) in (0i64..).zip(inputs) {
        if fake.donate.load(SeqCst) && !keep.contains(&index) {
            unsafe { buffer(*input) }.deleted.store(true, SeqCst);
        }
    }
    for index in 0..=fake.more_outputs.load(SeqCst) {
        let output = if index == 0 && fake.null_outputs.load(SeqCst) {
            null_mut()
        } else {
            let input = unsafe { buffer(inputs[0]) };
            make_buffer(BufferState {
                fake,
                ty: input.ty,
                dims: input.dims.clone(),
                data: input.data.clone(),
                deleted: AtomicBool::new(false),
                done: None,
            })
        };
        unsafe { *(*args.output_lists).add(index) = output };
    }
    if !args.device_complete_events.is_null() {
        unsafe { *args.device_complete_events = fake.event(|| ()) };
    }
    null_mut()
}

unsafe extern "C" fn buffer_from_host(args: *mut PJRT_Client_BufferFromHostBuffer_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let fake = unsafe { fake(args.client.cast()) };
    let dims = match args.num_dims {
        0 => vec![],
        n => unsafe { std::slice::from_raw_parts(args.dims, n) }.to_vec(),
    };
    let count: i64 = dims.iter().product();
    let size = usize::try_from(count).expect("extents") * element_size(args.type_);
    let data = if args.num_byte_strides == 0 {
        unsafe { std::slice::from_raw_parts(args.data.cast::<u8>(), size) }.to_vec()
    } else {
        let strides = unsafe { std::slice::from_raw_parts(args.byte_strides, args.num_byte_strides) };
        gather(args.data.cast::<u8>(), element_size(args.type_), &dims, strides)
    };
    let mut done = None;
    if args.host_buffer_semantics == PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall {
        args.done_with_host_buffer = fake.event(|| ());
    } else {
        // Read the host data again when the event becomes ready, to check that it is still valid and unchanged.
        let address = args.data.expose_provenance();
        let sum: u64 = data.iter().map(|byte| u64::from(*byte)).sum();
        args.done_with_host_buffer = fake.event(move || {
            let data = std::ptr::with_exposed_provenance::<u8>(address);
            let again: u64 = unsafe { std::slice::from_raw_parts(data, size) }.iter().map(|b| u64::from(*b)).sum();
            assert_eq!(sum, again, "the host data changed while it was borrowed");
        });
        done = Some(unsafe { &*args.done_with_host_buffer.cast::<Arc<EventState>>() }.clone());
    }
    let data = Arc::new(data);
    args.buffer = make_buffer(BufferState { fake, ty: args.type_, dims, data, deleted: AtomicBool::new(false), done });
    null_mut()
}

/// Copies strided data to row-major bytes.
fn gather(data: *const u8, size: usize, dims: &[i64], strides: &[i64]) -> Vec<u8> {
    let ([extent, dims @ ..], [stride, strides @ ..]) = (dims, strides) else {
        return unsafe { std::slice::from_raw_parts(data, size) }.to_vec();
    };
    let at = |i: i64| unsafe { data.offset(isize::try_from(i * stride).expect("a stride")) };
    (0..*extent).flat_map(|i| gather(at(i), size, dims, strides)).collect()
}

fn element_size(ty: PJRT_Buffer_Type) -> usize {
    pjrt::ElementType::from_raw(ty.0).expect("a type the fake knows").host_size()
}

unsafe extern "C" fn buffer_destroy(args: *mut PJRT_Buffer_Destroy_Args) -> *mut PJRT_Error {
    unsafe { Box::from_raw((*args).buffer.cast::<BufferState>()) }.fake.log("buffer");
    null_mut()
}

unsafe extern "C" fn buffer_type(args: *mut PJRT_Buffer_ElementType_Args) -> *mut PJRT_Error {
    unsafe { (*args).type_ = buffer((*args).buffer).ty };
    null_mut()
}

unsafe extern "C" fn buffer_dimensions(args: *mut PJRT_Buffer_Dimensions_Args) -> *mut PJRT_Error {
    let dims = &unsafe { buffer((*args).buffer) }.dims;
    unsafe {
        // For scalars, return a null pointer, which PJRT permits.
        (*args).dims = if dims.is_empty() { null() } else { dims.as_ptr() };
        (*args).num_dims = dims.len();
    }
    null_mut()
}

unsafe extern "C" fn buffer_unpadded(args: *mut PJRT_Buffer_UnpaddedDimensions_Args) -> *mut PJRT_Error {
    let dims = &unsafe { buffer((*args).buffer) }.dims;
    unsafe {
        (*args).unpadded_dims = if dims.is_empty() { null() } else { dims.as_ptr() };
        (*args).num_dims = dims.len();
    }
    null_mut()
}

unsafe extern "C" fn buffer_layout(args: *mut PJRT_Buffer_GetMemoryLayout_Args) -> *mut PJRT_Error {
    static ROW_MAJOR: [i64; 2] = [1, 0];
    static COLUMN_MAJOR: [i64; 2] = [0, 1];
    static TILE: [i64; 2] = [8, 128];
    static TILE_SIZES: [usize; 1] = [2];
    let buffer = unsafe { buffer((*args).buffer) };
    let order = if buffer.fake.column_major.load(SeqCst) { &COLUMN_MAJOR } else { &ROW_MAJOR };
    let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
    tiled.minor_to_major = order.as_ptr();
    tiled.minor_to_major_size = 2;
    if buffer.fake.tiled.load(SeqCst) {
        tiled.tile_dims = TILE.as_ptr();
        tiled.tile_dim_sizes = TILE_SIZES.as_ptr();
        tiled.num_tiles = 1;
    }
    unsafe {
        (*args).layout = PJRT_Buffer_MemoryLayout::new();
        (*args).layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
        (*args).layout.__bindgen_anon_1.tiled = tiled;
    }
    null_mut()
}

unsafe extern "C" fn buffer_delete(args: *mut PJRT_Buffer_Delete_Args) -> *mut PJRT_Error {
    unsafe { buffer((*args).buffer) }.deleted.store(true, SeqCst);
    null_mut()
}

unsafe extern "C" fn buffer_copy_to_device(args: *mut PJRT_Buffer_CopyToDevice_Args) -> *mut PJRT_Error {
    let BufferState { fake, ty, dims, data, .. } = unsafe { buffer((*args).buffer) };
    let (dims, data, deleted) = (dims.clone(), data.clone(), AtomicBool::new(false));
    let copy = BufferState { fake, ty: *ty, dims, data, deleted, done: None };
    unsafe { (*args).dst_buffer = make_buffer(copy) };
    null_mut()
}

unsafe extern "C" fn buffer_copy_to_memory(args: *mut PJRT_Buffer_CopyToMemory_Args) -> *mut PJRT_Error {
    let mut copy = PJRT_Buffer_CopyToDevice_Args::new();
    copy.buffer = unsafe { (*args).buffer };
    let error = unsafe { buffer_copy_to_device(&raw mut copy) };
    unsafe { (*args).dst_buffer = copy.dst_buffer };
    error
}

unsafe extern "C" fn uninitialized(args: *mut PJRT_Client_CreateUninitializedBuffer_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let fake = unsafe { fake(args.client.cast()) };
    let dims = unsafe { std::slice::from_raw_parts(args.shape_dims, args.shape_num_dims) }.to_vec();
    let count: i64 = dims.iter().product();
    let size = usize::try_from(count).expect("extents") * element_size(args.shape_element_type);
    let (data, deleted) = (Arc::new(vec![0; size]), AtomicBool::new(false));
    args.buffer = make_buffer(BufferState { fake, ty: args.shape_element_type, dims, data, deleted, done: None });
    null_mut()
}

unsafe extern "C" fn buffer_is_deleted(args: *mut PJRT_Buffer_IsDeleted_Args) -> *mut PJRT_Error {
    unsafe { (*args).is_deleted = buffer((*args).buffer).deleted.load(SeqCst).into() };
    null_mut()
}

unsafe extern "C" fn buffer_to_host(args: *mut PJRT_Buffer_ToHostBuffer_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let buffer = unsafe { buffer(args.src) };
    let fake = buffer.fake;
    if buffer.deleted.load(SeqCst) {
        return make_error(Some(9));
    }
    if fake.no_layouts.load(SeqCst) && !args.host_layout.is_null() {
        return make_error(Some(12));
    }
    if args.dst.is_null() {
        args.dst_size = buffer.data.len();
        return null_mut();
    }
    if args.dst_size < buffer.data.len() {
        return make_error(Some(3));
    }
    let (dst, data) = (args.dst.expose_provenance(), buffer.data.clone());
    args.event = fake.event(move || {
        let dst = std::ptr::with_exposed_provenance_mut::<u8>(dst);
        match u8::try_from(fake.garbage.load(SeqCst)) {
            Ok(garbage) => unsafe { dst.write_bytes(garbage, data.len()) },
            Err(_) => unsafe { dst.copy_from_nonoverlapping(data.as_ptr(), data.len()) },
        }
    });
    null_mut()
}

unsafe extern "C" fn buffer_ready_event(args: *mut PJRT_Buffer_ReadyEvent_Args) -> *mut PJRT_Error {
    unsafe { (*args).event = buffer((*args).buffer).fake.event(|| ()) };
    null_mut()
}

/// Returns the complete function table. Tests modify their copy of the table.
pub(crate) fn table() -> PJRT_Api {
    let mut table = PJRT_Api::new();
    table.pjrt_api_version.struct_size = PJRT_Api_Version::STRUCT_SIZE;
    table.pjrt_api_version.minor_version = 114;
    table.PJRT_Error_Destroy = Some(error_destroy);
    table.PJRT_Error_Message = Some(error_message);
    table.PJRT_Error_GetCode = Some(error_get_code);
    table.PJRT_Error_ForEachPayload = Some(error_for_each_payload);
    table.PJRT_Plugin_Initialize = Some(initialize);
    table.PJRT_Event_Destroy = Some(event_destroy);
    table.PJRT_Event_IsReady = Some(event_is_ready);
    table.PJRT_Event_Error = Some(event_error);
    table.PJRT_Event_Await = Some(event_await);
    table.PJRT_Event_OnReady = Some(event_on_ready);
    table.PJRT_Client_Create = Some(client_create);
    table.PJRT_Client_Destroy = Some(client_destroy);
    table.PJRT_Client_PlatformName = Some(client_platform_name);
    table.PJRT_Client_AddressableDevices = Some(client_addressable_devices);
    table.PJRT_Client_LookupDevice = Some(client_lookup_device);
    table.PJRT_Client_Compile = Some(client_compile);
    table.PJRT_Client_BufferFromHostBuffer = Some(buffer_from_host);
    table.PJRT_Executable_Destroy = Some(executable_destroy);
    table.PJRT_Executable_Name = Some(executable_name);
    table.PJRT_Executable_NumOutputs = Some(num_outputs);
    table.PJRT_Executable_ParameterMemoryKinds = Some(parameter_kinds);
    table.PJRT_LoadedExecutable_Destroy = Some(loaded_destroy);
    table.PJRT_LoadedExecutable_GetExecutable = Some(get_executable);
    table.PJRT_LoadedExecutable_AddressableDevices = Some(loaded_devices);
    table.PJRT_LoadedExecutable_Execute = Some(execute);
    table.PJRT_Buffer_Destroy = Some(buffer_destroy);
    table.PJRT_Buffer_ElementType = Some(buffer_type);
    table.PJRT_Buffer_Dimensions = Some(buffer_dimensions);
    table.PJRT_Buffer_UnpaddedDimensions = Some(buffer_unpadded);
    table.PJRT_Buffer_GetMemoryLayout = Some(buffer_layout);
    table.PJRT_Buffer_Delete = Some(buffer_delete);
    table.PJRT_Buffer_IsDeleted = Some(buffer_is_deleted);
    table.PJRT_Buffer_CopyToDevice = Some(buffer_copy_to_device);
    table.PJRT_Buffer_CopyToMemory = Some(buffer_copy_to_memory);
    table.PJRT_Client_CreateUninitializedBuffer = Some(uninitialized);
    table.PJRT_Buffer_ToHostBuffer = Some(buffer_to_host);
    table.PJRT_Buffer_ReadyEvent = Some(buffer_ready_event);
    table
}

/// Creates a plugin with the given table. Leaks the table.
pub(crate) fn plugin_of(table: PJRT_Api) -> Result<Plugin, pjrt::LoadError> {
    // SAFETY: the functions of the table keep the contracts, and some functions may be missing.
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) })
}

/// Creates a plugin with the complete function table.
pub(crate) fn plugin() -> Plugin {
    plugin_of(table()).expect("the fake loads")
}
