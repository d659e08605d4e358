//! `PJRT_Buffer_ToHostBuffer`: copies from a device to the host.

use std::ffi::c_void;
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytemuck::{AnyBitPattern, Zeroable};
use pjrt_sys::*;
use pjrt_types::{Element, Layout, Shape};
use smallvec::{SmallVec, smallvec};

use crate::buffer::Buffer;
use crate::byte_range::byte_range;
use crate::element;
use crate::error::{Error, ErrorKind};
use crate::event::{Completion, Event};
use crate::host_array::HostArray;
use crate::layout::Reorder;
use crate::read;

impl Buffer {
    /// Waits for the contents and copies them to the host in row-major order. If the host can read the elements in
    /// place, this crate copies the contents itself instead of calling `PJRT_Buffer_ToHostBuffer`.
    ///
    /// The vector has as many elements as the [shape](Buffer::shape). If the buffer has [dynamic
    /// dimensions](Buffer::dynamic_dimension_indices), the vector begins with the elements of an array of the [actual
    /// extents](Buffer::unpadded_dimensions), and the remaining elements are zero.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer does not have the element type of `T`, or if the operation that computes the
    /// contents failed.
    #[doc(alias = "PJRT_Buffer_ToHostBuffer")]
    pub fn to_host<T: Element>(&self) -> Result<Vec<T>, Error> {
        let shape = self.typed_shape::<T>()?;
        let len = element::count(shape)?;
        checked(self.fetch::<T::Bits>(len, 1)?)
    }

    /// Waits for the contents and copies them into `data` in row-major order. `T` cannot be `bool`, because not every
    /// byte is a valid `bool`.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::to_host`] apply. Also returns an error if the length of `data` differs from the buffer's
    /// number of elements.
    ///
    /// # Aborts
    ///
    /// If the plugin has started the copy but fails to wait for its end, the process aborts, because the plugin may
    /// still write to `data`. [`Buffer::to_host`] and [`Buffer::to_host_async`] return an error in this case.
    pub fn to_host_into<T: Element + AnyBitPattern>(&self, data: &mut [T]) -> Result<(), Error> {
        let shape = self.typed_shape::<T>()?;
        let len = element::count(shape)?;
        if len != data.len() {
            return Err(Error::invalid(format!("{shape} has {len} elements, but the destination {}", data.len())));
        }
        if let Some(contents) = self.direct_read(size_of_val(data))? {
            contents.copy_to(data);
            return Ok(());
        }
        let api = self.handle().api();
        if !(api.supports::<slot::PJRT_Event_Await>() && api.supports::<slot::PJRT_Event_IsReady>()) {
            // A plugin without these functions may be unable to report the end of the copy, so copy to memory that can
            // be leaked.
            data.copy_from_slice(&self.fetch::<T>(len, 1)?);
            return Ok(());
        }
        // SAFETY: any bytes are valid elements, and this function does not return before the event is ready.
        let (event, reorder) = unsafe { self.start(data.as_mut_ptr().cast::<u8>(), size_of_val(data)) }?;
        match event.outcome() {
            Ok(result) => {
                result?;
                if let Some(reorder) = reorder {
                    data.copy_from_slice(&reorder.apply(data, 1));
                }
                Ok(())
            }
            Err(error) => {
                // The plugin may still write to the borrowed memory. Ending the process is safer than continuing.
                tracing::error!(%error, "a transfer into borrowed memory can neither be awaited nor stopped");
                std::process::abort()
            }
        }
    }

    /// Waits for the contents and copies them to the host as bytes, in row-major order and native byte order. An
    /// element that is smaller than a byte occupies one byte. The unused high bits of this byte are copies of the sign
    /// bit of a signed integer, and zero for other types. For example, -2 in `s4` is 0xfe.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::to_host`] apply, except that any element type is allowed.
    pub fn to_host_bytes(&self) -> Result<Vec<u8>, Error> {
        let shape = self.shape()?;
        let size = element::host_size(shape)?;
        let mut bytes = self.fetch::<u8>(size, shape.element_type.host_size())?;
        element::extend(shape.element_type, &mut bytes);
        Ok(bytes)
    }

    /// Waits for the contents and copies them to a host array with the buffer's shape.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::to_host_bytes`] apply.
    pub fn to_host_array(&self) -> Result<HostArray, Error> {
        let bytes = self.to_host_bytes()?;
        HostArray::new(self.shape()?.clone(), bytes)
    }

    /// Starts copying the contents to the host. Dropping the returned future does not stop the copy. The copy owns its
    /// destination memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::to_host`] apply. The future returns errors of the copy itself.
    pub fn to_host_async<T: Element>(&self) -> Result<HostRead<T>, Error>
    where
        T::Bits: Send,
    {
        let len = element::count(self.typed_shape::<T>()?)?;
        let mut memory = zeroed::<T::Bits>(len);
        let (data, size) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory.as_slice()));
        // SAFETY: `HostRead` keeps the memory until the event is ready. Moving the vector does not change the address
        // of its memory.
        let (event, reorder) = unsafe { self.start(data, size) }?;
        Ok(HostRead::of(&event, memory, reorder))
    }

    /// Starts copying `len` bytes of the buffer's memory on the device to the host, beginning at byte `offset`. The
    /// bytes have the layout of the device's memory. Dropping the returned future does not stop the copy. The copy owns
    /// its destination memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is not within the buffer's [`on_device_size`](Buffer::on_device_size), or if the
    /// buffer has been deleted. The future returns errors of the copy itself.
    #[doc(alias = "PJRT_Buffer_CopyRawToHost")]
    pub fn copy_raw_to_host(&self, offset: usize, len: usize) -> Result<HostRead<u8>, Error> {
        type Function = slot::PJRT_Buffer_CopyRawToHost;
        let (offset, transfer_size) = self.raw_range(offset, len)?;
        let raw = self.live()?;
        let mut memory = zeroed::<u8>(len);
        let mut args = PJRT_Buffer_CopyRawToHost_Args::new();
        args.buffer = raw.as_ptr();
        args.dst = memory.as_mut_ptr().cast::<c_void>();
        args.offset = offset;
        args.transfer_size = transfer_size;
        // SAFETY: C2 (calls), C5 (host memory): the buffer is live. `HostRead` keeps the memory until the event is
        // ready. Moving the vector does not change the address of its memory.
        unsafe { raw.api().call::<Function>(&mut args) }?;
        match read::object(args.event) {
            Ok(event) => {
                // SAFETY: C3 (objects): the plugin created the event for this caller.
                let event = unsafe { Event::new(event, raw.owner().clone()) };
                Ok(HostRead::of(&event, memory, None))
            }
            Err(broken) => {
                // It is unknown when the copy ends, so leak the memory.
                std::mem::forget(memory);
                Err(Error::malformed(Function::NAME, broken))
            }
        }
    }

    /// Converts the byte range of a raw copy for the C API. Returns an error if the range is not within the buffer.
    pub(crate) fn raw_range(&self, offset: usize, len: usize) -> Result<(i64, i64), Error> {
        byte_range(offset, len, self.on_device_size()?, "the buffer")
    }

    pub(crate) fn typed_shape<T: Element>(&self) -> Result<&Shape, Error> {
        let wanted = element::type_of::<T>();
        let shape = self.shape()?;
        if shape.element_type != wanted {
            return Err(Error::invalid(format!("the buffer is {shape}, not of element type {wanted}")));
        }
        Ok(shape)
    }

    /// Waits for the contents and returns a copy of them in row-major order, as `len` items of type `B`. Each element
    /// of the buffer consists of `unit` items.
    fn fetch<B: AnyBitPattern>(&self, len: usize, unit: usize) -> Result<Vec<B>, Error> {
        if let Some(contents) = self.direct_read(len.saturating_mul(size_of::<B>()))? {
            return Ok(contents.to_vec(len));
        }
        let mut memory = zeroed::<B>(len);
        // SAFETY: the memory stays valid until the event is ready, or is leaked.
        let started = unsafe { self.start(memory.as_mut_ptr().cast::<u8>(), size_of_val(memory.as_slice())) };
        let (event, reorder) = started?;
        match event.outcome() {
            Ok(result) => result.map(|()| row_major(memory, unit, reorder.as_ref())),
            Err(error) => {
                // It is unknown when the copy ends, so leak the memory.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Starts copying the contents to `dst`. If a `Reorder` is returned, the caller must apply it after the copy to get
    /// the elements in row-major order.
    ///
    /// # Safety
    ///
    /// `dst` is valid for writes of `size` bytes until the event is ready.
    pub(crate) unsafe fn start(&self, dst: *mut u8, size: usize) -> Result<(Event, Option<Reorder>), Error> {
        let shape = self.shape()?;
        element::check_data(shape.element_type, self.handle().api().version())?;
        let non_default = self.non_default_layout();
        // XLA of API 0.81 ignores the requested dimension order and uses the order of the buffer's layout. Request this
        // order, so that all plugins return the same order.
        let (order, reorder) = match non_default {
            None => (Order::row_major(shape.dimensions.len()), None),
            Some(own) => {
                if !own.tiles.is_empty() {
                    return Err(Error::unsupported(format!(
                        "the buffer of {shape} has the tiled layout {own}, which cannot be read back unless it is \
                         row-major; compile the program with row-major results"
                    )));
                }
                let broken = || {
                    let message = format!("the layout {own} does not fit {shape}");
                    Error::malformed_text(slot::PJRT_Buffer_GetMemoryLayout::NAME, message)
                };
                (Order::of(own), Some(Reorder::new(own, shape).ok_or_else(broken)?))
            }
        };
        let mut layout = order.layout();
        // SAFETY: this function's contract: `dst` is valid until the event is ready.
        let event = match unsafe { self.start_with_layout(dst, size, &raw mut layout) } {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                // A plugin that does not support layouts uses the order of the buffer's layout. If the rank exceeds 1,
                // the buffer's order is known only if the plugin reports it.
                let rank = shape.dimensions.len();
                let is_plain = |own: Layout| own.tiles.is_empty() && own.minor_to_major.len() == rank;
                let is_own = || non_default.is_some() || self.memory_layout().ok().flatten().is_some_and(is_plain);
                if rank > 1 && !is_own() {
                    return Err(error);
                }
                // SAFETY: this function's contract: `dst` is valid until the event is ready.
                unsafe { self.start_with_layout(dst, size, std::ptr::null_mut()) }
            }
            other => other,
        };
        Ok((event?, reorder))
    }

    /// # Safety
    ///
    /// The requirements of [`Buffer::start`] apply. `layout` is null or points to a valid layout.
    pub(crate) unsafe fn start_with_layout(
        &self,
        dst: *mut u8,
        size: usize,
        layout: *mut PJRT_Buffer_MemoryLayout,
    ) -> Result<Event, Error> {
        type Function = slot::PJRT_Buffer_ToHostBuffer;
        let raw = self.live()?;
        let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
        args.src = raw.as_ptr();
        args.host_layout = layout;
        if self.shape()?.element_type.bits() % 8 != 0 {
            // Plugins may pack elements that are smaller than a byte, so query the size of the copy.
            // SAFETY: C2 (calls), C5 (host memory): without a destination the function only returns the size.
            unsafe { raw.api().call::<Function>(&mut args) }?;
            if args.dst_size != size {
                let message =
                    format!("{} has {size} bytes on the host, but the plugin would copy {}", self.shape()?, {
                        args.dst_size
                    });
                return Err(Error::malformed_text(Function::NAME, message));
            }
        }
        args.dst = dst.cast::<c_void>();
        args.dst_size = size;
        // SAFETY: C2 (calls), C5 (host memory): the buffer is live. The layout is valid through the call, and the
        // destination until the event is ready.
        unsafe { raw.api().call::<Function>(&mut args) }?;
        let event = read::object(args.event).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        Ok(unsafe { Event::new(event, raw.owner().clone()) })
    }
}

/// A minor-to-major order of dimensions, stored inline for ranks up to 8.
struct Order(SmallVec<[i64; 8]>);

impl Order {
    fn row_major(rank: usize) -> Self {
        let mut order = smallvec![0; rank];
        for (dimension, place) in (0i64..).zip(order.iter_mut().rev()) {
            *place = dimension;
        }
        Self(order)
    }

    fn of(layout: &Layout) -> Self {
        Self(SmallVec::from_slice(&layout.minor_to_major))
    }

    /// Returns the untiled layout with this dimension order as a C struct. The struct points into `self`.
    fn layout(&self) -> PJRT_Buffer_MemoryLayout {
        let order = self.0.as_slice();
        let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
        tiled.minor_to_major = order.as_ptr();
        tiled.minor_to_major_size = order.len();
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
        layout.__bindgen_anon_1.tiled = tiled;
        layout
    }
}

/// Returns a vector of `len` zeroed items. The operating system allocates the pages of a large vector lazily.
pub(crate) fn zeroed<B: Zeroable>(len: usize) -> Vec<B> {
    bytemuck::allocation::zeroed_vec(len)
}

/// Returns the contents of `memory` in row-major order. `reorder` is `None` if the contents are already in row-major
/// order. Each element consists of `unit` items of `memory`.
fn row_major<B: Copy>(memory: Vec<B>, unit: usize, reorder: Option<&Reorder>) -> Vec<B> {
    match reorder {
        Some(reorder) => reorder.apply(&memory, unit),
        None => memory,
    }
}

/// Converts bit patterns to elements, or returns an error if a bit pattern is not valid.
pub(crate) fn checked<T: Element>(bits: Vec<T::Bits>) -> Result<Vec<T>, Error> {
    if !bits.iter().all(T::is_valid_bit_pattern) {
        let message = format!("the plugin returned bytes that are not a valid {}", T::TYPE);
        return Err(Error::malformed_text(slot::PJRT_Buffer_ToHostBuffer::NAME, message));
    }
    const {
        assert!(size_of::<T>() == size_of::<T::Bits>());
        assert!(align_of::<T>() == align_of::<T::Bits>());
    }
    let mut bits = ManuallyDrop::new(bits);
    // SAFETY: the elements were checked. `T` and `T::Bits` have the same layout, as `CheckedBitPattern` requires and
    // the assertions confirm. The pointer, length and capacity are those of a vector that is not used again.
    Ok(unsafe { Vec::from_raw_parts(bits.as_mut_ptr().cast::<T>(), bits.len(), bits.capacity()) })
}

/// A pending copy to the host, and a future that returns the copied elements.
///
/// A `HostRead` may be dropped or leaked at any time, because the pending copy owns the memory that the plugin writes
/// to.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
/// let read = x.to_host_async::<f32>()?;
/// // The copy runs meanwhile. In an async function, write `read.await?`.
/// assert_eq!(read.wait()?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the elements come from the future"]
pub struct HostRead<T: Element> {
    state: Arc<ReadState<T::Bits>>,
}

struct ReadState<B> {
    completion: Completion,
    /// The copied contents. `None` until the copy has ended, and after the contents were returned.
    memory: Mutex<Option<Vec<B>>>,
    /// The conversion of the copied contents to row-major order. `None` if they are row-major.
    reorder: Option<Reorder>,
}

impl<T: Element> HostRead<T>
where
    T::Bits: Send,
{
    /// Creates the future of a copy that writes to `memory` until `event` is ready.
    pub(crate) fn of(event: &Event, memory: Vec<T::Bits>, reorder: Option<Reorder>) -> Self {
        let state = Arc::new(ReadState { completion: Completion::default(), memory: Mutex::default(), reorder });
        let theirs = state.clone();
        event.hold(memory, move |memory, result| {
            *theirs.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
            theirs.completion.complete(result);
        });
        Self { state }
    }

    /// Returns whether the copy has ended, with or without an error.
    pub fn is_ready(&self) -> bool {
        self.state.completion.is_complete()
    }

    /// Blocks until the copy has ended, and returns the elements.
    ///
    /// # Errors
    ///
    /// Returns the error of the copy, or of the operation that computes the contents.
    pub fn wait(self) -> Result<Vec<T>, Error> {
        self.state.completion.wait()?;
        self.take()
    }

    fn take(&self) -> Result<Vec<T>, Error> {
        let memory = self.state.memory.lock().unwrap_or_else(PoisonError::into_inner).take();
        let memory = memory.ok_or_else(|| Error::invalid("this future has already returned the elements"))?;
        checked(row_major(memory, 1, self.state.reorder.as_ref()))
    }
}

impl<T: Element> fmt::Debug for HostRead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRead").finish_non_exhaustive()
    }
}

impl<T: Element> Future for HostRead<T>
where
    T::Bits: Send,
{
    type Output = Result<Vec<T>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.state.completion.poll(cx))?;
        Poll::Ready(self.take())
    }
}

#[cfg(test)]
mod tests {
    use recorded_messages::assert_message;

    use super::*;

    #[test]
    fn rejects_invalid_bool_bytes() {
        assert_eq!(checked::<bool>(vec![0, 1]).unwrap(), [false, true]);
        let error = checked::<bool>(vec![0, 2]).unwrap_err();
        assert_message!("download::bool_bytes", "2", error);
        assert_eq!(checked::<f64>(vec![1.5]).unwrap(), [1.5]);
    }

    #[test]
    fn row_major_order_of_any_rank() {
        for rank in [0usize, 1, 3, 8, 9, 12] {
            let order = Order::row_major(rank);
            // SAFETY: `layout` sets this member.
            let tiled = unsafe { order.layout().__bindgen_anon_1.tiled };
            // SAFETY: the array belongs to `order`, which is live.
            let dims = unsafe { read::slice(tiled.minor_to_major, tiled.minor_to_major_size) }.unwrap();
            assert_eq!(dims, Layout::row_major(rank).minor_to_major);
        }
    }
}
