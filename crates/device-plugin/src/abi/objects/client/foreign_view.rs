//! Creates buffers in memory that another library allocated.

use plugin_macros::entry;

use crate::abi::lend::foreign_memory::ForeignMemory;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::ffi_read;
use crate::contain::contain_in;
use crate::features::FeatureCalls;
use crate::{Backend, DevicePlugin, Error, Event, Result};

/// The function name in the error that reports a panic.
const FUNCTION: &str = "PJRT_Client_CreateViewOfDeviceBuffer";

#[entry]
unsafe fn PJRT_Client_CreateViewOfDeviceBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_CreateViewOfDeviceBuffer_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.element_type.0, args.dims, args.num_dims) }?;
    // SAFETY: V3 (arrays and text).
    let layout = unsafe { client.array_layout(&shape, args.layout, "layout") }?;
    let shape = layout.stored_shape();
    let device = if args.memory.is_null() { args.device } else { std::ptr::null_mut() };
    let at = client.placement(device, args.memory)?;
    let size = shape.host_size().unwrap_or(0);
    if args.device_buffer_ptr.is_null() && size > 0 {
        return Err(Error::argument("device_buffer_ptr is null"));
    }
    let readable = client.memories[at.memory].info.on_host && shape.element_type.bits() >= 8;
    let memory = (args.device_buffer_ptr, size);
    let (release, user_arg) = (args.on_delete_callback, args.on_delete_callback_arg);
    // SAFETY: V3 (arrays and text) and V4 (callbacks).
    let foreign = unsafe { ForeignMemory::new(memory, args.stream, readable, release, user_arg) };
    let kept = foreign.clone();
    let made = || {
        let buffer = client.backend.create_view_of_device_buffer(foreign, &shape, at)?;
        let ready = client.backend.ready(&buffer);
        Ok((buffer, ready))
    };
    args.buffer = match contain_in(FUNCTION, made) {
        Ok((buffer, ready)) => BufferHandle::give(client.share(), Value::Now(buffer), &layout, at, ready),
        // After a failed call, the framework may free the memory. If the backend still holds the memory, the call
        // must therefore succeed, with a failed buffer.
        Err(error) if kept.give_up() => return Err(error),
        Err(error) => BufferHandle::give(client.share(), Value::Gone, &layout, at, Event::failed(error)),
    };
    Ok(())
}
