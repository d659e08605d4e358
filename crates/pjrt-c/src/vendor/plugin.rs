//! The functions by which a vendor's library becomes a plugin.

use pjrt_c_macros::c_function;
use pjrt_sys::PJRT_Api;
use plugin_manifest::c_view::descriptor::dp_descriptor;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::memory::Struct;
use crate::vendor::adapter::{CPlugin, Vendor};
use crate::vendor::backend::dp_backend;

/// Returns the function table of the plugin that the functions of `backend` make. The function `GetPjrtApi` of the
/// vendor's library returns it. The table is valid until the process ends.
///
/// One library contains one backend. `backend` must be valid until the process ends.
#[c_function]
pub fn dp_backend_api(backend: *const dp_backend) -> Outcome<*const PJRT_Api> {
    set(backend)?;
    Ok(device_plugin::__private::api::<CPlugin>().as_raw())
}

/// Returns the description of the plugin that the functions of `backend` make. The function
/// `DevicePlugin_GetDescriptor` of the vendor's library returns it. The description is valid until the process ends.
#[c_function]
pub fn dp_backend_descriptor(backend: *const dp_backend) -> Outcome<*const dp_descriptor> {
    set(backend)?;
    Ok(device_plugin::__private::c_descriptor::<CPlugin>())
}

fn set(backend: *const dp_backend) -> Outcome<&'static Vendor> {
    // SAFETY: K4 (structs have the size they declare).
    let Struct(copied) = unsafe { crate::border::memory::structure(backend, "backend") }?;
    // SAFETY: K5 (functions of the caller).
    let vendor = unsafe { Vendor::set(copied, backend.addr()) };
    vendor.map_err(|error| Failure::new(error.code(), error.message()))
}
