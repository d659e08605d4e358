//! The memory descriptions extension: the memories of devices that need not be present.

use std::ptr::null_mut;

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base, PJRT_MemoryDescriptions_Extension, extension_slot};

use crate::DevicePlugin;
use crate::abi::table::entry::{Shim, entries, entry};

/// Where the extension lies: last of the chain.
pub(crate) const fn pointer<P: DevicePlugin>() -> *mut PJRT_Extension_Base {
    struct Constant<P>(std::marker::PhantomData<P>);
    impl<P: DevicePlugin> Constant<P> {
        const EXTENSION: &'static PJRT_MemoryDescriptions_Extension = &PJRT_MemoryDescriptions_Extension {
            base: PJRT_Extension_Base {
                struct_size: PJRT_MemoryDescriptions_Extension::STRUCT_SIZE,
                type_: PJRT_MemoryDescriptions_Extension::TYPE,
                next: null_mut(),
            },
            PJRT_DeviceDescription_MemoryDescriptions: Some(
                entry::<Shim<P>, extension_slot::PJRT_DeviceDescription_MemoryDescriptions>,
            ),
            PJRT_MemoryDescription_Kind: Some(entry::<Shim<P>, extension_slot::PJRT_MemoryDescription_Kind>),
        };
    }
    let pointer: *const PJRT_MemoryDescriptions_Extension = Constant::<P>::EXTENSION;
    pointer.cast_mut().cast()
}

entries! {
    in extension_slot;

    PJRT_DeviceDescription_MemoryDescriptions(args, device_description) {
        let memories = device_description.memory_handles.as_slice();
        args.memory_descriptions = memories.as_ptr().cast();
        args.num_memory_descriptions = memories.len();
        // The first memory is the default one; -1 says that there is none.
        args.default_memory_index = if memories.is_empty() { usize::MAX } else { 0 };
        Ok(())
    }

    PJRT_MemoryDescription_Kind(args, memory_description) {
        args.kind = memory_description.kind.as_ptr().cast();
        args.kind_size = memory_description.kind.len();
        args.kind_id = memory_description.kind_id;
        Ok(())
    }
}
