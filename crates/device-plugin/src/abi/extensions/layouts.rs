//! The layouts extension: the order in which arrays are stored.

use pjrt_sys::{
    AbiStruct, Extension, PJRT_Extension_Base, PJRT_Layouts_Extension, PJRT_Layouts_MemoryLayout, extension_slot,
};

use crate::DevicePlugin;
use crate::abi::extensions::profiler;
use crate::abi::objects::array_layout::Form;
use crate::abi::objects::owned_arrays::{Blob, Pointers, delete_blob};
use crate::abi::table::entry::{Shim, entries, entry};
use crate::abi::table::ffi_read;
use crate::abi::table::ffi_read::handles;

/// What a `PJRT_Layouts_MemoryLayout*` points to.
pub(crate) struct MemoryLayout {
    text: String,
    /// Whether the framework is to destroy it; those of an executable go with the executable.
    owned: bool,
}

/// The layouts of an executable's parameters or outputs.
pub(crate) struct LayoutList {
    /// Backs the handles.
    _layouts: Vec<MemoryLayout>,
    handles: Pointers<PJRT_Layouts_MemoryLayout>,
}

handles! {
    PJRT_Layouts_MemoryLayout => MemoryLayout;
}

impl MemoryLayout {
    fn owned(form: &Form) -> *mut PJRT_Layouts_MemoryLayout {
        Box::into_raw(Box::new(Self { text: form.layout_text(), owned: true })).cast()
    }
}

impl LayoutList {
    pub(crate) fn new(forms: &[Form]) -> Self {
        let layouts: Vec<_> =
            forms.iter().map(|form| MemoryLayout { text: form.layout_text(), owned: false }).collect();
        Self { handles: Pointers::of(&layouts), _layouts: layouts }
    }

    fn raw(&self) -> (*mut *mut PJRT_Layouts_MemoryLayout, usize) {
        let handles = self.handles.as_slice();
        (handles.as_ptr().cast_mut(), handles.len())
    }
}

/// Where the extension lies: first of the chain.
pub(crate) const fn pointer<P: DevicePlugin>() -> *mut PJRT_Extension_Base {
    struct Constant<P>(std::marker::PhantomData<P>);
    impl<P: DevicePlugin> Constant<P> {
        const EXTENSION: &'static PJRT_Layouts_Extension = &PJRT_Layouts_Extension {
            base: PJRT_Extension_Base {
                struct_size: PJRT_Layouts_Extension::STRUCT_SIZE,
                type_: PJRT_Layouts_Extension::TYPE,
                next: profiler::pointer::<P>(),
            },
            PJRT_Layouts_MemoryLayout_Destroy: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_MemoryLayout_Destroy>,
            ),
            PJRT_Layouts_MemoryLayout_Serialize: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_MemoryLayout_Serialize>,
            ),
            PJRT_Layouts_PJRT_Client_GetDefaultLayout: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_PJRT_Client_GetDefaultLayout>,
            ),
            PJRT_Layouts_PJRT_Buffer_MemoryLayout: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_PJRT_Buffer_MemoryLayout>,
            ),
            PJRT_Layouts_PJRT_Topology_GetDefaultLayout: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_PJRT_Topology_GetDefaultLayout>,
            ),
            PJRT_Layouts_PJRT_Executable_GetOutputLayouts: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>,
            ),
            PJRT_Layouts_PJRT_Executable_GetParameterLayouts: Some(
                entry::<Shim<P>, extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>,
            ),
        };
    }
    let pointer: *const PJRT_Layouts_Extension = Constant::<P>::EXTENSION;
    pointer.cast_mut().cast()
}

entries! {
    in extension_slot;

    PJRT_Layouts_MemoryLayout_Destroy(args) {
        // SAFETY: V2 and V5.
        let layout = unsafe { args.layout.cast::<MemoryLayout>().as_ref() };
        if layout.is_some_and(|layout| layout.owned) {
            // SAFETY: V2, made by `MemoryLayout::owned` and given up.
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
        // SAFETY: V3.
        let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
        args.layout = MemoryLayout::owned(&Form::new::<P::Backend>(&client.topology.info, &shape)?);
        Ok(())
    }

    PJRT_Layouts_PJRT_Topology_GetDefaultLayout(args, topology_description) {
        // SAFETY: V3.
        let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
        args.layout = MemoryLayout::owned(&Form::new::<P::Backend>(&topology_description.info, &shape)?);
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
