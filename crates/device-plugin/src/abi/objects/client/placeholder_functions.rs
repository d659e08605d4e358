//! The functions that create buffers without data: uninitialized buffers, failed buffers, and buffers that receive the
//! data of another buffer later.

use pjrt_sys::{PJRT_Buffer, Slot, slot};
use plugin_macros::entry;

use crate::abi::objects::client::dynamic_dims;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::placeholder_buffer::PlaceholderBuffer;
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::ffi_read;
use crate::contain::{contain, drop_contained};
use crate::features::FeatureCalls;
use crate::{Backend, DevicePlugin, Error, Event, Result, Shape};

/// Returns an error if an alias buffer cannot take over the data of `buffer`.
fn check<B: Backend>(alias: &PlaceholderBuffer<B::Buffer>, buffer: &BufferHandle<B>) -> Result<()> {
    let (given, expected) = (&buffer.layout, &alias.layout);
    if given != expected && (given.dims() != expected.dims() || !given.is_stored_as(expected)) {
        return Err(Error::argument(format!("buffer is {given}, but its alias is {expected}")));
    }
    if buffer.placement.memory != alias.placement.memory {
        return Err(Error::argument("buffer is in another memory than its alias"));
    }
    Ok(())
}

/// Returns an error if a value, which is ready, has dynamic dimensions, because alias buffers have none.
fn check_extents<B: Backend>(client: &Client<B>, value: &Value<B::Buffer>, shape: &Shape) -> Result<()> {
    if dynamic_dims::ask(&client.backend, value.available()?, shape)?.dynamic.is_empty() {
        return Ok(());
    }
    Err(Error::unimplemented("buffer has dynamic dimensions, but its alias has not").unnamed())
}

fn unknown_alias() -> Error {
    Error::failed_precondition("fulfill_alias_buffer_cb was already used, or belongs to another client").unnamed()
}

#[entry(traced)]
unsafe fn PJRT_Client_CreateUninitializedBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_CreateUninitializedBuffer_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.shape_element_type.0, args.shape_dims, args.shape_num_dims) }?;
    // SAFETY: V3 (arrays and text).
    let layout = unsafe { client.array_layout(&shape, args.shape_layout, "shape_layout") }?;
    let to = client.placement(args.device, args.memory)?;
    let value = client.backend.create_uninitialized_buffer(&layout.stored_shape(), to)?;
    let ready = client.backend.ready(&value);
    args.buffer = BufferHandle::give(client.share(), Value::Now(value), &layout, to, ready);
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_CreateErrorBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_CreateErrorBuffer_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.shape_element_type.0, args.shape_dims, args.shape_num_dims) }?;
    // Frameworks of API 0.117 and later pass the layout in `device_layout`.
    let (layout, field) = if args.device_layout.is_null() {
        (args.shape_layout, "shape_layout")
    } else {
        (args.device_layout, "device_layout")
    };
    // SAFETY: V3 (arrays and text).
    let layout = unsafe { client.array_layout(&shape, layout, field) }?;
    let to = client.placement(std::ptr::null_mut(), args.memory)?;
    // SAFETY: V3 (arrays and text).
    let error = unsafe {
        ffi_read::error_with_payload(
            (args.error_code.0, args.error_message, args.error_message_size),
            args.payload,
            args.num_payload,
        )
    }?;
    let failed = Event::failed(error);
    args.buffer = BufferHandle::give(client.share(), Value::Gone, &layout, to, failed);
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_CreateAliasBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_CreateAliasBuffer_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.shape_element_type.0, args.shape_dims, args.shape_num_dims) }?;
    // SAFETY: V3 (arrays and text).
    let layout = unsafe { client.array_layout(&shape, args.shape_layout, "shape_layout") }?;
    let placement = client.placement(std::ptr::null_mut(), args.memory)?;
    let (handle, late) = BufferHandle::pending(client, &layout, placement, false);
    args.alias_buffer = handle;
    args.fulfill_alias_buffer_cb = client.aliases.add(PlaceholderBuffer { late, layout, placement }).cast();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_FulfillAliasBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_FulfillAliasBuffer_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let token = args.fulfill_alias_buffer_cb.cast_const().cast();
    // SAFETY: V3 (arrays and text).
    let error = unsafe { ffi_read::status(args.status_code.0, args.error_message, args.error_message_size) }?;
    let mut alias = client.aliases.take(token).ok_or_else(unknown_alias)?;
    if let Some(error) = error {
        alias.late.set(Err(error));
        return Ok(());
    }
    // If a check fails during the call, the alias keeps waiting, and the framework may pass another buffer. The extents
    // of a buffer that is not ready are checked later, and the alias then fails.
    let prepare = || {
        // SAFETY: V2 (handles).
        let buffer: &BufferHandle<P::Backend> =
            unsafe { ffi_read::handle::<P, *mut PJRT_Buffer>(args.buffer, "buffer") }?;
        if !buffer.client.is(client) {
            return Err(Error::argument("buffer belongs to another client"));
        }
        check(&alias, buffer)?;
        let value = buffer.hold()?.value().clone();
        let mut unchecked = dynamic_dims::may_differ(buffer).then(|| (client.share(), buffer.layout.shape()));
        if let (Some((client, shape)), Some(Ok(()))) = (&unchecked, buffer.ready.result()) {
            check_extents(client, &value, shape)?;
            unchecked = None;
        }
        let waits = match (alias.late.address(), value.address()) {
            (Some(alias), Some(source)) => Some(client.alias_sources.add(alias, source)?),
            _ => None,
        };
        Ok((buffer.ready.clone(), value, waits, unchecked))
    };
    let (ready, value, waits, unchecked) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            client.aliases.put_back(token, alias);
            return Err(error);
        }
    };
    let mut late = alias.late;
    ready.on_ready_off_thread(move |ready| {
        drop(waits);
        let take = || {
            if let Some((client, shape)) = &unchecked {
                check_extents(client, &value, shape)
                    .map_err(|error| error.named(slot::PJRT_Client_FulfillAliasBuffer::NAME))?;
            }
            value.available().cloned()
        };
        late.set(ready.clone().and_then(|()| contain(take)));
        drop_contained((value, unchecked));
    });
    Ok(())
}
