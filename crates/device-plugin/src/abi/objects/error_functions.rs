//! The functions of `PJRT_Error`.

use pjrt_sys::PJRT_Error_Code;
use plugin_macros::entry;

use crate::abi::table::error_handle::{ErrorHandle, destroy, for_each_payload};
use crate::abi::table::handles::handles;
use crate::{DevicePlugin, Error, Result};

handles! {
    PJRT_Error => ErrorHandle;
}

#[entry(destroys)]
unsafe fn PJRT_Error_Destroy<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Error_Destroy_Args) -> Result<()> {
    // SAFETY: V2 (handles).
    unsafe { destroy(args.error) };
    Ok(())
}

#[entry]
unsafe fn PJRT_Error_Message<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Error_Message_Args,
    error: &ErrorHandle,
) -> Result<()> {
    args.message = error.error.message().as_ptr().cast();
    args.message_size = error.error.message().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Error_GetCode<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Error_GetCode_Args,
    error: &ErrorHandle,
) -> Result<()> {
    args.code = PJRT_Error_Code(error.error.code().as_raw());
    Ok(())
}

#[entry]
unsafe fn PJRT_Error_ForEachPayload<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Error_ForEachPayload_Args,
    error: &ErrorHandle,
) -> Result<()> {
    if args.visitor.is_none() {
        return Err(Error::argument("visitor is null"));
    }
    // SAFETY: V2 (handles) for the error, V4 (callbacks) for the visitor.
    unsafe { for_each_payload((&raw const *error).cast(), args.visitor, args.user_arg) };
    Ok(())
}
