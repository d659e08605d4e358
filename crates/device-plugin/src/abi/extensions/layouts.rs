//! The layouts extension: reports the memory layouts of buffers, parameters and outputs, and default layouts.

use crate::abi::extensions::link::extension;
use crate::abi::objects::memory_layout::MemoryLayout;
use crate::abi::objects::owned_arrays::{Blob, delete_blob};
use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read;
use crate::array_layout::ArrayLayout;

extension! {
    /// The layouts extension. Plugins of this SDK always offer it.
    Layouts = PJRT_Layouts_Extension if true;
    PJRT_Layouts_MemoryLayout_Destroy: PJRT_Layouts_MemoryLayout_Destroy,
    PJRT_Layouts_MemoryLayout_Serialize: PJRT_Layouts_MemoryLayout_Serialize,
    PJRT_Layouts_PJRT_Client_GetDefaultLayout: PJRT_Layouts_PJRT_Client_GetDefaultLayout,
    PJRT_Layouts_PJRT_Buffer_MemoryLayout: PJRT_Layouts_PJRT_Buffer_MemoryLayout,
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout: PJRT_Layouts_PJRT_Topology_GetDefaultLayout,
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts: PJRT_Layouts_PJRT_Executable_GetOutputLayouts,
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts: PJRT_Layouts_PJRT_Executable_GetParameterLayouts,
}

entries! {
    in extension_slot;

    #[destroys]
    PJRT_Layouts_MemoryLayout_Destroy(args) {
        // SAFETY: V2 (handles) and V5 (opaque types).
        let layout = unsafe { args.layout.cast::<MemoryLayout>().as_ref() };
        if layout.is_some_and(|layout| layout.owned) {
            // SAFETY: V2 (handles): `MemoryLayout::owned` boxed the layout, and the framework no longer uses it.
            drop(unsafe { Box::from_raw(args.layout.cast::<MemoryLayout>()) });
        }
        Ok(())
    }

    PJRT_Layouts_MemoryLayout_Serialize(args, layout) {
        let blob = Blob::new(layout.text.clone().into_bytes());
        args.serialized_bytes = blob.bytes;
        args.serialized_bytes_size = blob.size;
        args.serialized_layout = blob.owner.cast();
        args.serialized_layout_deleter = Some(delete_blob);
        Ok(())
    }

    PJRT_Layouts_PJRT_Client_GetDefaultLayout(args, client) {
        // SAFETY: V3 (arrays and text).
        let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
        args.layout = MemoryLayout::owned(&ArrayLayout::new::<P::Backend>(&client.topology.info, &shape)?);
        Ok(())
    }

    PJRT_Layouts_PJRT_Topology_GetDefaultLayout(args, topology_description) {
        // SAFETY: V3 (arrays and text).
        let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
        args.layout = MemoryLayout::owned(&ArrayLayout::new::<P::Backend>(&topology_description.info, &shape)?);
        Ok(())
    }

    PJRT_Layouts_PJRT_Buffer_MemoryLayout(args, buffer) {
        args.layout = MemoryLayout::owned(&buffer.form);
        Ok(())
    }

    PJRT_Layouts_PJRT_Executable_GetOutputLayouts(args, executable) {
        (args.layouts, args.num_outputs) = executable.output_layouts.raw();
        Ok(())
    }

    PJRT_Layouts_PJRT_Executable_GetParameterLayouts(args, executable) {
        (args.layouts, args.num_parameters) = executable.parameter_layouts.raw();
        Ok(())
    }
}
