//! Custom calls: functions of the caller that programs call.

use std::ffi::c_void;
use std::ptr::NonNull;

use pjrt::ExecuteContext;
use pjrt::extensions::{Ffi, HandlerTraits};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory::Name;
use crate::client::dp_client;
use crate::extensions::info::extension;
use crate::program::dp_execute_options;

/// Registers the handler of a custom call for the whole process. `handler` is an `XLA_FFI_Handler *` for the version of
/// XLA's FFI that the plugin uses, and stays callable from any thread until the process ends. `platform` is the
/// client's platform name, or `Host` for XLA's CPU plugins. `traits` are those of `PJRT_FFI_Handler_TraitsBits`.
#[c_function]
pub fn dp_client_register_ffi_handler(
    client: &dp_client,
    target: Name<'_>,
    platform: Name<'_>,
    handler: *mut c_void,
    traits: u32,
) -> Outcome<()> {
    let ffi = extension::<Ffi>(&client.inner.plugin(), "FFI")?;
    let handler =
        NonNull::new(handler).ok_or_else(|| Failure::argument("`handler` is NULL; pass an XLA_FFI_Handler"))?;
    // SAFETY: K5 (functions of the caller): the handler is valid until the process ends.
    Ok(unsafe { ffi.register_handler(target, platform, handler, HandlerTraits(traits)) }?)
}

/// Registers a type of user data for the whole process, and returns its id. `id` is the wanted id, or 0 if the plugin
/// shall choose one.
#[c_function]
pub fn dp_client_register_ffi_type(client: &dp_client, name: Name<'_>, id: i64) -> Outcome<i64> {
    let ffi = extension::<Ffi>(&client.inner.plugin(), "FFI")?;
    Ok(ffi.register_type(name, (id != 0).then_some(id))?)
}

/// Data for the custom calls of runs.
pub struct dp_execute_context {
    inner: ExecuteContext,
    ffi: Ffi,
}

/// Creates a context without data.
#[c_function]
pub fn dp_client_create_execute_context(client: &dp_client) -> Outcome<Owned<dp_execute_context>> {
    let plugin = client.inner.plugin();
    let ffi = extension::<Ffi>(&plugin, "FFI")?;
    Ok(Owned(dp_execute_context { inner: ExecuteContext::new(&plugin)?, ffi }))
}

/// Adds a pointer to data of a registered type. The data belongs to the caller, and must stay valid until the context
/// is released and the runs that use it have ended.
#[c_function]
pub fn dp_execute_context_add_user_data(
    context: &mut dp_execute_context,
    type_id: i64,
    data: *mut c_void,
) -> Outcome<()> {
    let data = NonNull::new(data).ok_or_else(|| Failure::argument("`data` is NULL; it must point to user data"))?;
    // SAFETY: K5 (user data is valid as long as the context and its runs).
    Ok(unsafe { context.ffi.add_user_data(&context.inner, type_id, data) }?)
}

/// Sets the data for the custom calls of a run.
#[c_function]
pub fn dp_execute_options_set_context(options: &mut dp_execute_options, context: &dp_execute_context) -> Outcome<()> {
    options.inner.context = Some(context.inner.clone());
    Ok(())
}
