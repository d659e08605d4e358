//! Transfers between host and device, and between devices.

use std::ptr::null_mut;
use std::time::Instant;

use pjrt_sys::{PJRT_Buffer, PJRT_Client_BufferFromHostBuffer_Args, Slot, slot};
use plugin_macros::entry;

use crate::abi::lend::destination::Destination;
use crate::abi::lend::host_array::AliasSource;
use crate::abi::lend::host_array::zeroed;
use crate::abi::objects::client::async_read;
use crate::abi::objects::client::dynamic_dims;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::ffi_read;
use crate::abi::table::layout_read;
use crate::array_layout::ArrayLayout;
use crate::contain::{contain, contain_in, drop_contained};
use crate::features::FeatureCalls;
use crate::profiler;
use crate::strided::Strided;
use crate::{
    Backend, DevicePlugin, ElementType, Error, Event, HostArray, HostBufferSemantics, NamedValue, Placement, Result,
    Shape,
};

/// Records a transfer in the profile if a profile is being recorded.
#[inline]
fn transferred<P: DevicePlugin>(begun: Option<Instant>, at: Placement, name: &'static str, size: usize) {
    if begun.is_some() {
        let stats = vec![NamedValue::new("bytes", i64::try_from(size).unwrap_or(i64::MAX))];
        profiler::device_activity(begun, P::name(), (at.device, "transfers"), name, stats);
    }
}

/// Reads a whole buffer into the framework's memory, in the requested layout.
fn read<B: Backend>(
    backend: &B,
    value: &Value<B::Buffer>,
    shape: &Shape,
    strides: Option<&Strided>,
    to: &mut [u8],
) -> Result<()> {
    let value = value.available()?;
    let size = shape.host_size().unwrap_or(0);
    let Some(strides) = strides.filter(|strides| !strides.is_dense()) else {
        return backend.read(value, &mut to[..size]);
    };
    match backend.host_bytes(value).filter(|bytes| bytes.len() == size) {
        Some(bytes) => strides.scatter(bytes, to),
        None => {
            let mut dense = zeroed(size)?;
            backend.read(value, &mut dense)?;
            strides.scatter(&dense, to);
        }
    }
    Ok(())
}

/// Checks that an array of this shape can be read into a destination with these strides. Returns the number of bytes
/// that the destination needs.
fn expect_room(strides: Option<&Strided>, shape: &Shape) -> Result<usize> {
    if shape.element_type == ElementType::Token {
        return Err(Error::argument("the buffer is a token, which has no elements to read"));
    }
    if strides.is_some_and(|strides| strides.before > 0) {
        return Err(Error::unimplemented("host_layout has negative strides, which are not supported here").unnamed());
    }
    Ok(strides.map_or(shape.host_size().unwrap_or(0), |strides| strides.span))
}

fn too_small(given: usize, shape: &Shape, size: usize) -> Error {
    Error::argument(format!("dst_size is {given}, but {shape} needs {size} bytes"))
}

/// Reads a buffer whose extents were not yet known when the framework requested the read. Returns the number of bytes
/// that the array occupies in `to`.
fn read_as<B: Backend>(
    backend: &B,
    value: &Value<B::Buffer>,
    layout: &ArrayLayout,
    host: &layout_read::HostLayout,
    to: &mut [u8],
) -> Result<usize> {
    let (strides, shape) = (host.of(layout)?, layout.shape());
    let size = expect_room(strides.as_ref(), &shape)?;
    let room = to.len();
    let to = to.get_mut(..size).ok_or_else(|| too_small(room, &shape, size))?;
    read(backend, value, &shape, strides.as_ref(), to)?;
    Ok(size)
}

/// Runs `work` on the value of a buffer when the buffer is ready: at once, or on a thread that
/// [`Event::on_ready_off_thread`] chooses. Returns an event that becomes ready after `work` has returned. The event
/// reports errors of the buffer and of `work`.
fn when_ready<B: Backend>(
    buffer: &BufferHandle<B>,
    work: impl FnOnce(&Client<B>, &Value<B::Buffer>) -> Result<()> + Send + 'static,
) -> Result<Event> {
    let held = buffer.hold()?;
    match buffer.ready.result() {
        Some(Ok(())) => match work(&buffer.client, held.value()) {
            Ok(()) => Ok(Event::ready()),
            Err(error) => Ok(Event::failed(error)),
        },
        Some(Err(error)) => Ok(Event::failed(error)),
        None => {
            let (event, completer) = Event::pending();
            // Keep the client and the value alive, because the framework may destroy the buffer before it is ready.
            let (client, value) = (buffer.client.share(), held.value().clone());
            buffer.ready.on_ready_off_thread(move |ready| {
                let result = ready.clone().and_then(|()| contain(|| work(&client, &value)));
                drop_contained((value, client));
                completer.complete_internally(result);
            });
            Ok(event)
        }
    }
}

/// Creates a buffer with this layout at `to`. `make` creates its value from the value of `buffer`, at once if
/// `buffer` is ready or if the backend has the feature `queued_transfers`, or else when it becomes ready. The feature
/// `queued` alone does not suffice, because `make` returns no event and must therefore receive a ready buffer.
fn derive<B: Backend>(
    buffer: &BufferHandle<B>,
    layout: &ArrayLayout,
    to: Placement,
    make: impl FnOnce(&B, &B::Buffer) -> Result<B::Buffer> + Send + 'static,
) -> Result<*mut PJRT_Buffer> {
    let client = &buffer.client;
    let held = buffer.hold()?;
    let ready = buffer.ready.result();
    if ready.is_some() || const { B::FEATURES.queued_transfers } && held.value().get().is_some() {
        let before = if ready.is_none() { buffer.ready.clone() } else { Event::ready() };
        ready.transpose()?;
        let new = make(&client.backend, held.value().available()?)?;
        // A backend does not know all errors of the buffer. For example, an argument of its launch may fail.
        let ready = Event::all([before, client.backend.ready(&new)]);
        return Ok(BufferHandle::give(client.share(), Value::Now(new), layout, to, ready));
    }
    let (handle, mut late) = BufferHandle::pending(client, layout, to, buffer.is_dynamic);
    let (client, value) = (client.share(), held.value().clone());
    let waits = late.address().zip(value.address()).map(|(new, source)| client.alias_sources.add_new(new, source));
    buffer.ready.on_ready_off_thread(move |ready| {
        drop(waits);
        let make = || {
            let new = make(&client.backend, value.available()?)?;
            let ready = client.backend.ready(&new);
            Ok((new, ready))
        };
        late.made(ready.clone().and_then(|()| contain(make)));
        drop_contained((value, client));
    });
    Ok(handle)
}

/// Copies a buffer to another device or memory.
fn copy<B: Backend>(buffer: &BufferHandle<B>, to: Placement) -> Result<*mut PJRT_Buffer> {
    let shape = buffer.stored_shape();
    derive(buffer, &buffer.layout, to, move |backend, value| backend.copy(value, &shape, to))
}

/// Host data that a framework uploads, with the checked arguments of the call.
struct Upload {
    /// The layout of the new buffer.
    layout: ArrayLayout,
    /// The array's shape, with the dimensions in the order in which the device stores them.
    shape: Shape,
    to: Placement,
    data: *const u8,
    /// Size of the dense array in bytes.
    size: usize,
    /// The strides of the data in the framework's memory, or `None` if it is dense.
    strided: Option<Strided>,
    /// Whether the framework lends its memory until the call's event is ready.
    lends: bool,
}

/// The result of an upload: the value, the event of the value, and the event after which the framework may reuse the
/// memory of the host data.
struct Uploaded<B: Backend> {
    value: Value<B::Buffer>,
    ready: Event,
    done: Event,
}

impl Upload {
    /// Reads and checks the arguments of the call.
    ///
    /// # Safety
    ///
    /// V2 (handles) and V3 (arrays and text) hold for the arguments.
    unsafe fn read<B: Backend>(client: &Client<B>, args: &PJRT_Client_BufferFromHostBuffer_Args) -> Result<Self> {
        // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
        let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
        let to = client.placement(args.device, args.memory)?;
        // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
        let layout = unsafe { client.array_layout(&shape, args.device_layout, "device_layout") }?;
        let semantics = HostBufferSemantics::from_raw(args.host_buffer_semantics.0).ok_or_else(|| {
            Error::argument(format!("unknown host_buffer_semantics {}", args.host_buffer_semantics.0))
        })?;
        let lends = matches!(semantics, HostBufferSemantics::ImmutableZeroCopy | HostBufferSemantics::MutableZeroCopy);
        // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
        let strided = unsafe { host_strides(&layout, args) }?;
        let shape = layout.stored_shape();
        let size = shape.host_size().unwrap_or(0);
        Ok(Self { layout, shape, to, data: args.data.cast(), size, strided, lends })
    }

    /// Uploads the data as a dense array. Lends the framework's memory to the backend if the framework allows it and
    /// the data is dense.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the data.
    unsafe fn send<B: Backend>(&self, client: &Client<B>) -> Result<Uploaded<B>> {
        if let Some(strided) = &self.strided {
            // SAFETY: V3 (arrays and text), which the caller promises.
            let dense = unsafe { self.gather(strided) }?;
            return self.make(client, HostArray::new(&self.shape, dense)?);
        }
        // SAFETY: V3 (arrays and text), which the caller promises.
        let bytes = unsafe { ffi_read::slice(self.data, self.size, "data") }?;
        let host = HostArray::new(&self.shape, bytes)?;
        if self.lends {
            // SAFETY: V3 (arrays and text), which the caller promises. With these semantics, the framework lends the
            // data until the event is ready.
            unsafe { self.lend(client, host) }
        } else {
            self.make(client, host)
        }
    }

    /// Copies strided data into a dense array.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the data.
    unsafe fn gather(&self, strided: &Strided) -> Result<Vec<u8>> {
        let start = self.data.wrapping_sub(strided.before);
        // SAFETY: V3 (arrays and text): strided data spans these bytes around its first element.
        let from = unsafe { ffi_read::slice(start, strided.span, "data") }?;
        let mut dense = zeroed(self.size)?;
        strided.gather(from, &mut dense);
        Ok(dense)
    }

    /// Creates a buffer from a dense array. The backend copies the array during the call, or keeps an alias if the
    /// array has one.
    fn make<B: Backend>(&self, client: &Client<B>, host: HostArray<'_>) -> Result<Uploaded<B>> {
        let value = client.backend.buffer_from_host(host, self.to)?;
        let ready = client.backend.ready(&value);
        Ok(Uploaded { value: Value::Now(value), ready, done: Event::ready() })
    }

    /// Lets the backend copy the data or keep an alias of it.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the data until the event `done` of the result is ready.
    unsafe fn lend<B: Backend>(&self, client: &Client<B>, host: HostArray<'_>) -> Result<Uploaded<B>> {
        // SAFETY: V3 (arrays and text), which the caller promises.
        let source = unsafe { AliasSource::new(self.data, self.size) }?;
        let function = slot::PJRT_Client_BufferFromHostBuffer::NAME;
        match contain_in(function, || self.make(client, host.with_alias(&source))) {
            Ok(uploaded) => Ok(Uploaded { done: source.done(), ..uploaded }),
            // If the call failed, the framework would reuse its memory although an alias may still exist. The call
            // therefore succeeds with a failed buffer, and `done` becomes ready when the alias is dropped.
            Err(error) if source.is_lent() => {
                Ok(Uploaded { value: Value::Gone, ready: Event::failed(error), done: source.done() })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the strides of the framework's data, or `None` if the data is dense in the order in which the device stores
/// the array.
///
/// # Safety
///
/// V3 (arrays and text) holds for the strides.
unsafe fn host_strides(layout: &ArrayLayout, args: &PJRT_Client_BufferFromHostBuffer_Args) -> Result<Option<Strided>> {
    if args.num_byte_strides == 0 {
        return layout.row_major_host();
    }
    // SAFETY: V3 (arrays and text), which the caller promises.
    let strides = unsafe { ffi_read::slice(args.byte_strides, args.num_byte_strides, "byte_strides") }?;
    Ok(Some(layout.strided(strides)?).filter(|strided| !strided.is_dense()))
}

/// Uploads the array that `args` describes. Stores the new buffer and the event of the host data in `args`.
///
/// # Safety
///
/// V2 (handles) and V3 (arrays and text) hold for the arguments.
unsafe fn from_host<P: DevicePlugin>(
    client: &Counted<Client<P::Backend>>,
    args: &mut PJRT_Client_BufferFromHostBuffer_Args,
) -> Result<()> {
    let begun = profiler::begun();
    // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
    let upload = unsafe { Upload::read(client, args) }?;
    // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
    let Uploaded { value, ready, done } = unsafe { upload.send(client) }?;
    if matches!(value, Value::Now(_)) {
        transferred::<P>(begun, upload.to, "host to device", upload.size);
    }
    args.done_with_host_buffer = into_raw(done);
    args.buffer = BufferHandle::give(client.share(), value, &upload.layout, upload.to, ready);
    Ok(())
}

/// Returns a range of a buffer's bytes, after checking that the range is within the buffer.
pub(crate) fn range<B: Backend>(buffer: &BufferHandle<B>, offset: i64, size: i64) -> Result<std::ops::Range<usize>> {
    let all = buffer.stored_shape().host_size().unwrap_or(0);
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
    range.filter(|range| range.end <= all).ok_or_else(|| {
        Error::argument(format!("the range of {size} bytes at offset {offset} exceeds the buffer's {all} bytes"))
    })
}

pub(crate) fn read_range<B: Backend>(
    backend: &B,
    value: &Value<B::Buffer>,
    shape: &Shape,
    range: std::ops::Range<usize>,
    to: &mut [u8],
) -> Result<()> {
    let value = value.available()?;
    let size = shape.host_size().unwrap_or(0);
    if range == (0..size) {
        return backend.read(value, to);
    }
    match backend.host_bytes(value).and_then(|bytes| bytes.get(range.clone())) {
        Some(bytes) => to.copy_from_slice(bytes),
        None => {
            let mut all = zeroed(size)?;
            backend.read(value, &mut all)?;
            to.copy_from_slice(&all[range]);
        }
    }
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Client_BufferFromHostBuffer<P: DevicePlugin>(
    args: &mut PJRT_Client_BufferFromHostBuffer_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    // SAFETY: V2 (handles) and V3 (arrays and text).
    unsafe { from_host::<P>(client, args) }
}

#[entry(traced)]
unsafe fn PJRT_Buffer_ToHostBuffer<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_ToHostBuffer_Args,
    src: &BufferHandle<P::Backend>,
) -> Result<()> {
    if dynamic_dims::are_open(src) && !args.dst.is_null() {
        // SAFETY: V3 (arrays and text).
        let host = unsafe { layout_read::HostLayout::read(args.host_layout) }?;
        // SAFETY: V3 (arrays and text).
        let mut to = unsafe { Destination::new(args.dst, args.dst_size) };
        let (shape, from) = (src.layout.shape(), src.placement);
        args.event = into_raw(when_ready(src, move |client, value| {
            let begun = profiler::begun();
            let layout = dynamic_dims::layout_of(&client.backend, value.available()?, &shape)?;
            // SAFETY: V3 (arrays and text): the event of the call is completed after this copy.
            let size = read_as(&client.backend, value, &layout, &host, unsafe { to.slice() }?)
                .map_err(|error| error.named(slot::PJRT_Buffer_ToHostBuffer::NAME))?;
            transferred::<P>(begun, from, "device to host", size);
            Ok(())
        })?);
        return Ok(());
    }
    let layout = dynamic_dims::readable(src);
    let shape = layout.stored_shape();
    // SAFETY: V3 (arrays and text).
    let strides = unsafe { layout_read::host_layout(args.host_layout, &layout) }?;
    let size = expect_room(strides.as_ref(), &shape)?;
    args.event = null_mut();
    if args.dst.is_null() {
        if src.is_deleted() {
            return Err(Error::argument("the buffer was deleted or donated to an execution"));
        }
        args.dst_size = size;
        return Ok(());
    }
    if args.dst_size < size {
        return Err(too_small(args.dst_size, &shape, size));
    }
    // SAFETY: V3 (arrays and text).
    let mut to = unsafe { Destination::new(args.dst, size) };
    let from = src.placement;
    if P::Backend::FEATURES.async_reads.is_some() && strides.as_ref().is_none_or(Strided::is_dense) {
        let begun = profiler::begun();
        let done = move || transferred::<P>(begun, from, "device to host", size);
        args.event = into_raw(async_read::read(src, to, done)?);
        return Ok(());
    }
    args.event = into_raw(when_ready(src, move |client, value| {
        let begun = profiler::begun();
        // SAFETY: V3 (arrays and text): the event of the call is completed after this copy.
        read(&client.backend, value, &shape, strides.as_ref(), unsafe { to.slice() }?)?;
        transferred::<P>(begun, from, "device to host", size);
        Ok(())
    })?);
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Buffer_CopyRawToHost<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_CopyRawToHost_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let shape = buffer.stored_shape();
    let range = range(buffer, args.offset, args.transfer_size)?;
    // SAFETY: V3 (arrays and text).
    let mut to = unsafe { Destination::new(args.dst, range.len()) };
    if args.dst.is_null() && to.size > 0 {
        return Err(Error::argument("dst is null"));
    }
    args.event = into_raw(when_ready(buffer, move |client, value| {
        // SAFETY: V3 (arrays and text): the event of the call is completed after this copy.
        read_range(&client.backend, value, &shape, range, unsafe { to.slice() }?)
    })?);
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Buffer_CopyToDevice<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_CopyToDevice_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let device = buffer.client.device_index(args.dst_device)?;
    args.dst_buffer = copy(buffer, buffer.client.default_placement(device)?)?;
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Buffer_CopyToMemory<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_CopyToMemory_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let to = buffer.client.placement(null_mut(), args.dst_memory)?;
    args.dst_buffer = copy(buffer, to)?;
    Ok(())
}

#[entry(traced)]
unsafe fn PJRT_Buffer_Bitcast<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Buffer_Bitcast_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let from = buffer.stored_shape();
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.element_type.0, args.dims, args.num_dims) }?;
    // SAFETY: V3 (arrays and text).
    let layout = unsafe { buffer.client.array_layout(&shape, args.device_layout, "device_layout") }?;
    let shape = layout.stored_shape();
    // On the host, each element narrower than a byte occupies a whole byte. A bitcast from or to such elements is
    // therefore possible only if their width stays the same.
    let (old, new) = (from.element_type.bits(), shape.element_type.bits());
    if from.host_size() != shape.host_size() || (old != new && (old < 8 || new < 8)) {
        return Err(Error::argument(format!("{shape} and {from} differ in size or in the width of their elements")));
    }
    let (to, placement) = (shape, buffer.placement);
    args.out_buffer =
        derive(buffer, &layout, placement, move |backend, value| backend.bitcast(value, &from, &to, placement))?;
    Ok(())
}
