//! `PJRT_Client_BufferFromHostBuffer`: transfers from the host to a device.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{Element, HostBufferSemantics, Layout, Shape};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::device::Device;
use crate::element;
use crate::error::Error;
use crate::event::Event;
use crate::layout::{self, MemoryLayout};
use crate::loan::Loan;
use crate::memory::Memory;
use crate::read;

/// The destination of a transfer: a device or a memory of the client. A plugin written with the crate `device-plugin`
/// receives it as `device_plugin::Placement`, which identifies devices and memories by index.
///
/// ```
/// # use pjrt::{ClientOptions, Placement};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let device = client.default_device()?;
/// let x = client.buffer_from_host_to(&[1.0f32], &[1], Placement::Device(&device))?;
/// let y = client.buffer_from_host_to(&[1.0f32], &[1], &device.default_memory()?)?; // by `From`
/// assert_eq!(x.memory()?, y.memory()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Placement<'a> {
    /// The default memory of the client's first addressable device.
    #[default]
    Default,
    /// The default memory of a device.
    Device(&'a Device),
    /// A memory of the client.
    Memory(&'a Memory),
}

impl<'a> From<&'a Device> for Placement<'a> {
    fn from(device: &'a Device) -> Self {
        Self::Device(device)
    }
}

impl<'a> From<&'a Memory> for Placement<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self::Memory(memory)
    }
}

/// First minor API version in which XLA's plugins convert uploads to the requested layout. XLA of API 0.106 reports the
/// requested layout for the buffer, but leaves the elements row-major.
const HONOURS_DEVICE_LAYOUT: i32 = 115;

/// A pointer to host data, with its shape and strides. Without strides, the data is row-major.
pub(crate) struct HostData<'a> {
    pub(crate) data: *const u8,
    pub(crate) shape: &'a Shape,
    pub(crate) byte_strides: &'a [i64],
}

impl Client {
    /// Copies a row-major array to the client's first addressable device. If `dims` is empty, the array is a scalar.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements does not match the dimensions.
    #[doc(alias = "PJRT_Client_BufferFromHostBuffer")]
    pub fn buffer_from_host<T: Element>(&self, data: &[T], dims: &[i64]) -> Result<Buffer, Error> {
        self.buffer_from_host_to(data, dims, Placement::Default)
    }

    /// Copies a row-major array to a device or memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_host`] apply. Also returns an error if the device or memory belongs to
    /// another client.
    pub fn buffer_from_host_to<'a, T: Element>(
        &self,
        data: &[T],
        dims: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        let shape = shape_of::<T>(data.len(), dims)?;
        self.copy(bytemuck::cast_slice(data).as_ptr(), &shape, &[], placement.into())
    }

    /// Copies a row-major array of any element type, given as bytes in native byte order. Each element that is smaller
    /// than a byte occupies one byte.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bytes does not match the shape.
    pub fn buffer_from_bytes<'a>(
        &self,
        bytes: &[u8],
        shape: &Shape,
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        check_bytes(bytes.len(), shape)?;
        self.copy(bytes.as_ptr(), shape, &[], placement.into())
    }

    /// Copies an array whose elements need not be contiguous. Element `[i, j, …]` of the array is `data[offset + i *
    /// strides[0] + j * strides[1] + …]`. Strides count elements and may be zero or negative.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of strides differs from the number of dimensions, or if an element is outside
    /// `data`.
    pub fn buffer_from_strided<'a, T: Element>(
        &self,
        data: &[T],
        offset: usize,
        dims: &[i64],
        strides: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        let shape = Shape::new(element::type_of::<T>(), dims);
        let byte_strides = check_strides(data.len(), offset, &shape, strides)?;
        // Offset the pointer of the whole slice, because elements with negative strides are at lower addresses than
        // `offset`. Use `wrapping_add`, because the pointer may be out of bounds if the array has no elements.
        let start = data.as_ptr().wrapping_add(offset).cast::<u8>();
        self.copy(start, &shape, &byte_strides, placement.into())
    }

    /// Transfers a row-major array. The elements are not copied if the device can use host memory in place, as CPU
    /// devices can. `data`, such as a `Vec<T>` or an `Arc<[T]>`, is dropped when the plugin no longer uses it. The
    /// plugin may use it until the buffer is destroyed, and may drop it on a thread of the plugin.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_host_to`] apply.
    pub fn buffer_from_owned<'a, T: Element, D: AsRef<[T]> + Send + Sync + 'static>(
        &self,
        data: D,
        dims: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        let loan = Loan::new(data);
        let elements: &[T] = loan.data().as_ref();
        let start = elements.as_ptr().cast::<u8>();
        let shape = match shape_of::<T>(elements.len(), dims) {
            Ok(shape) => shape,
            Err(error) => {
                loan.give_back();
                return Err(error);
            }
        };
        // SAFETY: the elements of `shape` are at `start`, in memory that the data of `loan` owns.
        unsafe { self.send_loan(loan, start, &shape, placement.into()) }
    }

    /// Transfers a row-major array that the plugin may use in place as long as the buffer lives.
    ///
    /// # Safety
    ///
    /// The elements of `shape` are at `start`, in memory that the data of `loan` owns.
    pub(crate) unsafe fn send_loan<D: Send + Sync + 'static>(
        &self,
        loan: Loan<D>,
        start: *const u8,
        shape: &Shape,
        placement: Placement<'_>,
    ) -> Result<Buffer, Error> {
        let host = HostData { data: start, shape, byte_strides: &[] };
        // SAFETY: the data is dropped only when the event is ready, and no thread changes the data before the event is
        // ready.
        match unsafe { self.send(&host, HostBufferSemantics::ImmutableZeroCopy, placement) } {
            // By contract C5 the plugin does not read the data after a failed call.
            Err(error) => {
                loan.give_back();
                Err(error)
            }
            Ok((buffer, None)) => {
                loan.give_back();
                buffer
            }
            Ok((buffer, Some(done))) => {
                // The plugin may use the memory as long as the buffer lives, so `Client::synchronize` must not wait for
                // this event.
                done.lend(loan, |loan, _| loan.give_back());
                buffer
            }
        }
    }

    /// Copies an array of any element type whose elements need not be contiguous. Element `[i, j, …]` of the array
    /// begins at byte `offset + i * byte_strides[0] + j * byte_strides[1] + …`. Strides may be zero or negative.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of strides differs from the number of dimensions, or if an element is outside
    /// `bytes`.
    pub fn buffer_from_strided_bytes<'a>(
        &self,
        bytes: &[u8],
        offset: usize,
        shape: &Shape,
        byte_strides: &[i64],
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        check_byte_strides(bytes.len(), offset, shape, byte_strides)?;
        // Offset the pointer of the whole slice, because elements with negative strides are at lower addresses than
        // `offset`. Use `wrapping_add`, because the pointer may be out of bounds if the array has no elements.
        self.copy(bytes.as_ptr().wrapping_add(offset), shape, byte_strides, placement.into())
    }

    /// Copies host data. The plugin reads the data only during the call.
    fn copy(&self, data: *const u8, shape: &Shape, strides: &[i64], placement: Placement<'_>) -> Result<Buffer, Error> {
        let host = HostData { data, shape, byte_strides: strides };
        // SAFETY: C5 (host memory): with these semantics, the plugin reads the data only during the call. The callers
        // borrow the data during the call, and have checked that all elements are within it.
        let (buffer, _done) = unsafe { self.send(&host, HostBufferSemantics::ImmutableOnlyDuringCall, placement) }?;
        buffer
    }

    /// Transfers host data to a buffer with the plugin's default layout. See [`Client::send_with_layout`].
    ///
    /// # Safety
    ///
    /// The elements of `host` are valid for as long as the plugin may use them under `semantics`.
    pub(crate) unsafe fn send(
        &self,
        host: &HostData<'_>,
        semantics: HostBufferSemantics,
        placement: Placement<'_>,
    ) -> Result<(Result<Buffer, Error>, Option<Event>), Error> {
        // SAFETY: this function's contract: the elements are valid for as long as the plugin may use them.
        unsafe { self.send_with_layout(host, semantics, placement, None) }
    }

    /// Transfers host data. An outer error means that the plugin no longer uses the data. Otherwise, the plugin may use
    /// the data until the event is ready, even if the inner result is an error. If there is no event, the plugin no
    /// longer uses the data.
    ///
    /// # Safety
    ///
    /// The elements of `host` are valid for as long as the plugin may use them under `semantics`.
    pub(crate) unsafe fn send_with_layout(
        &self,
        host: &HostData<'_>,
        semantics: HostBufferSemantics,
        placement: Placement<'_>,
        device_layout: Option<&Layout>,
    ) -> Result<(Result<Buffer, Error>, Option<Event>), Error> {
        let foreign = || Error::invalid("the device or memory belongs to another client");
        element::check_data(host.shape.element_type, self.api().version())?;
        let mut device = None;
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        match placement {
            Placement::Default => device = Some(self.default_device_raw()?),
            Placement::Device(to) => {
                if !Arc::ptr_eq(to.handle().owner(), self.inner()) {
                    return Err(foreign());
                }
                device = Some(to.raw());
            }
            Placement::Memory(to) => {
                if !Arc::ptr_eq(to.handle().owner(), self.inner()) {
                    return Err(foreign());
                }
                args.memory = to.handle().as_ptr();
            }
        }
        args.client = self.inner().raw().as_ptr();
        args.data = host.data.cast::<c_void>();
        args.type_ = PJRT_Buffer_Type(host.shape.element_type.as_raw());
        args.dims = host.shape.dimensions.as_ptr();
        args.num_dims = host.shape.dimensions.len();
        if !host.byte_strides.is_empty() {
            // Leave the pointer null if there are no strides. XLA of API 0.106 treats every non-null pointer as
            // strides, and aborts the process if the number of strides differs from the rank.
            args.byte_strides = host.byte_strides.as_ptr();
            args.num_byte_strides = host.byte_strides.len();
        }
        let converted = device_layout.map(|layout| MemoryLayout::new(layout, host.shape)).transpose()?;
        if let Some(layout) = device_layout
            && (layout::is_non_default(layout, host.shape) || !layout.tiles.is_empty())
            && self.api().version().minor < HONOURS_DEVICE_LAYOUT
        {
            let version = self.api().version();
            return Err(Error::unsupported(format!(
                "an upload to the layout {layout} requires API 0.{HONOURS_DEVICE_LAYOUT}; the plugin has API {version}"
            )));
        }
        let mut converted = converted.as_ref().map(MemoryLayout::raw);
        if let Some(layout) = &mut converted {
            args.device_layout = layout;
        }
        args.host_buffer_semantics = PJRT_HostBufferSemantics(semantics as u32);
        args.device = device.map_or(ptr::null_mut(), |device| device.0.as_ptr());
        let call = || {
            (args.done_with_host_buffer, args.buffer) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: C2 (calls), C5 (host memory): the client is live, and the device and memory belong to it. The
            // data is valid by this function's contract, and the plugin does not read it after a failed call. The
            // dimensions, strides and layout live through the call.
            unsafe { self.api().call::<slot::PJRT_Client_BufferFromHostBuffer>(&mut args) }
        };
        self.inner().allocating(|| self.devices_at(placement), call)?;
        let done = read::object(args.done_with_host_buffer).ok();
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        let done = done.map(|raw| unsafe { Event::new(raw, self.inner().clone()) });
        let buffer = read::object(args.buffer)
            .map_err(|broken| Error::malformed(slot::PJRT_Client_BufferFromHostBuffer::NAME, broken))
            // SAFETY: C3 (objects): the plugin created the buffer for this caller.
            .map(|raw| unsafe { Buffer::new(raw, self.inner().clone(), device) });
        Ok((buffer, done))
    }
}

/// Returns the shape of an array of type `T` with the extents `dims`, or an error if `len` is not its number of
/// elements.
pub(crate) fn shape_of<T: Element>(len: usize, dims: &[i64]) -> Result<Shape, Error> {
    let shape = Shape::new(element::type_of::<T>(), dims);
    let expected = element::count(&shape)?;
    if expected == len {
        return Ok(shape);
    }
    Err(Error::invalid(format!("{shape} has {expected} elements, but the data has {len}")))
}

pub(crate) fn check_bytes(len: usize, shape: &Shape) -> Result<(), Error> {
    let expected = element::host_size(shape)?;
    if expected == len {
        return Ok(());
    }
    Err(Error::invalid(format!("{shape} has {expected} bytes on the host, but the data has {len}")))
}

/// Converts `strides` from elements to bytes. `len` and `offset` count elements. Returns an error if the number of
/// strides differs from the rank, or if an element of the array is outside the `len` elements.
fn check_strides(len: usize, offset: usize, shape: &Shape, strides: &[i64]) -> Result<Vec<i64>, Error> {
    let size = shape.element_type.host_size();
    let in_bytes = |stride: &i64| stride.checked_mul(i64::try_from(size).ok()?);
    let byte_strides = strides.iter().map(in_bytes).collect::<Option<Vec<_>>>();
    let byte_strides = byte_strides.ok_or_else(|| outside(shape, strides))?;
    let (len, offset) = (len.saturating_mul(size), offset.saturating_mul(size));
    // Report the caller's strides in the error message, not the strides in bytes.
    let checked = check_byte_strides(len, offset, shape, &byte_strides);
    checked.map_err(|error| if strides.len() == shape.dimensions.len() { outside(shape, strides) } else { error })?;
    Ok(byte_strides)
}

fn outside(shape: &Shape, strides: &[i64]) -> Error {
    Error::invalid(format!("elements of {shape} with strides {strides:?} lie outside the data"))
}

/// Checks that each dimension has a stride and that every element of the array is within `len` bytes. The first element
/// begins at byte `offset`, and the strides are in bytes.
fn check_byte_strides(len: usize, offset: usize, shape: &Shape, strides: &[i64]) -> Result<(), Error> {
    let rank = shape.dimensions.len();
    if strides.len() != rank {
        return Err(Error::invalid(format!("{shape} has {rank} dimensions, but {} strides", strides.len())));
    }
    let outside = || outside(shape, strides);
    if shape.num_elements().ok_or_else(outside)? == 0 {
        return Ok(());
    }
    let number = |number: usize| i128::try_from(number).map_err(|_| outside());
    let (mut low, mut high) = (number(offset)?, number(offset)? + number(shape.element_type.host_size())?);
    for (extent, stride) in shape.dimensions.iter().zip(strides) {
        let reach = i128::from(extent - 1) * i128::from(*stride);
        low += reach.min(0);
        high += reach.max(0);
    }
    if low < 0 || high > number(len)? { Err(outside()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use pjrt_types::ElementType;
    use recorded_messages::assert_message;

    use super::*;

    #[test]
    fn lengths_must_match() {
        assert!(shape_of::<f32>(6, &[2, 3]).is_ok());
        assert!(shape_of::<f32>(1, &[]).is_ok());
        assert!(shape_of::<f32>(0, &[0, 5]).is_ok());
        let error = shape_of::<f32>(1, &[16]).unwrap_err();
        assert_message!("upload::lengths", "1 element of 16", error);
        assert!(shape_of::<f32>(1, &[-1]).is_err());
        assert!(shape_of::<f32>(0, &[i64::MAX, i64::MAX]).is_err());
        assert!(check_bytes(3, &Shape::new(ElementType::S4, [3])).is_ok());
        assert!(check_bytes(2, &Shape::new(ElementType::S4, [3])).is_err());
    }

    #[test]
    fn strides_must_stay_within() {
        let shape = Shape::new(ElementType::F32, [2, 3]);
        assert_eq!(check_strides(6, 0, &shape, &[3, 1]).unwrap(), [12, 4]);
        assert_eq!(check_strides(6, 5, &shape, &[-3, -1]).unwrap(), [-12, -4]);
        assert_eq!(check_strides(1, 0, &shape, &[0, 0]).unwrap(), [0, 0]);
        assert!(check_strides(5, 0, &shape, &[3, 1]).is_err());
        assert!(check_strides(6, 4, &shape, &[-3, -1]).is_err());
        assert!(check_strides(6, 0, &shape, &[1]).is_err());
        assert!(check_strides(6, 0, &shape, &[i64::MAX, i64::MAX]).is_err());
        assert!(check_strides(0, 0, &Shape::new(ElementType::F32, [0]), &[1]).is_ok());
        assert!(check_strides(usize::MAX, usize::MAX, &shape, &[3, 1]).is_err());
        assert!(check_byte_strides(21, 0, &shape, &[9, 4]).is_ok());
        assert!(check_byte_strides(20, 0, &shape, &[9, 4]).is_err());
        assert!(check_byte_strides(21, 1, &shape, &[9, 4]).is_err());
    }
}
