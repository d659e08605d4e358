//! The raw buffer extension: reads and writes buffers as bytes.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null, null_mut};

use pjrt_sys::{PJRT_RawBuffer, Slot, extension_slot};
use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::lend::destination::Destination;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::refcount::Ref;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::backend::functions;
use crate::contain::{contain, drop_contained};
use crate::features::FeatureCalls;
use crate::{Backend, DevicePlugin, Error, Event, Placement, Result};

/// The object behind a `PJRT_RawBuffer*`: an alias of a buffer. The alias may outlive the buffer.
#[repr(C)]
pub(crate) struct RawBuffer<B: Backend> {
    /// The header of the C struct. Its function table is null, so that frameworks use the functions of the extension.
    /// The functions of the table would require device events, which this SDK does not implement.
    base: PJRT_RawBuffer,
    value: Value<B::Buffer>,
    ready: Event,
    /// Size of the array on the host in bytes. The size on the device is the same unless the backend reports a
    /// different size.
    host_size: usize,
    placement: Placement,
    /// Declared after the value, so that the value is dropped first.
    client: Ref<Client<B>>,
}

handles! {
    PJRT_RawBuffer => RawBuffer<P::Backend>;
}

extension! {
    /// The raw buffer extension. A plugin offers it if the backend implements the feature `RawBuffers`.
    RawBuffers = PJRT_RawBuffer_Extension if P::Backend::FEATURES.raw_buffers.is_some();
    PJRT_RawBuffer_CreateRawAliasOfBuffer: PJRT_RawBuffer_CreateRawAliasOfBuffer,
    PJRT_RawBuffer_Destroy: PJRT_RawBuffer_Destroy,
    PJRT_RawBuffer_GetOnDeviceSizeInBytes: PJRT_RawBuffer_GetOnDeviceSizeInBytes,
    PJRT_RawBuffer_GetMemorySpace: PJRT_RawBuffer_GetMemorySpace,
    PJRT_RawBuffer_CopyRawHostToDevice: PJRT_RawBuffer_CopyRawHostToDevice,
    PJRT_RawBuffer_CopyRawDeviceToHost: PJRT_RawBuffer_CopyRawDeviceToHost,
    PJRT_RawBuffer_GetHostPointer: PJRT_RawBuffer_GetHostPointer,
}

fn raw_buffers<B: Backend>() -> Result<functions::RawBuffers<B>> {
    // A plugin offers the extension only if the backend has the feature, so this error does not occur.
    B::FEATURES.raw_buffers.ok_or_else(|| Error::unimplemented("the backend does not support raw buffers"))
}

fn outside(offset: impl std::fmt::Display, size: impl std::fmt::Display, all: usize) -> Error {
    Error::argument(format!("the range of {size} bytes at offset {offset} exceeds the raw buffer's {all} bytes"))
}

fn on_device_size<B: Backend>(backend: &B, value: &B::Buffer, host_size: usize) -> usize {
    backend.on_device_size(value).unwrap_or(host_size)
}

impl<B: Backend> RawBuffer<B> {
    /// Returns the size on the device in bytes, or the size on the host if the value does not exist yet.
    fn size(&self) -> usize {
        self.value.get().map_or(self.host_size, |value| on_device_size(&self.client.backend, value, self.host_size))
    }

    fn range(&self, offset: i64, size: i64) -> Result<Range<usize>> {
        let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
        // A value that does not exist yet may need more bytes on the device than on the host, so `when_ready` checks
        // its range later.
        let is_known = self.value.get().is_some();
        let all = self.size();
        range.filter(|range| range.end <= all || !is_known).ok_or_else(|| outside(offset, size, all))
    }

    /// Runs `work` on the value when the buffer is ready: at once, or on a thread that [`Event::on_ready_off_thread`]
    /// chooses. Returns an event that becomes ready after `work` has returned. The event fails if the buffer fails, if
    /// `work` fails, or if `range` exceeds the value.
    fn when_ready<S: Slot>(
        &self,
        range: &Range<usize>,
        work: impl FnOnce(&B, &B::Buffer) -> Result<()> + Send + 'static,
    ) -> Event {
        let (range, host_size) = (range.clone(), self.host_size);
        let work = move |backend: &B, value: &B::Buffer| {
            let all = on_device_size(backend, value, host_size);
            if range.end > all {
                return Err(outside(range.start, range.len(), all).named(S::NAME));
            }
            work(backend, value)
        };
        match self.ready.result() {
            Some(Ok(())) => match self.value.available().and_then(|value| work(&self.client.backend, value)) {
                Ok(()) => Event::ready(),
                Err(error) => Event::failed(error),
            },
            Some(Err(error)) => Event::failed(error),
            None => {
                let (event, completer) = Event::pending();
                // Keep the client and the value alive, because the framework may destroy the alias before the buffer is
                // ready.
                let (client, value) = (self.client.share(), self.value.clone());
                self.ready.on_ready_off_thread(move |ready| {
                    let work = || work(&client.backend, value.available()?);
                    let result = ready.clone().and_then(|()| contain(work));
                    drop_contained((value, client));
                    completer.complete_internally(result);
                });
                event
            }
        }
    }
}

/// Memory of the framework that the plugin reads until the event of the call is ready.
struct Source {
    data: *const u8,
    size: usize,
}

// SAFETY: V3 (arrays and text): the memory is readable on any thread until the event of the call is ready.
unsafe impl Send for Source {}

impl Source {
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the source until the event of the call is ready, and the slice is not used after
    /// the event is ready.
    unsafe fn slice(&self) -> Result<&[u8]> {
        // SAFETY: V3 (arrays and text), which the caller promises.
        unsafe { ffi_read::slice(self.data, self.size, "src") }
    }
}

fn expect_memory(data: *const c_void, range: &Range<usize>, field: &str) -> Result<()> {
    if data.is_null() && !range.is_empty() {
        return Err(Error::argument(format!("{field} is null")));
    }
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RawBuffer_CreateRawAliasOfBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RawBuffer_CreateRawAliasOfBuffer_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let held = buffer.hold()?;
    let alias = RawBuffer::<P::Backend> {
        base: PJRT_RawBuffer { vtable: null() },
        value: held.value().clone(),
        ready: buffer.ready.clone(),
        host_size: buffer.stored_shape().host_size().unwrap_or(0),
        placement: buffer.placement,
        client: buffer.client.share(),
    };
    args.raw_buffer = Box::into_raw(Box::new(alias)).cast();
    Ok(())
}

#[entry(extension, destroys)]
unsafe fn PJRT_RawBuffer_Destroy<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_RawBuffer_Destroy_Args) -> Result<()> {
    if let Some(alias) = NonNull::new(args.buffer.cast::<RawBuffer<P::Backend>>()) {
        // SAFETY: V2 (handles): `PJRT_RawBuffer_CreateRawAliasOfBuffer` boxed the alias, and the framework no
        // longer uses it.
        drop_contained(unsafe { Box::from_raw(alias.as_ptr()) });
    }
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RawBuffer_GetOnDeviceSizeInBytes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args,
    buffer: &RawBuffer<P::Backend>,
) -> Result<()> {
    args.on_device_size_in_bytes = buffer.size();
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RawBuffer_GetMemorySpace<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RawBuffer_GetMemorySpace_Args,
    buffer: &RawBuffer<P::Backend>,
) -> Result<()> {
    args.memory_space = buffer.client.memory_handles.as_slice()[buffer.placement.memory];
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RawBuffer_GetHostPointer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RawBuffer_GetHostPointer_Args,
    buffer: &RawBuffer<P::Backend>,
) -> Result<()> {
    // The framework may use the address as soon as this call returns, so wait until the data is written.
    buffer.ready.wait()?;
    let address = (raw_buffers::<P::Backend>()?.raw_host_pointer)(&buffer.client.backend, buffer.value.available()?);
    args.host_pointer = address.map_or(null_mut(), std::ptr::with_exposed_provenance_mut::<c_void>);
    Ok(())
}

#[entry(extension, traced)]
unsafe fn PJRT_RawBuffer_CopyRawHostToDevice<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RawBuffer_CopyRawHostToDevice_Args,
    buffer: &RawBuffer<P::Backend>,
) -> Result<()> {
    let range = buffer.range(args.offset, args.transfer_size)?;
    expect_memory(args.src, &range, "src")?;
    let write = raw_buffers::<P::Backend>()?.write_raw;
    let from = Source { data: args.src.cast(), size: range.len() };
    args.event = into_raw(buffer.when_ready::<extension_slot::PJRT_RawBuffer_CopyRawHostToDevice>(
        &range.clone(),
        move |backend, value| {
            // Capture the whole `Source`, which is `Send`. The closure would otherwise capture only its fields, and a
            // raw pointer is not `Send`.
            let from = from;
            // SAFETY: V3 (arrays and text): the event of the call is completed after this copy.
            write(backend, value, range.start, unsafe { from.slice() }?)
        },
    ));
    Ok(())
}

#[entry(extension, traced)]
unsafe fn PJRT_RawBuffer_CopyRawDeviceToHost<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RawBuffer_CopyRawDeviceToHost_Args,
    buffer: &RawBuffer<P::Backend>,
) -> Result<()> {
    let range = buffer.range(args.offset, args.transfer_size)?;
    expect_memory(args.dst, &range, "dst")?;
    let read = raw_buffers::<P::Backend>()?.read_raw;
    // SAFETY: V3 (arrays and text): the memory is writable until the event of the call is ready.
    let mut to = unsafe { Destination::new(args.dst, range.len()) };
    args.event = into_raw(buffer.when_ready::<extension_slot::PJRT_RawBuffer_CopyRawDeviceToHost>(
        &range.clone(),
        move |backend, value| {
            // SAFETY: V3 (arrays and text): the event of the call is completed after this copy.
            read(backend, value, range.start, unsafe { to.slice() }?)
        },
    ));
    Ok(())
}
