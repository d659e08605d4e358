//! External references to a buffer (`PJRT_Buffer_IncreaseExternalReferenceCount`), and the address of its memory.

use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;

use bytemuck::AnyBitPattern;
use pjrt_sys::*;
use pjrt_types::{Element, Shape};

use crate::element;
use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::references::Holder;
use crate::table::read;

impl Buffer {
    /// Prevents the plugin from freeing, moving or donating the buffer's memory, so that code outside PJRT can use the
    /// memory's address. To release the reference, drop it.
    ///
    /// Waits until the buffer is ready, because the memory may not exist before.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer was deleted, or if the operation that computes the contents failed.
    #[doc(alias = "PJRT_Buffer_IncreaseExternalReferenceCount")]
    pub fn external_reference(&self) -> Result<ExternalReference<'_>, Error> {
        self.wait_once()?;
        Reference::new(self, Holder::Caller).map(ExternalReference)
    }

    /// Waits until the buffer is ready, and returns the address of its memory as an integer. The plugin may free or
    /// move the memory at any time. To prevent this, use [`Buffer::external_reference`].
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer was deleted, or if the operation that computes the contents failed.
    #[doc(alias = "PJRT_Buffer_UnsafePointer")]
    pub fn unsafe_pointer(&self) -> Result<usize, Error> {
        self.wait_once()?;
        self.live()?.query::<slot::PJRT_Buffer_UnsafePointer>()
    }

    /// Waits until the buffer is ready, and returns a view of its contents without a copy. The buffer must be row-major
    /// and in memory that the host can read, as on CPU devices.
    ///
    /// The contents cannot change while the view exists. The view borrows the buffer, so the buffer cannot be donated,
    /// and [`Buffer::delete`] returns an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer's element type is not that of `T`, if the host cannot read the buffer's memory,
    /// if the layout is not row-major, if the extents other than 0 exceed the address space, or if the operation that
    /// computes the contents fails.
    pub fn host_view<T: Element + AnyBitPattern>(&self) -> Result<HostView<'_, T>, Error> {
        type Function = slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer;
        let shape = self.shape()?;
        let wanted = element::type_of::<T>();
        if shape.element_type != wanted {
            return Err(Error::invalid(format!("the buffer is {shape}, not of element type {wanted}")));
        }
        if !self.is_on_cpu()? {
            return Err(Error::unsupported(format!(
                "the buffer, {shape}, is not in memory that the host can read; copy it with to_host"
            )));
        }
        let elements = self.row_major_elements(shape)?;
        let reference = self.external_reference()?;
        let address = reference.address()?.cast::<T>().cast_const();
        // SAFETY: C5 (host memory): the host can read the buffer's memory while the reference lives. No program writes
        // to this memory, because a borrowed buffer cannot be donated. Every bit pattern is a valid `T`.
        let elements =
            unsafe { read::slice(address, elements) }.map_err(|broken| Error::malformed(Function::NAME, broken))?;
        Ok(HostView { elements, shape, _reference: reference })
    }

    /// Returns the number of elements. Returns an error if the layout is not row-major, if an extent is negative, if
    /// the shape exceeds the address space, or if the buffer's memory is too small for the elements.
    pub(crate) fn row_major_elements(&self, shape: &Shape) -> Result<usize, Error> {
        if let Some(layout) = self.non_default_layout() {
            return Err(Error::unsupported(format!(
                "the buffer, {shape}, has the layout {layout}; copy it with to_host"
            )));
        }
        let elements = element::count(shape)?;
        let needed = elements.saturating_mul(shape.element_type.host_size());
        let size = self.on_device_size()?;
        if size < needed {
            let message = format!("{shape} takes {needed} bytes, but the buffer has {size}");
            return Err(Error::malformed_text(slot::PJRT_Buffer_OnDeviceSizeInBytes::NAME, message));
        }
        Ok(elements)
    }
}

/// A reference that prevents the plugin from freeing, moving or donating a buffer's memory.
#[must_use = "dropping the reference releases the memory"]
pub struct ExternalReference<'a>(Reference<&'a Buffer>);

impl ExternalReference<'_> {
    /// Returns the address of the buffer's memory on the device. The address is valid while the reference exists.
    ///
    /// The contents are ready. Code must not write to the memory, because PJRT buffers are immutable.
    #[doc(alias = "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")]
    pub fn address(&self) -> Result<*mut c_void, Error> {
        self.0.address()
    }
}

impl fmt::Debug for ExternalReference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalReference").field("buffer", self.0.buffer).finish()
    }
}

/// An external reference to a buffer that `B` borrows or shares. This crate counts the references, and the plugin holds
/// one for all of them.
pub(crate) struct Reference<B: Deref<Target = Buffer>> {
    buffer: B,
    holder: Holder,
}

impl<B: Deref<Target = Buffer>> Reference<B> {
    /// Takes a reference. The contents must be ready: XLA ends the process if they are an error, and otherwise waits
    /// for them while other threads wait for the reference.
    pub(crate) fn new(buffer: B, holder: Holder) -> Result<Self, Error> {
        let take = || buffer.handle().query::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>();
        buffer.external().add(holder, take)?;
        Ok(Self { buffer, holder })
    }

    pub(crate) fn address(&self) -> Result<*mut c_void, Error> {
        self.buffer.handle().query::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>()
    }
}

impl<B: Deref<Target = Buffer>> Drop for Reference<B> {
    #[doc(alias = "PJRT_Buffer_DecreaseExternalReferenceCount")]
    fn drop(&mut self) {
        let release = || self.buffer.handle().query::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>();
        if let Some(Err(error)) = self.buffer.external().remove(self.holder, release) {
            tracing::warn!(%error, "a reference to a buffer's memory could not be released");
        }
    }
}

/// A view of a buffer's row-major elements in memory that the host can read. The view dereferences to a slice.
#[must_use = "dropping the view releases the memory"]
pub struct HostView<'a, T> {
    elements: &'a [T],
    shape: &'a Shape,
    _reference: ExternalReference<'a>,
}

impl<T> HostView<'_, T> {
    /// Returns the element type and extents of the buffer.
    pub fn shape(&self) -> &Shape {
        self.shape
    }
}

impl<T> Deref for HostView<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T: fmt::Debug> fmt::Debug for HostView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.elements).finish()
    }
}
