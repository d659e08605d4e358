//! The functions of `PJRT_Buffer`, except transfers.

use std::ffi::c_void;
use std::ptr::NonNull;

use pjrt_sys::{
    AbiStruct, PJRT_Buffer_MemoryLayout, PJRT_Buffer_MemoryLayout__bindgen_ty_1, PJRT_Buffer_MemoryLayout_Tiled,
    PJRT_Buffer_MemoryLayout_Type, PJRT_Buffer_Type,
};
use plugin_macros::entry;

use crate::abi::objects::client::dynamic_dims;
use crate::abi::objects::client::handle::BufferHandle;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::handles::handles;
use crate::features::FeatureCalls;
use crate::{Backend, DevicePlugin, Error, Event, Result};

handles! {
    PJRT_Buffer => BufferHandle<P::Backend>;
}

/// The minor-to-major order of a row-major array of rank `MAX_RANK`. The last `n` elements are the order of an array of
/// rank `n`.
static MINOR_TO_MAJOR: [i64; MAX_RANK] = {
    let mut order = [0; MAX_RANK];
    let mut i = 0;
    while i < MAX_RANK {
        order[i] = (MAX_RANK - 1 - i) as i64;
        i += 1;
    }
    order
};
const MAX_RANK: usize = 64;

/// Waits until the buffer is ready and returns the address of its memory.
fn address<B: Backend>(buffer: &BufferHandle<B>) -> Result<usize> {
    let held = buffer.hold()?;
    // The framework may use the address as soon as this call returns, so wait until the data is written.
    buffer.ready.wait()?;
    let (backend, value) = (&buffer.client.backend, held.value().available()?);
    let memory = &buffer.client.memories[buffer.placement.memory].info;
    if memory.on_host {
        // The framework reads this memory through the raw pointer. Check the length here, or a bug in a safe `Backend`
        // becomes an out-of-bounds read.
        let (shape, bytes) = (buffer.stored_shape(), backend.host_bytes(value));
        if let Some(short) = bytes.map(<[u8]>::len).filter(|size| Some(*size) < shape.host_size()) {
            let kind = &memory.kind;
            return Err(Error::internal(format!(
                "BufferAddresses::host_bytes returned {short} bytes for {shape} in memory of kind {kind:?}, which is \
                 on_host"
            )));
        }
    }
    backend.device_pointer(value).ok_or_else(|| {
        Error::unimplemented(match memory.on_host {
            true => {
                "the memory is on_host, but the backend does not list Features::buffer_addresses, or both host_bytes \
                 and device_pointer returned None"
            }
            false => "the device does not report the addresses of buffers",
        })
        .unnamed()
    })
}

#[entry(hot, destroys)]
unsafe fn PJRT_Buffer_Destroy<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Buffer_Destroy_Args) -> Result<()> {
    if let Some(buffer) = NonNull::new(args.buffer.cast::<BufferHandle<P::Backend>>()) {
        // SAFETY: V2 (handles).
        unsafe { BufferHandle::destroy(buffer) };
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_ElementType<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_ElementType_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.type_ = PJRT_Buffer_Type(buffer.layout.element_type.as_raw());
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_Dimensions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_Dimensions_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.dims = buffer.layout.dims().as_ptr();
    args.num_dims = buffer.layout.dims().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_UnpaddedDimensions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_UnpaddedDimensions_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    // The pointer stays valid, because the client keeps the extents until the buffer is destroyed.
    let extents = dynamic_dims::of(buffer)?;
    let dims = extents.as_ref().map_or(buffer.layout.dims(), |extents| &extents.unpadded);
    (args.unpadded_dims, args.num_dims) = (dims.as_ptr(), dims.len());
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_DynamicDimensionIndices<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_DynamicDimensionIndices_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let extents = dynamic_dims::of(buffer)?;
    let dynamic = extents.as_ref().map_or(&[][..], |extents| &extents.dynamic);
    // A framework may copy zero elements from this pointer, which is undefined behavior for a null pointer.
    // Therefore pass a dangling pointer if no dimension is dynamic.
    (args.dynamic_dim_indices, args.num_dynamic_dims) = (dynamic.as_ptr().cast_mut(), dynamic.len());
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_GetMemoryLayout<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_GetMemoryLayout_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
    let order = match buffer.layout.stored() {
        Some(stored) => {
            tiled.tile_dims = stored.tile_dims.as_ptr();
            tiled.tile_dim_sizes = stored.tile_ranks.as_ptr();
            tiled.num_tiles = stored.tile_ranks.len();
            stored.layout.minor_to_major.as_slice()
        }
        None => {
            let rank = buffer.layout.dims().len();
            let start = MAX_RANK.checked_sub(rank).ok_or_else(|| {
                Error::unimplemented(format!("the layout of an array of {rank} dimensions")).unnamed()
            })?;
            &MINOR_TO_MAJOR[start..]
        }
    };
    tiled.minor_to_major = order.as_ptr();
    tiled.minor_to_major_size = order.len();
    let mut layout = PJRT_Buffer_MemoryLayout::new();
    layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.__bindgen_anon_1 = PJRT_Buffer_MemoryLayout__bindgen_ty_1 { tiled };
    args.layout = layout;
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_OnDeviceSizeInBytes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_OnDeviceSizeInBytes_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let held = buffer.hold()?;
    let size = held.value().get().and_then(|value| buffer.client.backend.on_device_size(value));
    args.on_device_size_in_bytes = size.or_else(|| buffer.stored_shape().host_size()).unwrap_or(0);
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_Device<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_Device_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.device = buffer.client.device_handles.as_slice()[buffer.placement.device];
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_Memory<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_Memory_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.memory = buffer.client.memory_handles.as_slice()[buffer.placement.memory];
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_IsOnCpu<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_IsOnCpu_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.is_on_cpu = buffer.client.memories[buffer.placement.memory].info.on_host.into();
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_Delete<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_Delete_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    buffer.delete(None);
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_IsDeleted<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_IsDeleted_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.is_deleted = buffer.is_deleted().into();
    Ok(())
}

#[entry(hot)]
unsafe fn PJRT_Buffer_ReadyEvent<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_ReadyEvent_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.event = into_raw(if buffer.is_deleted() {
        Event::failed(Error::invalid_argument("the buffer was deleted or donated to an execution"))
    } else {
        buffer.ready.clone()
    });
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_UnsafePointer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_UnsafePointer_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.buffer_pointer = address(buffer)?;
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_OpaqueDeviceMemoryDataPointer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    args.device_memory_ptr = std::ptr::with_exposed_provenance_mut::<c_void>(address(buffer)?);
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_IncreaseExternalReferenceCount<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_IncreaseExternalReferenceCount_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    buffer.add_external()
}

#[entry]
unsafe fn PJRT_Buffer_DecreaseExternalReferenceCount<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_DecreaseExternalReferenceCount_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    buffer.remove_external()
}
