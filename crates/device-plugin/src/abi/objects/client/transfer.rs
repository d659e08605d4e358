//! Transfers between host and device, and between devices.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pjrt_sys::{PJRT_Buffer, PJRT_Client_BufferFromHostBuffer_Args, Slot, slot};

use crate::abi::lend::host_alias::AliasSource;
use crate::abi::lend::host_destination;
use crate::abi::objects::array_layout::Form;
use crate::abi::objects::client::buffer::{BufferHandle, Value};
use crate::abi::objects::client::dynamic_dims;
use crate::abi::objects::client::state::Client;
use crate::abi::objects::event::into_raw;
use crate::abi::objects::owned_arrays::drop_contained;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::entry::{contain, contain_in, entries};
use crate::abi::table::ffi_read;
use crate::host_array::zeroed;
use crate::profiler;
use crate::strided::Strided;
use crate::{
    Backend, Completer, DevicePlugin, Error, Event, HostArray, HostBufferSemantics, NamedValue, Placement, Result,
    Shape,
};

/// Memory of the framework that is written before an event of the call is ready.
pub(crate) struct Destination {
    data: *mut u8,
    size: usize,
}

// SAFETY: V3, the memory is the plugin's until the event, on whatever thread.
unsafe impl Send for Destination {}

impl Destination {
    /// # Safety
    ///
    /// V3 for the destination, until an event of the call.
    pub(crate) unsafe fn new(data: *mut c_void, size: usize) -> Self {
        Self { data: data.cast(), size }
    }

    /// # Safety
    ///
    /// V3 for the destination, until the event of the call, which comes after the last use of the slice.
    pub(crate) unsafe fn slice(&mut self) -> Result<&mut [u8]> {
        // SAFETY: the caller's contract.
        unsafe { ffi_read::slice_mut(self.data, self.size, "dst") }
    }
}

/// Shows a transfer in the profile, if one runs.
#[inline]
fn transferred<P: DevicePlugin>(begun: Option<Instant>, at: Placement, name: &'static str, size: usize) {
    if begun.is_some() {
        let stats = vec![NamedValue::new("bytes", i64::try_from(size).unwrap_or(i64::MAX))];
        profiler::device_activity(begun, P::NAME, (at.device, "transfers"), name, stats);
    }
}

/// Reads a whole buffer into the framework's memory, in the layout it asked for.
fn read<B: Backend>(
    backend: &B,
    value: &Value<B>,
    shape: &Shape,
    layout: Option<&Strided>,
    to: &mut [u8],
) -> Result<()> {
    let value = value.available()?;
    let size = shape.host_size().unwrap_or(0);
    let Some(layout) = layout.filter(|layout| !layout.is_dense()) else {
        return backend.read(value, &mut to[..size]);
    };
    match backend.host_bytes(value).filter(|bytes| bytes.len() == size) {
        Some(bytes) => layout.scatter(bytes, to),
        None => {
            let mut dense = zeroed(size)?;
            backend.read(value, &mut dense)?;
            layout.scatter(&dense, to);
        }
    }
    Ok(())
}

/// Checks where an array of that shape goes, and returns the number of bytes that the destination needs.
fn expect_room(layout: Option<&Strided>, shape: &Shape) -> Result<usize> {
    if layout.is_some_and(|layout| layout.before > 0) {
        return Err(Error::unimplemented("negative strides of host_layout").unnamed());
    }
    Ok(layout.map_or(shape.host_size().unwrap_or(0), |layout| layout.span))
}

fn too_small(given: usize, shape: &Shape, size: usize) -> Error {
    Error::argument(format!("dst_size is {given}, but {shape} needs {size} bytes"))
}

/// Reads a buffer whose extents were not known when the framework asked for it; returns the number of bytes.
fn read_as<B: Backend>(
    backend: &B,
    value: &Value<B>,
    form: &Form,
    layout: &ffi_read::HostLayout,
    to: &mut [u8],
) -> Result<usize> {
    let (layout, shape) = (layout.of(form)?, form.shape());
    let size = expect_room(layout.as_ref(), &shape)?;
    let room = to.len();
    let to = to.get_mut(..size).ok_or_else(|| too_small(room, &shape, size))?;
    read(backend, value, &shape, layout.as_ref(), to)?;
    Ok(size)
}

/// Runs `work` on the value of a buffer once that is ready, now or on the thread that makes it ready, and gives the
/// event of its end. Errors of the buffer and of the work are the event's.
fn when_ready<B: Backend>(
    buffer: &BufferHandle<B>,
    work: impl FnOnce(&Client<B>, &Value<B>) -> Result<()> + Send + 'static,
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
            // The framework may destroy the buffer before it is ready.
            let (client, value) = (buffer.client.share(), held.value().clone());
            buffer.ready.on_ready_away(move |ready| {
                let result = ready.clone().and_then(|()| contain(|| work(&client, &value)));
                drop_contained((client, value));
                completer.settle(result);
            });
            Ok(event)
        }
    }
}

/// Makes a buffer of another one's value, now or when that is ready: also where the device keeps the order itself,
/// since a backend says by its answer alone that the new buffer is there, or why not.
fn derive<B: Backend>(
    buffer: &BufferHandle<B>,
    form: &Form,
    to: Placement,
    make: impl FnOnce(&B, &B::Buffer) -> Result<B::Buffer> + Send + 'static,
) -> Result<*mut PJRT_Buffer> {
    let client = &buffer.client;
    let held = buffer.hold()?;
    if let Some(ready) = buffer.ready.result() {
        ready?;
        let new = make(&client.backend, held.value().available()?)?;
        let ready = client.backend.ready(&new);
        return Ok(BufferHandle::give(client.share(), Value::Now(new), form, to, ready));
    }
    let (handle, mut late) = Late::new(client, form, to);
    let (client, value) = (client.share(), held.value().clone());
    buffer.ready.on_ready_away(move |ready| {
        let make = || {
            let new = make(&client.backend, value.available()?)?;
            let ready = client.backend.ready(&new);
            Ok((new, ready))
        };
        late.made(ready.clone().and_then(|()| contain(make)));
        drop_contained((client, value));
    });
    Ok(handle)
}

/// Copies a buffer to another place.
fn copy<B: Backend>(buffer: &BufferHandle<B>, to: Placement) -> Result<*mut PJRT_Buffer> {
    let shape = buffer.stored_shape();
    derive(buffer, &buffer.form, to, move |backend, value| backend.copy(value, &shape, to))
}

/// The maker's end of a buffer whose value comes later: where the value goes, and the buffer's completer. Empty once the
/// buffer is ready or somebody else has taken this over, so that nothing keeps a value that the framework deletes.
pub(crate) struct Late<B: Backend>(Option<(Arc<OnceLock<B::Buffer>>, Completer)>);

impl<B: Backend> Late<B> {
    /// A buffer for the framework, and the means to give it a value.
    pub(crate) fn new(client: &Counted<Client<B>>, form: &Form, to: Placement) -> (*mut PJRT_Buffer, Self) {
        let place = Arc::new(OnceLock::new());
        let (ready, completer) = Event::pending();
        let handle = BufferHandle::give(client.share(), Value::Later(Arc::clone(&place)), form, to, ready);
        (handle, Self(Some((place, completer))))
    }

    /// Whether the value will be that one.
    pub(crate) fn is_of(&self, value: &Arc<OnceLock<B::Buffer>>) -> bool {
        self.0.as_ref().is_some_and(|(place, _)| Arc::ptr_eq(place, value))
    }

    /// Whether the buffer waits for its value.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the duty over, so that it can be done without a lock.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Gives the buffer a value that the backend has just made and when that is ready, or its error.
    pub(crate) fn made(&mut self, result: Result<(B::Buffer, Event)>) {
        let Some((place, completer)) = self.0.take() else { return };
        match result {
            Ok((value, ready)) => {
                drop(place.set(value));
                // Whoever uses the buffer next may want to be the only one.
                drop_contained(place);
                // Of most backends the compiler knows it.
                if ready.is_born_ready() {
                    completer.settle(Ok(()));
                } else {
                    ready.on_ready(move |ready| completer.settle(ready.clone()));
                }
            }
            Err(error) => completer.settle(Err(error)),
        }
    }

    /// Gives the buffer its value or its error; the first call counts.
    pub(crate) fn set(&mut self, result: Result<B::Buffer>) {
        self.made(result.map(|value| (value, Event::ready())));
    }
}

/// # Safety
///
/// V2 and V3 for the arguments.
unsafe fn from_host<P: DevicePlugin>(
    client: &Counted<Client<P::Backend>>,
    args: &mut PJRT_Client_BufferFromHostBuffer_Args,
) -> Result<()> {
    let begun = profiler::begun();
    // SAFETY: the caller's contract.
    let shape = unsafe { ffi_read::shape(args.type_.0, args.dims, args.num_dims) }?;
    let to = client.placement(args.device, args.memory)?;
    // SAFETY: the caller's contract.
    let form = unsafe { client.form(&shape, args.device_layout, "device_layout") }?;
    let semantics = HostBufferSemantics::from_raw(args.host_buffer_semantics.0)
        .ok_or_else(|| Error::argument(format!("host_buffer_semantics is {}", args.host_buffer_semantics.0)))?;
    let strided = if args.num_byte_strides == 0 {
        form.row_major_host()?
    } else {
        // SAFETY: the caller's contract.
        let strides = unsafe { ffi_read::slice(args.byte_strides, args.num_byte_strides, "byte_strides") }?;
        Some(form.strided(strides)?).filter(|strided| !strided.is_dense())
    };
    let shape = form.stored_shape();
    let data = args.data.cast::<u8>();
    let make = |host| {
        let buffer = client.backend.buffer_from_host(host, to)?;
        let ready = client.backend.ready(&buffer);
        Ok((buffer, ready))
    };
    let ((buffer, ready), done) = match strided {
        Some(strided) => {
            // SAFETY: the caller's contract: strided data spans these bytes around its first element.
            let from = unsafe { ffi_read::slice(data.wrapping_sub(strided.before), strided.span, "data") }?;
            let mut dense = zeroed(shape.host_size().unwrap_or(0))?;
            strided.gather(from, &mut dense);
            (make(HostArray::new(&shape, dense)?)?, Event::ready())
        }
        None => {
            let size = shape.host_size().unwrap_or(0);
            // SAFETY: the caller's contract.
            let bytes = unsafe { ffi_read::slice(data, size, "data") }?;
            let host = HostArray::new(&shape, bytes)?;
            let lends =
                matches!(semantics, HostBufferSemantics::ImmutableZeroCopy | HostBufferSemantics::MutableZeroCopy);
            if lends {
                // SAFETY: V3, these semantics lend the data until the event.
                let source = unsafe { AliasSource::new(data, size) }?;
                let function = "PJRT_Client_BufferFromHostBuffer";
                match contain_in(function, || make(host.with_alias(&source))) {
                    Ok(made) => (made, source.done()),
                    // The framework must not take a failed call for the end of the loan while an alias may be left:
                    // it gets a buffer that failed, and its memory back when the alias is gone.
                    Err(error) if source.is_lent() => {
                        let (value, failed) = (Value::Gone, Event::failed(error));
                        args.done_with_host_buffer = into_raw(source.done());
                        args.buffer = BufferHandle::give(client.share(), value, &form, to, failed);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            } else {
                (make(host)?, Event::ready())
            }
        }
    };
    transferred::<P>(begun, to, "host to device", shape.host_size().unwrap_or(0));
    args.done_with_host_buffer = into_raw(done);
    args.buffer = BufferHandle::give(client.share(), Value::Now(buffer), &form, to, ready);
    Ok(())
}

/// Checks a range of a buffer's bytes.
pub(crate) fn range<B: Backend>(buffer: &BufferHandle<B>, offset: i64, size: i64) -> Result<std::ops::Range<usize>> {
    let all = buffer.stored_shape().host_size().unwrap_or(0);
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
    range
        .filter(|range| range.end <= all)
        .ok_or_else(|| Error::argument(format!("{size} bytes from offset {offset} are not within the buffer's {all}")))
}

pub(crate) fn read_range<B: Backend>(
    backend: &B,
    value: &Value<B>,
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

entries! {
    PJRT_Client_BufferFromHostBuffer(args, client) {
        // SAFETY: V2 and V3.
        unsafe { from_host::<P>(client, args) }
    }

    PJRT_Buffer_ToHostBuffer(args, src) {
        let src: &BufferHandle<P::Backend> = src;
        if dynamic_dims::are_open(src) && !args.dst.is_null() {
            // SAFETY: V3.
            let layout = unsafe { ffi_read::HostLayout::read(args.host_layout) }?;
            let mut to = Destination { data: args.dst.cast(), size: args.dst_size };
            let (shape, from) = (src.form.shape(), src.placement);
            args.event = into_raw(when_ready(src, move |client, value| {
                let begun = profiler::begun();
                let form = dynamic_dims::form_of(&client.backend, value.available()?, &shape)?;
                // SAFETY: V3, the event of the call is completed after this.
                let size = read_as(&client.backend, value, &form, &layout, unsafe { to.slice() }?)
                    .map_err(|error| error.named(slot::PJRT_Buffer_ToHostBuffer::NAME))?;
                transferred::<P>(begun, from, "device to host", size);
                Ok(())
            })?);
            return Ok(());
        }
        let form = dynamic_dims::readable(src);
        let shape = form.stored_shape();
        // SAFETY: V3.
        let layout = unsafe { ffi_read::host_layout(args.host_layout, &form) }?;
        let size = expect_room(layout.as_ref(), &shape)?;
        args.event = null_mut();
        if args.dst.is_null() {
            if src.is_deleted() {
                return Err(Error::argument("the buffer was deleted or donated"));
            }
            args.dst_size = size;
            return Ok(());
        }
        if args.dst_size < size {
            return Err(too_small(args.dst_size, &shape, size));
        }
        let mut to = Destination { data: args.dst.cast(), size };
        let from = src.placement;
        if P::Backend::ASYNC_READ && layout.as_ref().is_none_or(Strided::is_dense) {
            let begun = profiler::begun();
            let done = move || transferred::<P>(begun, from, "device to host", size);
            args.event = into_raw(host_destination::read(src, to, done)?);
            return Ok(());
        }
        args.event = into_raw(when_ready(src, move |client, value| {
            let begun = profiler::begun();
            // SAFETY: V3, the event of the call is completed after this.
            read(&client.backend, value, &shape, layout.as_ref(), unsafe { to.slice() }?)?;
            transferred::<P>(begun, from, "device to host", size);
            Ok(())
        })?);
        Ok(())
    }

    PJRT_Buffer_CopyRawToHost(args, buffer) {
        let buffer: &BufferHandle<P::Backend> = buffer;
        let shape = buffer.stored_shape();
        let range = range(buffer, args.offset, args.transfer_size)?;
        let mut to = Destination { data: args.dst.cast(), size: range.len() };
        if args.dst.is_null() && to.size > 0 {
            return Err(Error::argument("dst is null"));
        }
        args.event = into_raw(when_ready(buffer, move |client, value| {
            // SAFETY: V3, the event of the call is completed after this.
            read_range(&client.backend, value, &shape, range, unsafe { to.slice() }?)
        })?);
        Ok(())
    }

    PJRT_Buffer_CopyToDevice(args, buffer) {
        let device = buffer.client.device_index(args.dst_device)?;
        args.dst_buffer = copy(buffer, buffer.client.default_placement(device)?)?;
        Ok(())
    }

    PJRT_Buffer_CopyToMemory(args, buffer) {
        let to = buffer.client.placement(null_mut(), args.dst_memory)?;
        args.dst_buffer = copy(buffer, to)?;
        Ok(())
    }

    PJRT_Buffer_Bitcast(args, buffer) {
        let buffer: &BufferHandle<P::Backend> = buffer;
        let from = buffer.stored_shape();
        // SAFETY: V3.
        let shape = unsafe { ffi_read::shape(args.element_type.0, args.dims, args.num_dims) }?;
        // SAFETY: V3.
        let form = unsafe { buffer.client.form(&shape, args.device_layout, "device_layout") }?;
        let shape = form.stored_shape();
        // Types narrower than a byte take a byte each on the host, so only elements of one width keep their bits.
        let (old, new) = (from.element_type.bits(), shape.element_type.bits());
        if from.host_size() != shape.host_size() || (old != new && (old < 8 || new < 8)) {
            return Err(Error::argument(format!("{shape} has other bits than {from}")));
        }
        let (to, placement) = (shape, buffer.placement);
        args.out_buffer = derive(buffer, &form, placement, move |backend, value| {
            backend.bitcast(value, &from, &to, placement)
        })?;
        Ok(())
    }
}
