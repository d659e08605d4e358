//! A plugin without a device, whose functions do as little as the C API permits. The time of a benchmark on this plugin
//! is therefore almost only the time of the caller's own code.
//!
//! Each buffer and each event is an allocation of one word. Each run has as many outputs as arguments.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]

use std::ptr::null_mut;

use pjrt::{Plugin, Program, StaticApi};
use pjrt_sys::*;

/// The object that serves as client and as device. Its value is never read.
static OBJECT: u64 = 0;

fn constant<T>() -> *mut T {
    (&raw const OBJECT).cast_mut().cast()
}

fn allocated<T>() -> *mut T {
    Box::into_raw(Box::new(0u64)).cast()
}

unsafe fn free<T>(object: *mut T) {
    drop(unsafe { Box::from_raw(object.cast::<u64>()) });
}

struct Devices([*mut PJRT_Device; 1]);
unsafe impl Sync for Devices {}
static DEVICES: Devices = Devices([(&raw const OBJECT).cast_mut().cast()]);

type Error = *mut PJRT_Error;

unsafe extern "C" fn error_destroy(_: *mut PJRT_Error_Destroy_Args) {}
unsafe extern "C" fn error_message(_: *mut PJRT_Error_Message_Args) {}
unsafe extern "C" fn error_code(_: *mut PJRT_Error_GetCode_Args) -> Error {
    null_mut()
}

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> Error {
    unsafe { (*args).client = constant() };
    null_mut()
}

unsafe extern "C" fn client_destroy(_: *mut PJRT_Client_Destroy_Args) -> Error {
    null_mut()
}

unsafe extern "C" fn client_devices(args: *mut PJRT_Client_AddressableDevices_Args) -> Error {
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr();
        (*args).num_addressable_devices = 1;
    }
    null_mut()
}

unsafe extern "C" fn compile(args: *mut PJRT_Client_Compile_Args) -> Error {
    // The size of the program in bytes is the number of its arguments and outputs.
    unsafe { (*args).executable = Box::into_raw(Box::new((*(*args).program).code_size)).cast() };
    null_mut()
}

unsafe extern "C" fn loaded_destroy(args: *mut PJRT_LoadedExecutable_Destroy_Args) -> Error {
    unsafe { free((*args).executable) };
    null_mut()
}

unsafe extern "C" fn executable(args: *mut PJRT_LoadedExecutable_GetExecutable_Args) -> Error {
    unsafe { (*args).executable = Box::into_raw(Box::new(*(*args).loaded_executable.cast::<usize>())).cast() };
    null_mut()
}

unsafe extern "C" fn executable_destroy(args: *mut PJRT_Executable_Destroy_Args) -> Error {
    unsafe { free((*args).executable) };
    null_mut()
}

unsafe extern "C" fn num_outputs(args: *mut PJRT_Executable_NumOutputs_Args) -> Error {
    unsafe { (*args).num_outputs = *(*args).executable.cast::<usize>() };
    null_mut()
}

unsafe extern "C" fn loaded_devices(args: *mut PJRT_LoadedExecutable_AddressableDevices_Args) -> Error {
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr();
        (*args).num_addressable_devices = 1;
    }
    null_mut()
}

unsafe extern "C" fn from_host(args: *mut PJRT_Client_BufferFromHostBuffer_Args) -> Error {
    unsafe {
        (*args).buffer = allocated();
        (*args).done_with_host_buffer = allocated();
    }
    null_mut()
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> Error {
    let args = unsafe { &mut *args };
    for index in 0..args.num_args {
        unsafe { *(*args.output_lists).add(index) = allocated() };
    }
    if !args.device_complete_events.is_null() {
        unsafe { *args.device_complete_events = allocated() };
    }
    null_mut()
}

unsafe extern "C" fn buffer_destroy(args: *mut PJRT_Buffer_Destroy_Args) -> Error {
    unsafe { free((*args).buffer) };
    null_mut()
}

unsafe extern "C" fn element_type(args: *mut PJRT_Buffer_ElementType_Args) -> Error {
    unsafe { (*args).type_ = PJRT_Buffer_Type::PJRT_Buffer_Type_F32 };
    null_mut()
}

unsafe extern "C" fn dimensions(args: *mut PJRT_Buffer_Dimensions_Args) -> Error {
    static FOUR: [i64; 1] = [4];
    unsafe {
        (*args).dims = FOUR.as_ptr();
        (*args).num_dims = 1;
    }
    null_mut()
}

unsafe extern "C" fn ready_event(args: *mut PJRT_Buffer_ReadyEvent_Args) -> Error {
    unsafe { (*args).event = allocated() };
    null_mut()
}

unsafe extern "C" fn event_await(_: *mut PJRT_Event_Await_Args) -> Error {
    null_mut()
}

unsafe extern "C" fn event_is_ready(args: *mut PJRT_Event_IsReady_Args) -> Error {
    unsafe { (*args).is_ready = true.into() };
    null_mut()
}

unsafe extern "C" fn event_destroy(args: *mut PJRT_Event_Destroy_Args) -> Error {
    unsafe { free((*args).event) };
    null_mut()
}

/// Returns a program with `count` arguments and `count` outputs, which only the null plugin can compile.
pub(crate) fn program(count: usize) -> Program {
    Program::mlir("x".repeat(count))
}

/// Creates the plugin. Its function table is leaked.
pub(crate) fn plugin() -> Plugin {
    let mut table = PJRT_Api::new();
    table.pjrt_api_version.struct_size = PJRT_Api_Version::STRUCT_SIZE;
    table.pjrt_api_version.minor_version = 114;
    table.PJRT_Error_Destroy = Some(error_destroy);
    table.PJRT_Error_Message = Some(error_message);
    table.PJRT_Error_GetCode = Some(error_code);
    table.PJRT_Client_Create = Some(client_create);
    table.PJRT_Client_Destroy = Some(client_destroy);
    table.PJRT_Client_AddressableDevices = Some(client_devices);
    table.PJRT_Client_Compile = Some(compile);
    table.PJRT_Client_BufferFromHostBuffer = Some(from_host);
    table.PJRT_Executable_Destroy = Some(executable_destroy);
    table.PJRT_Executable_NumOutputs = Some(num_outputs);
    table.PJRT_LoadedExecutable_Destroy = Some(loaded_destroy);
    table.PJRT_LoadedExecutable_GetExecutable = Some(executable);
    table.PJRT_LoadedExecutable_AddressableDevices = Some(loaded_devices);
    table.PJRT_LoadedExecutable_Execute = Some(execute);
    table.PJRT_Buffer_Destroy = Some(buffer_destroy);
    table.PJRT_Buffer_ElementType = Some(element_type);
    table.PJRT_Buffer_Dimensions = Some(dimensions);
    table.PJRT_Buffer_ReadyEvent = Some(ready_event);
    table.PJRT_Event_Await = Some(event_await);
    table.PJRT_Event_IsReady = Some(event_is_ready);
    table.PJRT_Event_Destroy = Some(event_destroy);
    // SAFETY: the functions keep the contracts of the C API for all calls that the benchmarks make.
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).expect("the null plugin loads")
}
