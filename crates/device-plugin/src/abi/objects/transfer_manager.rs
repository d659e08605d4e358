//! `PJRT_AsyncHostToDeviceTransferManager`: creates buffers before their data exists, and receives the data in pieces.

use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_sys::{PJRT_Buffer, PJRT_ShapeSpec};
use plugin_macros::entry;

use crate::abi::lend::host_array::zeroed;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::pending_value::PendingValue;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::reclaim::refcount::Ref;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::abi::table::layout_read;
use crate::array_layout::ArrayLayout;
use crate::contain::{contain, contain_in, drop_contained};
use crate::features::FeatureCalls;
use crate::strided::Strided;
use crate::{Backend, DevicePlugin, Error, ErrorCode, Event, HostArray, Placement, Result};

/// The object behind a `PJRT_AsyncHostToDeviceTransferManager*`.
pub(crate) struct Manager<B: Backend> {
    client: Ref<Client<B>>,
    to: Placement,
    buffers: Vec<Mutex<Arriving<B>>>,
}

/// A buffer that is receiving its data.
struct Arriving<B: Backend> {
    layout: ArrayLayout,
    size: usize,
    /// The data received so far, if the SDK gathers the pieces. Empty until the first piece arrives.
    data: Vec<u8>,
    /// The backend's buffer to which the pieces are written. `None` if the backend does not have the feature
    /// `PiecewiseUploads`, or if the buffer is complete or has failed.
    started: Option<Arc<B::Buffer>>,
    /// Number of pieces that threads are writing at this moment.
    writing: usize,
    /// Whether the last piece has been received.
    ends: bool,
    late: PendingValue<B::Buffer>,
    /// The handle of the buffer, until the framework retrieves the handle.
    handle: Option<NonNull<PJRT_Buffer>>,
}

handles! {
    PJRT_AsyncHostToDeviceTransferManager => Manager<P::Backend>;
}

impl<B: Backend> Manager<B> {
    fn arriving(&self, index: i32) -> Result<MutexGuard<'_, Arriving<B>>> {
        let buffer = usize::try_from(index).ok().and_then(|index| self.buffers.get(index));
        let buffer = buffer.ok_or_else(|| {
            Error::argument(format!(
                "buffer_index is {index}, but the transfer manager has {} buffers",
                self.buffers.len()
            ))
        })?;
        Ok(buffer.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<B: Backend> Arriving<B> {
    fn expect_open(&self) -> Result<()> {
        if self.late.is_open() && !self.ends {
            return Ok(());
        }
        Err(Error::failed_precondition("the buffer already has all its data, or has failed").unnamed())
    }
}

/// Sends the complete data of a buffer to the device and completes the buffer. The lock is released before callbacks of
/// the buffer's event run.
fn finish<B: Backend>(manager: &Manager<B>, mut buffer: MutexGuard<'_, Arriving<B>>) {
    let (shape, data) = (buffer.layout.stored_shape(), std::mem::take(&mut buffer.data));
    let (started, mut late) = (buffer.started.take(), buffer.late.take());
    drop(buffer);
    drop_contained(started);
    let send = || {
        let backend = &manager.client.backend;
        let buffer = backend.buffer_from_host(HostArray::new(&shape, data)?, manager.to)?;
        let ready = backend.ready(&buffer);
        Ok((buffer, ready))
    };
    late.made(contain(send));
}

/// Sends a piece of a buffer to the device, and completes the buffer after its last piece. If the backend rejects the
/// piece, the buffer fails. Other threads may write other pieces at the same time. The lock is not held while the
/// backend runs.
fn write<B: Backend>(
    manager: &Manager<B>,
    mut buffer: MutexGuard<'_, Arriving<B>>,
    (index, offset, is_last): (i32, usize, bool),
    piece: &[u8],
) -> Result<()> {
    let backend = &manager.client.backend;
    let Some(started) = buffer.started.clone() else {
        return Err(Error::failed_precondition("the buffer already holds an error").unnamed());
    };
    buffer.writing += 1;
    buffer.ends |= is_last;
    drop(buffer);
    let written = contain_in(TRANSFER_DATA, || backend.transfer_data(&started, offset, piece));
    drop_contained(started);
    let mut buffer = manager.arriving(index)?;
    buffer.writing -= 1;
    let mut late = match &written {
        // Other threads are still writing, or more pieces follow.
        Ok(()) if buffer.writing > 0 || !buffer.ends => return Ok(()),
        _ => buffer.late.take(),
    };
    let started = buffer.started.take();
    drop(buffer);
    if let Err(error) = &written {
        drop_contained(started);
        late.set(Err(error.clone()));
        return written;
    }
    let made = || {
        let started = started.ok_or_else(|| Error::internal("the plugin lost a buffer of the transfer manager"))?;
        // All other threads have dropped their references, so `try_unwrap` succeeds and nothing is cloned.
        let buffer = Arc::try_unwrap(started).unwrap_or_else(|shared| B::Buffer::clone(&shared));
        let ready = backend.ready(&buffer);
        Ok((buffer, ready))
    };
    late.made(contain(made));
    Ok(())
}

/// The function name in the error that reports a panic.
const TRANSFER_DATA: &str = "PJRT_AsyncHostToDeviceTransferManager_TransferData";

impl<B: Backend> Drop for Manager<B> {
    fn drop(&mut self) {
        for buffer in &mut self.buffers {
            let buffer = buffer.get_mut().unwrap_or_else(PoisonError::into_inner);
            // The next two statements have no effect on a buffer that is complete or has failed.
            drop_contained(buffer.started.take());
            buffer.late.set(Err(Error::new(
                ErrorCode::CANCELLED,
                "the framework destroyed the transfer manager before it sent all data of the buffer",
            )));
            if let Some(handle) = buffer.handle.take() {
                // Catch a panic of a vendor's destructor, so that the remaining buffers are still destroyed.
                let _ = contain(|| {
                    // SAFETY: V7 (counting): the framework never received the handle.
                    unsafe { BufferHandle::<B>::destroy(handle.cast()) };
                    Ok(())
                });
            }
        }
    }
}

#[entry]
unsafe fn PJRT_Client_CreateBuffersForAsyncHostToDevice<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_CreateBuffersForAsyncHostToDevice_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let to = client.placement(null_mut(), args.memory)?;
    // SAFETY: V3 (arrays and text).
    let layouts = unsafe { ffi_read::slice(args.device_layouts, args.num_device_layouts, "device_layouts") }?;
    let mut buffers = Vec::new();
    let mut at = args.shape_specs.cast_const();
    for index in 0..args.num_shape_specs {
        // SAFETY: V1 (argument structs) and V3 (arrays and text).
        let spec: PJRT_ShapeSpec = unsafe { ffi_read::nested(at, "shape_specs") }?;
        at = ffi_read::next(at, spec.struct_size);
        // SAFETY: V3 (arrays and text).
        let shape = unsafe { ffi_read::shape(spec.element_type.0, spec.dims, spec.num_dims) }?;
        let requested = layouts.get(index).copied().unwrap_or(null_mut());
        // SAFETY: V3 (arrays and text).
        buffers.push(unsafe { client.array_layout(&shape, requested, "device_layouts") }?);
    }
    let start = |layout: ArrayLayout| {
        let new = || client.backend.create_uninitialized_buffer(&layout.stored_shape(), to).map(Arc::new);
        let started = if P::Backend::FEATURES.piecewise_uploads.is_some() { Some(new()?) } else { None };
        Ok((layout, started))
    };
    let started: Vec<_> = buffers.into_iter().map(start).collect::<Result<_>>()?;
    let arriving = |(layout, started): (ArrayLayout, _)| {
        let (handle, late) = BufferHandle::pending(client, &layout, to, false);
        let (size, handle) = (layout.stored_shape().host_size().unwrap_or(0), NonNull::new(handle));
        Mutex::new(Arriving { layout, size, data: Vec::new(), started, writing: 0, ends: false, late, handle })
    };
    let buffers = started.into_iter().map(arriving).collect();
    let manager: Manager<P::Backend> = Manager { client: client.share(), to, buffers };
    args.transfer_manager = Box::into_raw(Box::new(manager)).cast();
    Ok(())
}

#[entry(destroys)]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
) -> Result<()> {
    if !args.transfer_manager.is_null() {
        // SAFETY: V2 (handles): `PJRT_Client_CreateBuffersForAsyncHostToDevice` boxed the manager, and the
        // framework no longer uses it.
        drop(unsafe { Box::from_raw(args.transfer_manager.cast::<Manager<P::Backend>>()) });
    }
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_TransferData<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_TransferData_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    let mut buffer = transfer_manager.arriving(args.buffer_index)?;
    buffer.expect_open()?;
    let range = usize::try_from(args.offset).ok().zip(usize::try_from(args.transfer_size).ok());
    let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
    let range = range.filter(|range| range.end <= buffer.size).ok_or_else(|| {
        Error::argument(format!(
            "the range of {} bytes at offset {} exceeds the buffer's {} bytes",
            args.transfer_size, args.offset, buffer.size
        ))
    })?;
    // SAFETY: V3 (arrays and text).
    let piece = unsafe { ffi_read::slice(args.data.cast::<u8>(), range.len(), "data") }?;
    if P::Backend::FEATURES.piecewise_uploads.is_some() {
        write(transfer_manager, buffer, (args.buffer_index, range.start, args.is_last_transfer.get()), piece)?;
        args.done_with_h2d_transfer = into_raw(Event::ready());
        return Ok(());
    }
    if buffer.data.is_empty() {
        buffer.data = zeroed(buffer.size)?;
    }
    buffer.data[range].copy_from_slice(piece);
    if args.is_last_transfer.get() {
        finish(transfer_manager, buffer);
    }
    args.done_with_h2d_transfer = into_raw(Event::ready());
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_TransferLiteral<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    let mut buffer = transfer_manager.arriving(args.buffer_index)?;
    buffer.expect_open()?;
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.shape_element_type.0, args.shape_dims, args.shape_num_dims) }?;
    if shape != buffer.layout.shape() {
        return Err(Error::argument(format!("the literal is {shape}, but the buffer is {}", buffer.layout.shape())));
    }
    // SAFETY: V3 (arrays and text).
    let strides = match unsafe { layout_read::host_layout(args.shape_layout, &buffer.layout) }? {
        None => buffer.layout.row_major_host()?,
        strides => strides,
    };
    let mut data = zeroed(buffer.size)?;
    let (before, span) = strides.as_ref().map_or((0, buffer.size), |strides: &Strided| (strides.before, strides.span));
    // SAFETY: V3 (arrays and text): an array with these strides spans these bytes around its first element.
    let from = unsafe { ffi_read::slice(args.data.cast::<u8>().wrapping_sub(before), span, "data") }?;
    match strides {
        Some(strides) => strides.gather(from, &mut data),
        None => data.copy_from_slice(from),
    }
    buffer.data = data;
    finish(transfer_manager, buffer);
    args.done_with_h2d_transfer = into_raw(Event::ready());
    Ok(())
}

#[entry]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    let handle = transfer_manager.arriving(args.buffer_index)?.handle.take();
    let handle = handle.ok_or_else(|| {
        Error::failed_precondition(
            "the buffer was already retrieved; each can be \
             retrieved once",
        )
        .unnamed()
    })?;
    args.buffer_out = handle.as_ptr();
    Ok(())
}

#[entry]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_Device<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_Device_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    args.device_out = transfer_manager.client.device_handles.as_slice()[transfer_manager.to.device];
    Ok(())
}

#[entry]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_BufferCount<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    args.buffer_count = transfer_manager.buffers.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_BufferSize<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    args.buffer_size = transfer_manager.arriving(args.buffer_index)?.size;
    Ok(())
}

#[entry]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_SetBufferError<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let error = unsafe { ffi_read::status(args.error_code.0, args.error_message, args.error_message_size) }?;
    let error = error.ok_or_else(|| Error::argument("error_code is OK; pass the code of an error"))?;
    let mut buffer = transfer_manager.arriving(args.buffer_index)?;
    buffer.expect_open()?;
    let (started, mut late) = (buffer.started.take(), buffer.late.take());
    drop(buffer);
    drop_contained(started);
    late.set(Err(error));
    Ok(())
}

#[entry]
unsafe fn PJRT_AsyncHostToDeviceTransferManager_AddMetadata<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args,
    transfer_manager: &Manager<P::Backend>,
) -> Result<()> {
    // The metadata describes a transfer for display. The plugin rejects malformed metadata and ignores all other
    // metadata.
    let _ = transfer_manager;
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    unsafe { ffi_read::named_values(args.transfer_metadata, args.num_metadata, "transfer_metadata") }?;
    Ok(())
}
