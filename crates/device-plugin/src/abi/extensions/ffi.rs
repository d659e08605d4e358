//! The FFI extension: frameworks register handlers of custom calls, and pass user data to the handlers.

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::table::ffi_read;
use crate::ffi::{ExecuteContext, ForeignHandler, Handler, Registry, UserData};
use crate::{Backend, DevicePlugin, Error, Result};

extension! {
    /// The FFI extension. A plugin offers it if the backend lists the feature `ffi`.
    Ffi = PJRT_FFI_Extension if P::Backend::FEATURES.ffi;
    type_register: PJRT_FFI_Type_Register,
    user_data_add: PJRT_FFI_UserData_Add,
    register_handler: PJRT_FFI_Register_Handler,
}

#[entry(extension)]
unsafe fn PJRT_FFI_Type_Register<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_FFI_Type_Register_Args) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let name = unsafe { ffi_read::text(args.type_name, args.type_name_size, "type_name") }?;
    // Ignore the functions in `type_info`. They manage data that the plugin owns, but user data belongs to the
    // framework.
    let id = Some(args.type_id).filter(|id| *id != 0);
    args.type_id = Registry::of::<P::Backend>().register_type(name, id).map_err(Error::unnamed)?;
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_FFI_UserData_Add<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_FFI_UserData_Add_Args,
    context: &ExecuteContext,
) -> Result<()> {
    let data = UserData { type_id: args.user_data.type_id, address: args.user_data.data.expose_provenance() };
    context.add(data).map_err(Error::unnamed)
}

#[entry(extension)]
unsafe fn PJRT_FFI_Register_Handler<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_FFI_Register_Handler_Args,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let target = unsafe { ffi_read::text(args.target_name, args.target_name_size, "target_name") }?;
    // SAFETY: V3 (arrays and text).
    let platform = unsafe { ffi_read::text(args.platform_name, args.platform_name_size, "platform_name") }?;
    if args.handler.is_null() {
        return Err(Error::argument(format!("handler of {target:?} is null")));
    }
    let handler = Handler::Foreign(ForeignHandler::new(args.handler.expose_provenance(), args.traits.0));
    Registry::of::<P::Backend>().register(target, platform, handler).map_err(Error::unnamed)
}
