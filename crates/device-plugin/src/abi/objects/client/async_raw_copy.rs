//! Operations that continue when the framework calls back: raw copies whose destination the framework passes later, and
//! donations that wait for other work of the framework.

use std::ffi::c_void;
use std::ptr::null_mut;

use pjrt_sys::{PJRT_Buffer_CopyRawToHostFuture_Callback_Args, PJRT_Buffer_DonateWithControlDependency_Callback_Args};
use plugin_macros::entry;

use crate::abi::lend::destination::Destination;
use crate::abi::objects::client::buffer::deleted;
use crate::abi::objects::client::handle::BufferHandle;
use crate::abi::objects::client::transfer::{range, read_range};
use crate::abi::objects::pending_callbacks;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::ffi_read;
use crate::contain::{contain, drop_contained};
use crate::{DevicePlugin, Event, Result};

/// Receives the destination of a raw copy, or an error, from the framework and continues the copy.
///
/// # Safety
///
/// V1 (argument structs) holds for `args`. V3 (arrays and text) holds for the message, and for the destination until
/// the event of the copy is ready.
unsafe extern "C" fn destination_known(args: *mut PJRT_Buffer_CopyRawToHostFuture_Callback_Args) {
    // SAFETY: V1 (argument structs).
    let Ok(args) = (unsafe { ffi_read::nested(args.cast_const(), "args") }) else { return };
    // SAFETY: V3 (arrays and text).
    let status = unsafe { ffi_read::status(args.error_code.0, args.error_message, args.error_message_size) };
    pending_callbacks::resume(args.callback_data, value_or_error(status, args.dst));
}

/// Continues a donation that waits for other work of the framework. The framework calls this function when that work
/// has ended.
///
/// # Safety
///
/// V1 (argument structs) holds for `args`, and V3 (arrays and text) for the message.
unsafe extern "C" fn dependency_ready(args: *mut PJRT_Buffer_DonateWithControlDependency_Callback_Args) {
    // SAFETY: V1 (argument structs).
    let Ok(args) = (unsafe { ffi_read::nested(args.cast_const(), "args") }) else { return };
    // SAFETY: V3 (arrays and text).
    let status = unsafe { ffi_read::status(args.error_code.0, args.error_message, args.error_message_size) };
    pending_callbacks::resume(args.callback_data, value_or_error(status, null_mut()));
}

fn value_or_error(status: Result<Option<crate::Error>>, value: *mut c_void) -> Result<*mut c_void> {
    match status? {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

#[entry(traced)]
unsafe fn PJRT_Buffer_CopyRawToHostFuture<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_CopyRawToHostFuture_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let shape = buffer.stored_shape();
    let range = range(buffer, args.offset, args.transfer_size)?;
    let (client, value) = (buffer.client.share(), buffer.hold()?.value().clone());
    let ready = buffer.ready.clone();
    let (event, completer) = Event::pending();
    args.callback_data = pending_callbacks::add(pending_callbacks::key(&buffer.client), move |destination| {
        let data = match destination {
            Ok(data) => data,
            Err(error) => {
                drop_contained((value, client));
                return completer.complete_internally(Err(error));
            }
        };
        // SAFETY: V3 (arrays and text): the memory is writable until the event of this copy is ready.
        let mut to = unsafe { Destination::new(data, range.len()) };
        ready.on_ready_off_thread(move |ready| {
            let result = ready.clone().and_then(|()| {
                // SAFETY: V3 (arrays and text): the event of the call is completed after this copy.
                contain(|| read_range(&client.backend, &value, &shape, range, unsafe { to.slice() }?))
            });
            drop_contained((value, client));
            completer.complete_internally(result.map_err(|error| error.named("PJRT_Buffer_CopyRawToHostFuture")));
        });
    });
    args.future_ready_callback = Some(destination_known);
    args.event = into_raw(event);
    Ok(())
}

#[entry]
unsafe fn PJRT_Buffer_DonateWithControlDependency<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_DonateWithControlDependency_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let value = buffer.hold()?.value().clone();
    if !buffer.delete(None) {
        return Err(deleted());
    }
    let ready = buffer.ready.clone();
    let (handle, mut late) = BufferHandle::pending(&buffer.client, &buffer.layout, buffer.placement, buffer.is_dynamic);
    let sources = &buffer.client.alias_sources;
    let waits = late.address().zip(value.address()).map(|(new, source)| sources.add_new(new, source));
    args.callback_data =
        pending_callbacks::add(pending_callbacks::key(&buffer.client), move |dependency| match dependency {
            Err(error) => {
                drop(waits);
                drop_contained(value);
                late.set(Err(error));
            }
            Ok(_) => ready.on_ready_off_thread(move |ready| {
                drop(waits);
                late.set(ready.clone().and_then(|()| contain(|| value.available().cloned())));
                drop_contained(value);
            }),
        });
    args.dependency_ready_callback = Some(dependency_ready);
    args.out_buffer = handle;
    Ok(())
}
