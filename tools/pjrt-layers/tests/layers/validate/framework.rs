//! A fake plugin, and a fake framework that calls it. The plugin never reads through a handle, so that tests may pass
//! any handle.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use pjrt_layers::validate::{Reports, Validate};
use pjrt_layers::{Call, Function, Instance, Layer, Outcome, Stack, Step};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Buffer, PJRT_Buffer_CopyToDevice_Args, PJRT_Buffer_Delete_Args, PJRT_Buffer_Destroy_Args,
    PJRT_Buffer_Dimensions_Args, PJRT_Buffer_ElementType_Args, PJRT_Buffer_IsDeleted_Args, PJRT_Buffer_IsOnCpu_Args,
    PJRT_Buffer_ReadyEvent_Args, PJRT_Buffer_Type, PJRT_Client, PJRT_Client_AddressableDevices_Args,
    PJRT_Client_BufferFromHostBuffer_Args, PJRT_Client_Compile_Args, PJRT_Client_Create_Args, PJRT_Client_Destroy_Args,
    PJRT_Device, PJRT_Event, PJRT_Event_Await_Args, PJRT_Event_Destroy_Args, PJRT_Event_Error_Args,
    PJRT_Event_IsReady_Args, PJRT_Event_OnReady_Args, PJRT_Executable_Destroy_Args,
    PJRT_Executable_OptimizedProgram_Args, PJRT_LoadedExecutable, PJRT_LoadedExecutable_AddressableDevices_Args,
    PJRT_LoadedExecutable_Execute_Args, PJRT_LoadedExecutable_GetExecutable_Args, PJRT_Program, StaticApi,
};

use crate::{fake, setup};

pub(super) const F32: PJRT_Buffer_Type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
pub(super) const S32: PJRT_Buffer_Type = PJRT_Buffer_Type::PJRT_Buffer_Type_S32;

/// Returns a new handle that does not refer to an object.
pub(super) fn next<T>() -> *mut T {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    std::ptr::without_provenance_mut(NEXT.fetch_add(0x40, Ordering::Relaxed))
}

fakes! {
    create(args: PJRT_Client_Create_Args) { args.client = next(); }
    destroy_client(_args: PJRT_Client_Destroy_Args){}
    compile(args: PJRT_Client_Compile_Args) {
        args.executable = next();
        // SAFETY: V1: the program is null or valid.
        if let Some(program) = unsafe { args.program.as_ref() } && !program.code.is_null() {
            let mut code = vec![0_u8; program.code_size];
            // SAFETY: V1: the code is readable for its size.
            unsafe { program.code.cast::<u8>().copy_to_nonoverlapping(code.as_mut_ptr(), code.len()) };
            PROGRAMS.lock().unwrap().insert(args.executable.addr(), code);
        }
    }
    upload(args: PJRT_Client_BufferFromHostBuffer_Args) {
        args.buffer = next();
        let mut dims = vec![0; args.num_dims];
        if !dims.is_empty() {
            // SAFETY: V1: the test passes an array of this length.
            unsafe { args.dims.copy_to_nonoverlapping(dims.as_mut_ptr(), dims.len()) };
        }
        BUFFERS.lock().unwrap().insert(args.buffer.addr(), Box::leak(Box::new((args.type_, dims))));
    }
    ready_event(args: PJRT_Buffer_ReadyEvent_Args) { args.event = std::ptr::without_provenance_mut(0x10); }
    destroy_event(_args: PJRT_Event_Destroy_Args) {}
    is_deleted(_args: PJRT_Buffer_IsDeleted_Args){}
    is_on_cpu(_args: PJRT_Buffer_IsOnCpu_Args) {
        while SLOW.load(Ordering::Acquire) {
            STARTED.store(true, Ordering::Release);
            std::thread::yield_now();
        }
    }
    delete(args: PJRT_Buffer_Delete_Args) {
        while HELD.load(Ordering::Acquire) == args.buffer.addr() {
            DELETING.store(true, Ordering::Release);
            std::thread::yield_now();
        }
    }
    destroy(_args: PJRT_Buffer_Destroy_Args){}
    execute(args: PJRT_LoadedExecutable_Execute_Args) {
        if !args.device_complete_events.is_null() {
            // SAFETY: V1: the test passes memory for the event of its only device.
            unsafe { args.device_complete_events.write(next()) };
        }
    }
    copy(args: PJRT_Buffer_CopyToDevice_Args) { args.dst_buffer = next(); }
    executable(args: PJRT_LoadedExecutable_GetExecutable_Args) { args.executable = args.loaded_executable.cast(); }
    destroy_executable(_args: PJRT_Executable_Destroy_Args) {}
    optimized_program(args: PJRT_Executable_OptimizedProgram_Args) {
        if let Some(code) = PROGRAMS.lock().unwrap().get(&args.executable.addr()) {
            // SAFETY: V1: the caller passes a valid struct.
            let program = unsafe { &mut *args.program };
            (program.format, program.format_size, program.code_size) = (c"hlo".as_ptr(), 3, code.len());
            if !program.code.is_null() {
                // SAFETY: V1: the caller has allocated memory of the size that the previous call returned.
                unsafe { program.code.copy_from_nonoverlapping(code.as_ptr().cast(), code.len()) };
            }
        }
    }
    dimensions(args: PJRT_Buffer_Dimensions_Args) {
        let shape = shape_of(args.buffer);
        (args.dims, args.num_dims) = (shape.1.as_ptr(), shape.1.len());
    }
    element_type(args: PJRT_Buffer_ElementType_Args) { args.type_ = shape_of(args.buffer).0; }
    is_ready(args: PJRT_Event_IsReady_Args) { args.is_ready = (args.event.addr() == 0x10).into(); }
    event_error(_args: PJRT_Event_Error_Args) {}
    on_ready(args: PJRT_Event_OnReady_Args) {
        if let Some(callback) = args.callback {
            // SAFETY: C6: this calls the registered callback once, with its argument.
            unsafe { callback(null_mut(), args.user_arg) };
        }
    }
    wait(_args: PJRT_Event_Await_Args) {
        // The thread of the test opens the gate after it has observed that this thread waits.
        while GATE.load(Ordering::Acquire) { std::thread::yield_now(); }
    }
    devices(args: PJRT_Client_AddressableDevices_Args) {
        args.addressable_devices = std::ptr::from_ref(DEVICES.leak(args.client.addr())).cast();
        args.num_addressable_devices = 2;
    }
    executable_devices(args: PJRT_LoadedExecutable_AddressableDevices_Args) {
        args.addressable_devices = (&raw const ONE_DEVICE.0).cast();
        args.num_addressable_devices = 1;
    }
}

/// The code of each executable's program, by the handle of the executable. Contains no program whose code is null. The
/// fake plugin also returns this code as the optimized program.
static PROGRAMS: LazyLock<Mutex<HashMap<usize, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// The `HloModuleProto` of a program with the parameters `f32[2,3]` and `s32[?]`. The field numbers are
/// host_program_shape (4), parameters (1), element_type (2), dimensions (3) and is_dynamic_dimension (6).
static HLO: [u8; 20] = [0x22, 18, 0x0a, 6, 0x10, 11, 0x1a, 2, 2, 3, 0x0a, 8, 0x10, 4, 0x1a, 1, 5, 0x32, 1, 1];

/// The element type and the dimensions of a buffer.
type Typed = (PJRT_Buffer_Type, Vec<i64>);

/// The types of the buffers, by their handles.
static BUFFERS: LazyLock<Mutex<HashMap<usize, &Typed>>> = LazyLock::new(Mutex::default);

fn shape_of(buffer: *mut PJRT_Buffer) -> &'static Typed {
    BUFFERS.lock().unwrap()[&buffer.addr()]
}

/// Whether the fake plugin's `PJRT_Buffer_IsOnCpu` blocks. `STARTED` is set when a blocking call has begun.
pub(super) static SLOW: AtomicBool = AtomicBool::new(false);
pub(super) static STARTED: AtomicBool = AtomicBool::new(false);

/// The buffer whose deletion blocks, or 0. `DELETING` is set when its deletion has begun.
pub(super) static HELD: AtomicUsize = AtomicUsize::new(0);
pub(super) static DELETING: AtomicBool = AtomicBool::new(false);

/// Whether the fake plugin's `PJRT_Event_Await` blocks.
pub(super) static GATE: AtomicBool = AtomicBool::new(false);

/// The two devices of each client. Their handles are the client's handle plus 1 and plus 2.
struct Devices;

static DEVICES: Devices = Devices;

impl Devices {
    fn leak(&self, client: usize) -> &'static [usize; 2] {
        Box::leak(Box::new([client + 1, client + 2]))
    }
}

/// The list with the only device of each executable.
pub(super) struct OneDevice(pub(super) [usize; 1]);

pub(super) static ONE_DEVICE: OneDevice = OneDevice([0x20]);

/// A layer that the stack shares with a test.
#[derive(Debug)]
struct Shared(&'static Validate);

impl Layer for Shared {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn wants(&self, function: &Function) -> bool {
        self.0.wants(function)
    }

    fn before(&self, call: &mut Call) -> Step {
        self.0.before(call)
    }

    fn after(&self, call: &mut Call, token: u64, outcome: Outcome) {
        self.0.after(call, token, outcome);
    }

    fn watches_events(&self) -> bool {
        self.0.watches_events()
    }
}

/// The data of all uploads.
pub(super) static BYTES: [u8; 8] = [0; 8];

/// Returns a program without code.
pub(super) fn program() -> *const PJRT_Program {
    Box::leak(Box::new(PJRT_Program::new()))
}

/// A fake framework that calls the fake plugin through the layer.
pub(super) struct Framework {
    api: StaticApi,
    pub(super) reports: Reports,
    pub(super) validate: &'static Validate,
}

/// Calls a function through the framework's table.
macro_rules! call {
    ($framework:expr, $($call:tt)*) => { ask!($framework.table(), $($call)*) };
}

pub(super) use call;

impl Framework {
    pub(super) fn new<I: Instance>() -> Self {
        let plugin = setup::fake(117, |table| {
            table.PJRT_Client_Create = Some(create);
            table.PJRT_Client_Destroy = Some(destroy_client);
            table.PJRT_Client_Compile = Some(compile);
            table.PJRT_Client_BufferFromHostBuffer = Some(upload);
            table.PJRT_Buffer_IsDeleted = Some(is_deleted);
            table.PJRT_Buffer_IsOnCpu = Some(is_on_cpu);
            table.PJRT_Buffer_ReadyEvent = Some(ready_event);
            table.PJRT_Event_Destroy = Some(destroy_event);
            table.PJRT_Buffer_Delete = Some(delete);
            table.PJRT_Buffer_Destroy = Some(destroy);
            table.PJRT_LoadedExecutable_Execute = Some(execute);
            table.PJRT_LoadedExecutable_AddressableDevices = Some(executable_devices);
            table.PJRT_LoadedExecutable_GetExecutable = Some(executable);
            table.PJRT_Executable_Destroy = Some(destroy_executable);
            table.PJRT_Executable_OptimizedProgram = Some(optimized_program);
            table.PJRT_Buffer_Dimensions = Some(dimensions);
            table.PJRT_Buffer_ElementType = Some(element_type);
            table.PJRT_Client_AddressableDevices = Some(devices);
            table.PJRT_Buffer_CopyToDevice = Some(copy);
            table.PJRT_Event_IsReady = Some(is_ready);
            table.PJRT_Event_Error = Some(event_error);
            table.PJRT_Event_OnReady = Some(on_ready);
            table.PJRT_Event_Await = Some(wait);
        });
        let reports = Reports::collected();
        let validate: &'static Validate = Box::leak(Box::new(Validate::new(reports.clone())));
        let api = Stack::start::<I>(plugin, vec![Box::new(Shared(validate))]);
        Self { api, reports, validate }
    }

    pub(super) fn table(&self) -> &'static PJRT_Api {
        setup::table(self.api)
    }

    pub(super) fn client(&self) -> *mut PJRT_Client {
        call!(self, PJRT_Client_Create, PJRT_Client_Create_Args {}).client
    }

    pub(super) fn buffer(&self, client: *mut PJRT_Client) -> *mut PJRT_Buffer {
        call!(
            self,
            PJRT_Client_BufferFromHostBuffer,
            PJRT_Client_BufferFromHostBuffer_Args { client: client, data: (&raw const BYTES).cast() }
        )
        .buffer
    }

    pub(super) fn executable(&self, client: *mut PJRT_Client) -> *mut PJRT_LoadedExecutable {
        call!(self, PJRT_Client_Compile, PJRT_Client_Compile_Args { client: client, program: program() }).executable
    }

    /// Returns the devices of a client.
    pub(super) fn devices(&self, client: *mut PJRT_Client) -> [*mut PJRT_Device; 2] {
        call!(self, PJRT_Client_AddressableDevices, PJRT_Client_AddressableDevices_Args { client: client });
        [client.addr() + 1, client.addr() + 2].map(std::ptr::without_provenance_mut)
    }

    /// Uploads a buffer to a device.
    pub(super) fn buffer_on(&self, client: *mut PJRT_Client, device: *mut PJRT_Device) -> *mut PJRT_Buffer {
        let args = call!(
            self,
            PJRT_Client_BufferFromHostBuffer,
            PJRT_Client_BufferFromHostBuffer_Args { client: client, device: device, data: (&raw const BYTES).cast() }
        );
        args.buffer
    }

    /// Uploads a buffer with this element type and these dimensions.
    pub(super) fn typed(&self, client: *mut PJRT_Client, type_: PJRT_Buffer_Type, dims: &[i64]) -> *mut PJRT_Buffer {
        fake::upload(self.table(), client, &BYTES, type_, dims)
    }

    /// Starts a run, and returns its event, which is not ready.
    pub(super) fn event(&self) -> *mut PJRT_Event {
        let mut event = null_mut();
        fake::run(self.table(), self.executable(self.client()), &[], &raw mut event);
        event
    }

    pub(super) fn execute(&self, executable: *mut PJRT_LoadedExecutable, buffer: *mut PJRT_Buffer) {
        self.run(executable, &[buffer]);
    }

    /// Runs an executable on one device.
    pub(super) fn run(&self, executable: *mut PJRT_LoadedExecutable, arguments: &[*mut PJRT_Buffer]) {
        fake::run(self.table(), executable, arguments, null_mut());
    }

    /// Compiles the program [`HLO`], whose parameters the plugin reports.
    pub(super) fn with_parameters(&self, client: *mut PJRT_Client) -> *mut PJRT_LoadedExecutable {
        let mut program = PJRT_Program::new();
        (program.code, program.code_size) = (HLO.as_ptr().cast_mut().cast(), HLO.len());
        call!(self, PJRT_Client_Compile, PJRT_Client_Compile_Args { client: client, program: &raw const program })
            .executable
    }

    /// Runs the layer's handler for the exit of the process.
    pub(super) fn exit(&self) {
        self.validate.exit();
    }

    pub(super) fn ids(&self) -> Vec<&'static str> {
        self.reports.all().iter().map(|report| report.rule.id).collect()
    }
}
