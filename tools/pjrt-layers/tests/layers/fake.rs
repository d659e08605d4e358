//! A plugin that never reads through a handle, and helpers that call its table like a framework. The tests and a
//! benchmark can therefore use arbitrary handles.

use std::ffi::c_void;
use std::ptr::null_mut;

use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Buffer, PJRT_Buffer_Type, PJRT_Client, PJRT_Client_BufferFromHostBuffer_Args, PJRT_Error,
    PJRT_Error_Destroy_Args, PJRT_Error_GetCode_Args, PJRT_Error_Message_Args, PJRT_Event, PJRT_ExecuteOptions,
    PJRT_LoadedExecutable, PJRT_LoadedExecutable_Execute_Args, StaticApi,
};

/// Defines functions of a plugin that always succeed.
macro_rules! fakes {
    ($($name:ident($args:ident: $type:ident) $body:block)*) => {
        $(unsafe extern "C" fn $name(args: *mut $type) -> *mut pjrt_sys::PJRT_Error {
            // SAFETY: V1: the caller passes arguments of this size, which only this call uses.
            let $args = unsafe { &mut *args };
            $body
            std::ptr::null_mut()
        })*
    };
}

/// Calls a function of a table, and checks that the call succeeds. Returns the arguments.
macro_rules! ask {
    ($table:expr, $function:ident, $args:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let mut args = $args::new();
        $(args.$field = $value;)*
        // SAFETY: C2: `new` has set the struct's size, and the fake plugin reads no handle.
        let error = unsafe { $table.$function.unwrap()(&raw mut args) };
        assert!(error.is_null());
        args
    }};
}

unsafe extern "C" fn error_destroy(_: *mut PJRT_Error_Destroy_Args) {}
unsafe extern "C" fn error_message(_: *mut PJRT_Error_Message_Args) {}
unsafe extern "C" fn error_code(_: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    null_mut()
}

/// Creates a plugin with the functions that `set` stores in its table. The error functions of the plugin do nothing.
pub(crate) fn fake(minor: i32, set: impl FnOnce(&mut PJRT_Api)) -> StaticApi {
    let mut table = PJRT_Api::new();
    table.pjrt_api_version.minor_version = minor;
    table.PJRT_Error_Destroy = Some(error_destroy);
    table.PJRT_Error_Message = Some(error_message);
    table.PJRT_Error_GetCode = Some(error_code);
    set(&mut table);
    // SAFETY: C1 to C9: the table lives as long as the process, and its functions keep the contract for the calls of
    // the tests.
    unsafe { StaticApi::new(Box::leak(Box::new(table))) }
}

pub(crate) fn table(api: StaticApi) -> &'static PJRT_Api {
    // SAFETY: C1: the table lives as long as the process, and is allocated with the size of this header.
    unsafe { &*api.as_raw() }
}

/// Uploads an array. `data` must have the size of an array with this type and these dimensions.
pub(crate) fn upload(
    table: &PJRT_Api,
    client: *mut PJRT_Client,
    data: &[u8],
    type_: PJRT_Buffer_Type,
    dims: &[i64],
) -> *mut PJRT_Buffer {
    let args = ask!(
        table,
        PJRT_Client_BufferFromHostBuffer,
        PJRT_Client_BufferFromHostBuffer_Args {
            client: client,
            data: data.as_ptr().cast::<c_void>(),
            type_: type_,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
        }
    );
    args.buffer
}

/// Runs an executable with one output on one device. `done` is null or points to memory for the event of the run.
pub(crate) fn run(
    table: &PJRT_Api,
    executable: *mut PJRT_LoadedExecutable,
    arguments: &[*mut PJRT_Buffer],
    done: *mut *mut PJRT_Event,
) {
    let (mut options, mut outputs) = (PJRT_ExecuteOptions::new(), [null_mut()]);
    let (inputs, places) = ([arguments.as_ptr()], [outputs.as_mut_ptr()]);
    ask!(
        table,
        PJRT_LoadedExecutable_Execute,
        PJRT_LoadedExecutable_Execute_Args {
            executable: executable,
            options: &raw mut options,
            argument_lists: inputs.as_ptr(),
            num_devices: 1,
            num_args: arguments.len(),
            output_lists: places.as_ptr(),
            device_complete_events: done,
        }
    );
}
