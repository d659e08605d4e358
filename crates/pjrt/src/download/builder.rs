//! `PJRT_Buffer_ToHostBuffer`: copies from a device to the host.

use std::ffi::c_void;

use bytemuck::AnyBitPattern;
use pjrt_sys::*;
use pjrt_types::{Element, Layout, Shape};
use smallvec::{SmallVec, smallvec};

use crate::download::host_read::{HostRead, HostReadInto, checked, zeroed};
use crate::download::raw_download::RawDownload;
use crate::element;
use crate::error::{Error, ErrorKind};
use crate::host_array::HostArray;
use crate::layout::{HostOrder, MemoryLayout, Reorder};
use crate::objects::buffer::Buffer;
use crate::objects::event::Event;
use crate::table::read;
use crate::upload::loan::Loan;

/// First API minor version whose plugins receive the caller's layout. XLA of API 0.81 ignores the requested order, and
/// XLA of API 0.106 uses it. For plugins of older API versions, this crate reorders the copied elements on the host.
const HONOURS_LAYOUT: i32 = 106;

/// A copy of a buffer's contents to the host that has not started. [`Buffer::download`] creates it.
///
/// The functions without `start` in their name wait for the copy. They read the contents in place if the host can do
/// so, instead of calling `PJRT_Buffer_ToHostBuffer`. The functions with `start` return a future. Dropping the future
/// does not stop the copy, which owns its destination memory.
///
/// ```
/// use pjrt::Layout;
/// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
///
/// let x = client.buffer_from_host(&[1i32, 2, 3, 4, 5, 6], &[2, 3])?;
/// assert_eq!(x.download().array()?.shape().to_string(), "s32[2,3]");
/// // In column-major order, for example for a Fortran library.
/// let columns = Layout::new(vec![0, 1]);
/// assert_eq!(x.download().layout(&columns).elements::<i32>()?, [1, 4, 2, 5, 3, 6]);
/// // Without blocking. In an async function, write `.await?`.
/// assert_eq!(x.download().start::<i32>()?.wait()?, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a download starts when one of its functions is called"]
pub struct Download<'a> {
    buffer: &'a Buffer,
    layout: Option<&'a Layout>,
}

impl Buffer {
    /// Waits for the contents and copies them to the host in row-major order. [`Buffer::download`] has the other forms
    /// of copies. If the host can read the elements in place, this crate copies the contents itself instead of calling
    /// `PJRT_Buffer_ToHostBuffer`.
    ///
    /// The vector has as many elements as the [shape](Buffer::shape). If the buffer has [dynamic
    /// dimensions](Buffer::dynamic_dimension_indices), the vector begins with the elements of an array of the [actual
    /// extents](Buffer::unpadded_dimensions), and the remaining elements are zero.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer does not have the element type of `T`, or if the operation that computes the
    /// contents failed.
    pub fn to_host<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.download().elements()
    }

    /// Returns a download of the contents, which the functions of [`Download`] start.
    #[doc(alias = "PJRT_Buffer_ToHostBuffer")]
    pub fn download(&self) -> Download<'_> {
        Download { buffer: self, layout: None }
    }

    fn typed_shape<T: Element>(&self) -> Result<&Shape, Error> {
        let wanted = element::type_of::<T>();
        let shape = self.shape()?;
        if shape.element_type != wanted {
            return Err(Error::invalid(format!("the buffer is {shape}, not of element type {wanted}")));
        }
        Ok(shape)
    }

    /// # Safety
    ///
    /// The requirements of [`Download::write_to`] apply. `layout` is null or points to a valid layout.
    unsafe fn start_with_layout(
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

impl<'a> Download<'a> {
    /// Sets the order of the elements on the host. The default is row-major order. Layouts with tiles are not
    /// supported.
    pub fn layout(mut self, layout: &'a Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Waits for the contents and returns their elements.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer does not have the element type of `T`, if the layout is tiled or does not fit the
    /// shape, or if the operation that computes the contents failed.
    pub fn elements<T: Element>(self) -> Result<Vec<T>, Error> {
        let len = element::count(self.buffer.typed_shape::<T>()?)?;
        checked(self.fetch::<T::Bits>(len, 1)?)
    }

    /// Waits for the contents and returns them as bytes, in native byte order. An element that is smaller than a byte
    /// occupies one byte. The unused high bits of this byte are copies of the sign bit of a signed integer, and zero
    /// for other types. For example, -2 in `s4` is 0xfe.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::elements`] apply, except that any element type is allowed.
    pub fn bytes(self) -> Result<Vec<u8>, Error> {
        let shape = self.buffer.shape()?;
        let size = element::host_size(shape)?;
        let mut bytes = self.fetch::<u8>(size, shape.element_type.host_size())?;
        element::extend(shape.element_type, &mut bytes);
        Ok(bytes)
    }

    /// Waits for the contents and returns them as a row-major array with the buffer's shape.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::bytes`] apply. Also returns an error if a layout is set.
    pub fn array(self) -> Result<HostArray, Error> {
        if let Some(layout) = self.layout {
            return Err(Error::invalid(format!(
                "a HostArray is row-major, but the download has the layout {layout}; download bytes instead"
            )));
        }
        let bytes = self.bytes()?;
        HostArray::new(self.buffer.shape()?.clone(), bytes)
    }

    /// Waits for the contents and copies their elements to `data`. `T` cannot be `bool`, because not every byte is a
    /// valid `bool`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::elements`] apply. Also returns an error if the length of `data` differs from the buffer's
    /// number of elements.
    ///
    /// # Aborts
    ///
    /// If the plugin has started the copy but fails to wait for its end, the process aborts, because the plugin may
    /// still write to `data`. The other functions return an error in this case.
    pub fn copy_to<T: Element + AnyBitPattern>(self, data: &mut [T]) -> Result<(), Error> {
        let shape = self.buffer.typed_shape::<T>()?;
        let len = element::count(shape)?;
        if len != data.len() {
            return Err(Error::invalid(format!("{shape} has {len} elements, but the destination {}", data.len())));
        }
        self.fill(data, 1)
    }

    /// Waits for the contents and copies them to `data` as bytes, in the format of [`Self::bytes`].
    ///
    /// # Errors
    ///
    /// The errors of [`Self::bytes`] apply. Also returns an error if the length of `data` is not the buffer's
    /// [`host_size`](Shape::host_size).
    ///
    /// # Aborts
    ///
    /// The process aborts as described for [`Self::copy_to`].
    pub fn copy_bytes_to(self, data: &mut [u8]) -> Result<(), Error> {
        let shape = self.buffer.shape()?;
        let size = element::host_size(shape)?;
        if size != data.len() {
            let message = format!("{shape} has {size} bytes on the host, but the destination {}", data.len());
            return Err(Error::invalid(message));
        }
        self.fill(data, shape.element_type.host_size())?;
        element::extend(shape.element_type, data);
        Ok(())
    }

    /// Waits for the contents and copies them to `data`. Each element of the buffer consists of `unit` items.
    fn fill<B: AnyBitPattern>(self, data: &mut [B], unit: usize) -> Result<(), Error> {
        if self.layout.is_none()
            && let Some(contents) = self.buffer.direct_read(size_of_val(data))?
        {
            contents.copy_to(data);
            return Ok(());
        }
        let api = self.buffer.handle().api();
        if !(api.supports::<slot::PJRT_Event_Await>() && api.supports::<slot::PJRT_Event_IsReady>()) {
            // A plugin without these functions may be unable to report the end of the copy, so copy to memory that can
            // be leaked.
            data.copy_from_slice(&self.fetch::<B>(data.len(), unit)?);
            return Ok(());
        }
        // SAFETY: any bytes are valid elements, and this function does not return before the event is ready.
        let (event, order) = unsafe { self.write_to(data.as_mut_ptr().cast::<u8>(), size_of_val(data)) }?;
        match event.outcome() {
            Ok(result) => {
                result?;
                order.apply_to(data, unit);
                Ok(())
            }
            Err(error) => {
                // The plugin may still write to the borrowed memory. Ending the process is safer than continuing.
                tracing::error!(%error, "a transfer into borrowed memory can neither be awaited nor stopped");
                std::process::abort()
            }
        }
    }

    /// Starts copying the elements.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::elements`] apply. The future returns errors of the copy itself.
    pub fn start<T: Element>(self) -> Result<HostRead<T>, Error>
    where
        T::Bits: Send,
    {
        let len = element::count(self.buffer.typed_shape::<T>()?)?;
        let mut memory = zeroed::<T::Bits>(len);
        let (data, size) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory.as_slice()));
        // SAFETY: `HostRead` keeps the memory until the event is ready. Moving the vector does not change the address
        // of its memory.
        let (event, order) = unsafe { self.write_to(data, size) }?;
        Ok(HostRead::of(&event, memory, order))
    }

    /// Starts copying the contents as bytes, in the format of [`Self::bytes`].
    ///
    /// # Errors
    ///
    /// The errors of [`Self::bytes`] apply. The future returns errors of the copy itself.
    pub fn start_bytes(self) -> Result<HostReadInto<Vec<u8>>, Error> {
        let size = element::host_size(self.buffer.shape()?)?;
        self.start_into(zeroed(size))
    }

    /// Starts copying the contents to `memory`, in the format of [`Self::bytes`]. The future returns the memory. If the
    /// future is dropped, the copy continues, and the memory is dropped when the copy has ended.
    ///
    /// ```
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    /// let x = client.buffer_from_host(&[1u8, 2, 3], &[3])?;
    /// let memory = vec![0u8; 3];
    /// // In an async function, write `.await?`.
    /// let memory = x.download().start_into(memory)?.wait()?;
    /// assert_eq!(memory, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Self::bytes`] apply. Also returns an error if the size of `memory` is not the buffer's
    /// [`host_size`](Shape::host_size). The future returns errors of the copy itself. After an error, the memory is not
    /// returned to the caller.
    pub fn start_into<D: AsMut<[u8]> + Send + 'static>(self, memory: D) -> Result<HostReadInto<D>, Error> {
        let shape = self.buffer.shape()?;
        let mut loan = Loan::new(memory);
        let bytes = loan.data_mut().as_mut();
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        if shape.host_size() != Some(len) {
            loan.give_back();
            let size =
                shape.host_size().map_or("more than the address space".to_owned(), |size| format!("{size} bytes"));
            return Err(Error::invalid(format!("{shape} has {size} on the host, but the destination {len}")));
        }
        // SAFETY: `HostReadInto` keeps the memory allocated until the event is ready, or leaks it.
        match unsafe { self.write_to(start, len) } {
            Ok((event, order)) => Ok(HostReadInto::of(&event, loan, order, shape.element_type)),
            Err(error) => {
                // By contract C5 the plugin does not write to the memory after a failed call. The error `Malformed`
                // means that the call succeeded but returned no event, so the plugin may still write to the memory.
                if error.kind() != ErrorKind::Malformed {
                    loan.give_back();
                }
                Err(error)
            }
        }
    }

    /// Selects `len` bytes of the buffer's memory on the device, beginning at byte `offset`. They have the layout of
    /// the device's memory, so a download with [`Self::layout`] is an error.
    pub fn raw(self, offset: usize, len: usize) -> RawDownload<'a> {
        RawDownload::new(self.buffer, offset, len, self.layout.is_some())
    }

    /// Waits for the contents and returns a copy of them, as `len` items of type `B`. Each element of the buffer
    /// consists of `unit` items.
    fn fetch<B: AnyBitPattern>(self, len: usize, unit: usize) -> Result<Vec<B>, Error> {
        if self.layout.is_none()
            && let Some(contents) = self.buffer.direct_read(len.saturating_mul(size_of::<B>()))?
        {
            return Ok(contents.to_vec(len));
        }
        let mut memory = zeroed::<B>(len);
        // SAFETY: the memory stays valid until the event is ready, or is leaked.
        let started = unsafe { self.write_to(memory.as_mut_ptr().cast::<u8>(), size_of_val(memory.as_slice())) };
        let (event, order) = started?;
        match event.outcome() {
            Ok(result) => result.map(|()| order.apply(memory, unit)),
            Err(error) => {
                // It is unknown when the copy ends, so leak the memory.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Starts copying the contents to `dst`. After the copy, the caller must apply the `HostOrder` to get the elements
    /// in the order of the download.
    ///
    /// # Safety
    ///
    /// `dst` is valid for writes of `size` bytes until the event is ready.
    unsafe fn write_to(self, dst: *mut u8, size: usize) -> Result<(Event, HostOrder), Error> {
        let Some(layout) = self.layout else {
            // SAFETY: this function's contract: `dst` is valid until the event is ready.
            let (event, copied) = unsafe { self.write_row_major(dst, size) }?;
            return Ok((event, HostOrder::new(copied, None)));
        };
        let shape = self.buffer.shape()?;
        element::check_data(shape.element_type, self.buffer.handle().api().version())?;
        if !layout.tiles.is_empty() {
            return Err(Error::unsupported(format!("arrays on the host have no tiles, unlike the layout {layout}")));
        }
        let raw = MemoryLayout::new(layout, shape)?;
        if self.buffer.handle().api().version().minor >= HONOURS_LAYOUT {
            let mut raw = raw.raw();
            // SAFETY: this function's contract: `dst` is valid until the event is ready.
            match unsafe { self.buffer.start_with_layout(dst, size, &raw mut raw) } {
                Ok(event) => return Ok((event, HostOrder::default())),
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        let wanted = Reorder::new(layout, shape)
            .ok_or_else(|| Error::invalid(format!("{layout} is not a layout of {shape}: name each dimension once")))?;
        // SAFETY: this function's contract: `dst` is valid until the event is ready.
        let (event, copied) = unsafe { self.write_row_major(dst, size) }?;
        Ok((event, HostOrder::new(copied, Some(wanted))))
    }

    /// Starts copying the contents to `dst`. If a `Reorder` is returned, the caller must apply it after the copy to get
    /// the elements in row-major order.
    ///
    /// # Safety
    ///
    /// `dst` is valid for writes of `size` bytes until the event is ready.
    unsafe fn write_row_major(self, dst: *mut u8, size: usize) -> Result<(Event, Option<Reorder>), Error> {
        let shape = self.buffer.shape()?;
        element::check_data(shape.element_type, self.buffer.handle().api().version())?;
        let non_default = self.buffer.non_default_layout();
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
        let event = match unsafe { self.buffer.start_with_layout(dst, size, &raw mut layout) } {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                // A plugin that does not support layouts uses the order of the buffer's layout. If the rank exceeds 1,
                // the buffer's order is known only if the plugin reports it.
                let rank = shape.dimensions.len();
                let is_plain = |own: Layout| own.tiles.is_empty() && own.minor_to_major.len() == rank;
                let is_own =
                    || non_default.is_some() || self.buffer.memory_layout().ok().flatten().is_some_and(is_plain);
                if rank > 1 && !is_own() {
                    return Err(error);
                }
                // SAFETY: this function's contract: `dst` is valid until the event is ready.
                unsafe { self.buffer.start_with_layout(dst, size, std::ptr::null_mut()) }
            }
            other => other,
        };
        Ok((event?, reorder))
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

#[cfg(test)]
mod tests {
    use super::*;

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
