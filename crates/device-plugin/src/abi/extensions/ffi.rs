//! The FFI extension: custom calls that frameworks register, and user data for them.

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base, PJRT_FFI_Extension, extension_slot};

use crate::abi::extensions::raw_buffers;
use crate::abi::table::entry::{Shim, entries, entry};
use crate::abi::table::ffi_read;
use crate::ffi::{ForeignHandler, Handler, Registry, UserData};
use crate::{Backend, DevicePlugin, Error};

/// Where the extension lies, or the next one where the backend does not offer it.
pub(crate) const fn pointer<P: DevicePlugin>() -> *mut PJRT_Extension_Base {
    struct Constant<P>(std::marker::PhantomData<P>);
    impl<P: DevicePlugin> Constant<P> {
        const EXTENSION: &'static PJRT_FFI_Extension = &PJRT_FFI_Extension {
            base: PJRT_Extension_Base {
                struct_size: PJRT_FFI_Extension::STRUCT_SIZE,
                type_: PJRT_FFI_Extension::TYPE,
                next: raw_buffers::pointer::<P>(),
            },
            type_register: Some(entry::<Shim<P>, extension_slot::PJRT_FFI_Type_Register>),
            user_data_add: Some(entry::<Shim<P>, extension_slot::PJRT_FFI_UserData_Add>),
            register_handler: Some(entry::<Shim<P>, extension_slot::PJRT_FFI_Register_Handler>),
        };
    }
    if !P::Backend::EXTENSIONS.ffi {
        return raw_buffers::pointer::<P>();
    }
    let pointer: *const PJRT_FFI_Extension = Constant::<P>::EXTENSION;
    pointer.cast_mut().cast()
}

entries! {
    in extension_slot;

    PJRT_FFI_Type_Register(args) {
        // SAFETY: V3.
        let name = unsafe { ffi_read::text(args.type_name, args.type_name_size, "type_name") }?;
        // The functions of `type_info` are for data that the plugin would own; user data stays the framework's.
        let id = Some(args.type_id).filter(|id| *id != 0);
        args.type_id = Registry::of::<P::Backend>().register_type(name, id).map_err(Error::unnamed)?;
        Ok(())
    }

    PJRT_FFI_UserData_Add(args, context) {
        let data = UserData { type_id: args.user_data.type_id, address: args.user_data.data.expose_provenance() };
        context.add(data).map_err(Error::unnamed)
    }

    PJRT_FFI_Register_Handler(args) {
        // SAFETY: V3.
        let target = unsafe { ffi_read::text(args.target_name, args.target_name_size, "target_name") }?;
        // SAFETY: V3.
        let platform = unsafe { ffi_read::text(args.platform_name, args.platform_name_size, "platform_name") }?;
        if args.handler.is_null() {
            return Err(Error::argument(format!("handler of {target:?} is null")));
        }
        let handler = Handler::Foreign(ForeignHandler::new(args.handler.expose_provenance(), args.traits.0));
        Registry::of::<P::Backend>().register(target, platform, handler).map_err(Error::unnamed)
    }
}
