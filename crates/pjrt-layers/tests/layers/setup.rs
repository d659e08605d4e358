//! Plugins for these tests: the embedded device, and tables with functions of a test.

use std::ptr::null_mut;

use device_plugin::raw;
use pjrt_cpu::Cpu;
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Error, PJRT_Error_Destroy_Args, PJRT_Error_GetCode_Args, PJRT_Error_Message_Args,
    StaticApi,
};

pub(crate) fn embedded() -> StaticApi {
    // SAFETY: `device-plugin` keeps C1 to C9 for its tables.
    unsafe { StaticApi::new(raw::api::<Cpu>()) }
}

pub(crate) fn table(api: StaticApi) -> &'static PJRT_Api {
    // SAFETY: C1: the table lives as long as the process, and is allocated with the size of this header.
    unsafe { &*api.as_raw() }
}

unsafe extern "C" fn error_destroy(_: *mut PJRT_Error_Destroy_Args) {}
unsafe extern "C" fn error_message(_: *mut PJRT_Error_Message_Args) {}
unsafe extern "C" fn error_code(_: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    null_mut()
}

/// A plugin without errors, with the functions that a test sets.
pub(crate) fn fake(minor: i32, set: impl FnOnce(&mut PJRT_Api)) -> StaticApi {
    let mut table = PJRT_Api::new();
    table.pjrt_api_version.minor_version = minor;
    table.PJRT_Error_Destroy = Some(error_destroy);
    table.PJRT_Error_Message = Some(error_message);
    table.PJRT_Error_GetCode = Some(error_code);
    set(&mut table);
    // SAFETY: C1 to C9: the table lives as long as the process, and its functions keep the contract for the calls of the
    // tests.
    unsafe { StaticApi::new(Box::leak(Box::new(table))) }
}
