//! The callback extension: frameworks register functions that the backend calls when the device fails.

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

use pjrt_sys::{
    AbiStruct, PJRT_Callback_PrefatalArgs, PJRT_Callback_Tpu_SliceBuilderArgs, PJRT_Callback_Tpu_SliceFailureType,
    PJRT_Callback_Type, PJRT_Error_Code,
};
use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::client::handle::Client;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::ffi_read;
use crate::features::{Failure, FailureCallbacks};
use crate::{Backend, DevicePlugin, Error, ErrorCode, Result};

extension! {
    /// The callback extension. A plugin offers it if the backend implements the feature `FailureReports`.
    Callbacks = PJRT_Callback_Extension if P::Backend::FEATURES.failure_reports.is_some();
    register_callback: PJRT_Register_Callback,
    invoke_callback: PJRT_Callback_InvokeCallback,
}

fn callbacks<B: Backend>(backend: &B) -> Result<&FailureCallbacks> {
    let feature = B::FEATURES.failure_reports;
    let feature = feature.ok_or_else(|| Error::unimplemented("the backend does not report failures"))?;
    Ok((feature.failure_callbacks)(backend))
}

const SLICE: PJRT_Callback_Type = PJRT_Callback_Type::PJRT_Callback_Type_Tpu_SliceBuilder;
const FATAL: PJRT_Callback_Type = PJRT_Callback_Type::PJRT_Callback_Type_Prefatal;

fn unknown(ty: PJRT_Callback_Type) -> Error {
    Error::unimplemented(format!("unknown PJRT_Callback_Type {}; this plugin knows 1 and 2", ty.0))
}

#[entry(extension)]
unsafe fn PJRT_Register_Callback<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Callback_RegisterCallback_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let list = callbacks(&client.backend)?;
    let ty = args.type_;
    if ty != SLICE && ty != FATAL {
        return Err(unknown(ty).unnamed());
    }
    let function = args.callback.ok_or_else(|| Error::argument("callback is null"))?;
    let user_arg = args.user_arg.expose_provenance();
    list.add(Arc::new(move |failure| {
        let user_arg: *mut c_void = with_exposed_provenance_mut(user_arg);
        match *failure {
            Failure::Slice(kind) if ty == SLICE => {
                let mut args = PJRT_Callback_Tpu_SliceBuilderArgs::new();
                args.failure_type = PJRT_Callback_Tpu_SliceFailureType(kind);
                // SAFETY: V4 (callbacks): the framework registered the function for these arguments.
                unsafe { function((&raw mut args).cast(), user_arg) };
            }
            Failure::Fatal { code, message } if ty == FATAL => {
                let mut args = PJRT_Callback_PrefatalArgs::new();
                args.error_code = PJRT_Error_Code(code.as_raw());
                args.error_message = message.as_ptr().cast();
                args.error_message_size = message.len();
                // SAFETY: V4 (callbacks): the framework registered the function for these arguments.
                unsafe { function((&raw mut args).cast(), user_arg) };
            }
            _ => {}
        }
    }));
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Callback_InvokeCallback<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Callback_InvokeCallback_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let list = callbacks(&client.backend)?;
    match args.type_ {
        SLICE => {
            let given = args.args.cast_const().cast::<PJRT_Callback_Tpu_SliceBuilderArgs>();
            // SAFETY: V1 (argument structs).
            let given = unsafe { ffi_read::nested(given, "args->args") }?;
            list.report(&Failure::Slice(given.failure_type.0));
        }
        FATAL => {
            let given = args.args.cast_const().cast::<PJRT_Callback_PrefatalArgs>();
            // SAFETY: V1 (argument structs).
            let given = unsafe { ffi_read::nested(given, "args->args") }?;
            // SAFETY: V3 (arrays and text).
            let message = unsafe { ffi_read::text(given.error_message, given.error_message_size, "error_message") }?;
            list.report(&Failure::Fatal { code: ErrorCode::from_raw(given.error_code.0), message });
        }
        ty => return Err(unknown(ty).unnamed()),
    }
    Ok(())
}
