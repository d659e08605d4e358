//! The shardings extension: how the arguments and outputs of a program are spread over devices.

use std::ptr::null;

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base, PJRT_Shardings_Extension, extension_slot};

use crate::DevicePlugin;
use crate::abi::extensions::memory_descriptions;
use crate::abi::table::entry::{Shim, entries, entry};

/// Where the extension lies: after those that a backend may offer.
pub(crate) const fn pointer<P: DevicePlugin>() -> *mut PJRT_Extension_Base {
    struct Constant<P>(std::marker::PhantomData<P>);
    impl<P: DevicePlugin> Constant<P> {
        const EXTENSION: &'static PJRT_Shardings_Extension = &PJRT_Shardings_Extension {
            base: PJRT_Extension_Base {
                struct_size: PJRT_Shardings_Extension::STRUCT_SIZE,
                type_: PJRT_Shardings_Extension::TYPE,
                next: memory_descriptions::pointer::<P>(),
            },
            PJRT_Shardings_PJRT_Executable_ParameterShardings: Some(
                entry::<Shim<P>, extension_slot::PJRT_Shardings_PJRT_Executable_ParameterShardings>,
            ),
            PJRT_Shardings_PJRT_Executable_OutputShardings: Some(
                entry::<Shim<P>, extension_slot::PJRT_Shardings_PJRT_Executable_OutputShardings>,
            ),
        };
    }
    let pointer: *const PJRT_Shardings_Extension = Constant::<P>::EXTENSION;
    pointer.cast_mut().cast()
}

entries! {
    in extension_slot;

    PJRT_Shardings_PJRT_Executable_ParameterShardings(args, executable) {
        // Nulls say that there are none.
        (args.num_parameters, args.shardings, args.sharding_sizes) = match &executable.parameter_shardings {
            Some(texts) => (texts.len(), texts.pointers(), texts.sizes()),
            None => (0, null(), null()),
        };
        Ok(())
    }

    PJRT_Shardings_PJRT_Executable_OutputShardings(args, executable) {
        (args.num_outputs, args.shardings, args.sharding_sizes) = match &executable.output_shardings {
            Some(texts) => (texts.len(), texts.pointers(), texts.sizes()),
            None => (0, null(), null()),
        };
        Ok(())
    }
}
