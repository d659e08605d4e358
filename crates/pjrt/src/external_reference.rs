//! `PJRT_Buffer_IncreaseExternalReferenceCount` and the address of a buffer's memory.

use std::ffi::c_void;
use std::fmt;
use std::ops::Deref;

use bytemuck::AnyBitPattern;
use pjrt_sys::*;
use pjrt_types::{Element, Shape};

use crate::buffer::Buffer;
use crate::element;
use crate::error::Error;
use crate::read;
use crate::references::Holder;

impl Buffer {
    /// Keeps the plugin from freeing, moving or donating the buffer's memory, so that code outside PJRT can use its
    /// address. Release the reference by dropping it.
    ///
    /// # Errors
    ///
    /// A deleted buffer.
    #[doc(alias = "PJRT_Buffer_IncreaseExternalReferenceCount")]
    pub fn external_reference(&self) -> Result<ExternalReference<'_>, Error> {
        Reference::new(self, Holder::Caller).map(ExternalReference)
    }

    /// Address of the buffer's memory as a number. It is only valid while the memory is: prefer
    /// [`Buffer::external_reference`].
    ///
    /// # Errors
    ///
    /// A deleted buffer.
    #[doc(alias = "PJRT_Buffer_UnsafePointer")]
    pub fn unsafe_pointer(&self) -> Result<usize, Error> {
        self.live()?.query::<slot::PJRT_Buffer_UnsafePointer>()
    }

    /// Waits for the contents and returns them where they are, without a copy. The buffer must be in memory of the
    /// host's processor and row-major, as on CPU devices.
    ///
    /// The contents cannot change while the view exists: the buffer is borrowed, so that it cannot be donated, and
    /// [`Buffer::delete`] is refused.
    ///
    /// # Errors
    ///
    /// An element type other than that of `T`, a buffer in another memory or with another layout, the error of the
    /// operation that computes the contents, or an error of the plugin.
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
        self.wait()?;
        let reference = self.external_reference()?;
        let address = reference.address()?.cast::<T>().cast_const();
        // SAFETY: C5: the host can read memory of this size while the reference lives, and no program writes it, because
        // the buffer cannot be donated meanwhile. Any bytes are valid elements.
        let elements =
            unsafe { read::slice(address, elements) }.map_err(|broken| Error::malformed(Function::NAME, broken))?;
        Ok(HostView { elements, shape, _reference: reference })
    }

    /// Number of elements, if they are row-major and fit in the buffer's memory.
    pub(crate) fn row_major_elements(&self, shape: &Shape) -> Result<usize, Error> {
        if let Some(layout) = self.non_default_layout() {
            return Err(Error::unsupported(format!(
                "the buffer, {shape}, has the layout {layout}; copy it with to_host"
            )));
        }
        let elements = shape.num_elements().ok_or_else(|| Error::invalid(format!("{shape} has negative extents")))?;
        let needed = elements.saturating_mul(shape.element_type.host_size());
        let size = self.on_device_size()?;
        if size < needed {
            let message = format!("{shape} takes {needed} bytes, but the buffer has {size}");
            return Err(Error::malformed_text(slot::PJRT_Buffer_OnDeviceSizeInBytes::NAME, message));
        }
        Ok(elements)
    }
}

/// A reference that keeps a buffer's memory where it is.
#[must_use = "dropping the reference releases the memory"]
pub struct ExternalReference<'a>(Reference<&'a Buffer>);

impl ExternalReference<'_> {
    /// Address of the buffer's memory on its device. It is valid while the reference exists.
    ///
    /// Code that reads the memory must wait until the buffer is ready. It must not write it, because a buffer is
    /// immutable for everyone else.
    #[doc(alias = "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")]
    pub fn address(&self) -> Result<*mut c_void, Error> {
        self.0.address()
    }
}

impl fmt::Debug for ExternalReference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalReference").field("buffer", self.0.buffer()).finish()
    }
}

/// A counted external reference to a buffer, which is borrowed or shared. The plugin counts it, too.
pub(crate) struct Reference<B: Deref<Target = Buffer>> {
    counted: Counted<B>,
}

impl<B: Deref<Target = Buffer>> Reference<B> {
    pub(crate) fn new(buffer: B, holder: Holder) -> Result<Self, Error> {
        // The order matters: `delete` marks the buffer first and then checks for references.
        let counted = Counted::new(buffer, holder);
        counted.buffer.live()?.query::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>()?;
        Ok(Self { counted })
    }

    fn buffer(&self) -> &Buffer {
        &self.counted.buffer
    }

    pub(crate) fn address(&self) -> Result<*mut c_void, Error> {
        self.buffer().handle().query::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>()
    }
}

impl<B: Deref<Target = Buffer>> Drop for Reference<B> {
    #[doc(alias = "PJRT_Buffer_DecreaseExternalReferenceCount")]
    fn drop(&mut self) {
        if let Err(error) = self.buffer().handle().query::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>() {
            tracing::warn!(%error, "a reference to a buffer's memory could not be released");
        }
    }
}

/// A buffer whose external references include this value.
struct Counted<B: Deref<Target = Buffer>> {
    buffer: B,
    holder: Holder,
}

impl<B: Deref<Target = Buffer>> Counted<B> {
    fn new(buffer: B, holder: Holder) -> Self {
        buffer.external().add(holder);
        Self { buffer, holder }
    }
}

impl<B: Deref<Target = Buffer>> Drop for Counted<B> {
    fn drop(&mut self) {
        self.buffer.external().remove(self.holder);
    }
}

/// The elements of a buffer in memory of the host's processor, row-major. It dereferences to a slice.
#[must_use = "dropping the view releases the memory"]
pub struct HostView<'a, T> {
    elements: &'a [T],
    shape: &'a Shape,
    _reference: ExternalReference<'a>,
}

impl<T> HostView<'_, T> {
    /// Element type and extents of the buffer.
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
