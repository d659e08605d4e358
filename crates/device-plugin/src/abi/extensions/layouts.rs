//! The layouts extension: reports the memory layouts of buffers, parameters and outputs, and default layouts.

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::executable::handles::Executable;
use crate::abi::objects::memory_layout::MemoryLayout;
use crate::abi::objects::owned_arrays::{Blob, delete_blob};
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::array_layout::ArrayLayout;
use crate::{DevicePlugin, Result};

handles! {
    PJRT_Layouts_MemoryLayout => MemoryLayout;
}

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

#[entry(extension, destroys)]
unsafe fn PJRT_Layouts_MemoryLayout_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_MemoryLayout_Destroy_Args,
) -> Result<()> {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let layout = unsafe { args.layout.cast::<MemoryLayout>().as_ref() };
    if layout.is_some_and(|layout| layout.owned) {
        // SAFETY: V2 (handles): `MemoryLayout::owned` boxed the layout, and the framework no longer uses it.
        drop(unsafe { Box::from_raw(args.layout.cast::<MemoryLayout>()) });
    }
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Layouts_MemoryLayout_Serialize<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_MemoryLayout_Serialize_Args,
    layout: &MemoryLayout,
) -> Result<()> {
    let blob = Blob::new(layout.text.clone().into_bytes());
    args.serialized_bytes = blob.bytes;
    args.serialized_bytes_size = blob.size;
    args.serialized_layout = blob.owner.cast();
    args.serialized_layout_deleter = Some(delete_blob);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Layouts_PJRT_Client_GetDefaultLayout<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
    args.layout = MemoryLayout::owned(&ArrayLayout::new::<P::Backend>(&client.topology.info, &shape)?);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Layouts_PJRT_Topology_GetDefaultLayout<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args,
    topology_description: &Topology,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
    args.layout = MemoryLayout::owned(&ArrayLayout::new::<P::Backend>(&topology_description.info, &shape)?);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Layouts_PJRT_Buffer_MemoryLayout<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.layout = MemoryLayout::owned(&buffer.layout);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Layouts_PJRT_Executable_GetOutputLayouts<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    (args.layouts, args.num_outputs) = executable.output_layout_list.raw();
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Layouts_PJRT_Executable_GetParameterLayouts<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    (args.layouts, args.num_parameters) = executable.parameter_layout_list.raw();
    Ok(())
}
