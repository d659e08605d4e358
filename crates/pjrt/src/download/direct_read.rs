//! Copies buffers that the host can read directly, without `PJRT_Buffer_ToHostBuffer`.
//!
//! XLA's CPU plugins run the copy of `PJRT_Buffer_ToHostBuffer` on another thread. Starting the thread takes longer
//! than copying a small buffer.

use bytemuck::AnyBitPattern;
use pjrt_sys::*;
use pjrt_types::{ApiVersion, ElementType};

use crate::element;
use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::external_reference::Reference;
use crate::objects::references::Holder;

/// The contents of a buffer in memory that the host can read.
pub(crate) struct DirectRead<'a> {
    data: *const u8,
    size: usize,
    _reference: Reference<&'a Buffer>,
}

impl Buffer {
    /// Waits for the contents and returns them, if the host can read them in place as `size` bytes in row-major order.
    /// Otherwise returns `None`, and the plugin has to copy the contents.
    ///
    /// # Errors
    ///
    /// Returns an error if the operation that computes the contents failed.
    pub(crate) fn direct_read(&self, size: usize) -> Result<Option<DirectRead<'_>>, Error> {
        if !self.is_directly_readable(size) {
            return Ok(None);
        }
        self.wait_once()?;
        let Ok(reference) = Reference::new(self, Holder::Copy) else { return Ok(None) };
        match reference.address() {
            Ok(data) if !data.is_null() => {
                Ok(Some(DirectRead { data: data.cast::<u8>().cast_const(), size, _reference: reference }))
            }
            _ => Ok(None),
        }
    }

    fn is_directly_readable(&self, size: usize) -> bool {
        let api = self.handle().api();
        let is_supported = api.supports::<slot::PJRT_Event_Await>()
            && api.supports::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>()
            && api.supports::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>()
            && api.supports::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>();
        // The sizes must be equal, because the memory of a buffer with dynamic dimensions contains more than the
        // elements.
        is_supported
            && size > 0
            && self.shape().is_ok_and(|shape| has_whole_bytes(shape.element_type, api.version()))
            && self.is_on_cpu().unwrap_or(false)
            && self.non_default_layout().is_none()
            && self.on_device_size().is_ok_and(|on_device| on_device == size)
    }
}

/// Returns whether the plugin supports elements of this type and each element fills whole bytes. Such elements have the
/// same bytes on the device and on the host.
fn has_whole_bytes(element_type: ElementType, version: ApiVersion) -> bool {
    element_type.bits() == 8 * element_type.host_size() && element::check_data(element_type, version).is_ok()
}

impl DirectRead<'_> {
    /// Copies the contents to `target`, which must have the size of the contents.
    pub(crate) fn copy_to<B: AnyBitPattern>(&self, target: &mut [B]) {
        assert_eq!(size_of_val(target), self.size, "the size of the copy");
        // SAFETY: C5 (host memory): the host can read memory of this size while the reference lives, and no program
        // writes it, because the buffer is borrowed and cannot be donated. The target is borrowed exclusively, and any
        // bytes are valid elements.
        unsafe { std::ptr::copy_nonoverlapping(self.data, target.as_mut_ptr().cast::<u8>(), self.size) };
    }

    /// Copies the contents to a new vector of `len` items, whose total size must be that of the contents.
    pub(crate) fn to_vec<B: AnyBitPattern>(&self, len: usize) -> Vec<B> {
        assert_eq!(len.checked_mul(size_of::<B>()), Some(self.size), "the size of the copy");
        let mut copy = Vec::<B>::with_capacity(len);
        // SAFETY: C5 (host memory): the host can read memory of this size while the reference lives, and no program
        // writes it, because the buffer is borrowed and cannot be donated. The vector has room for `len` items, whose
        // total size is that of the contents.
        unsafe { std::ptr::copy_nonoverlapping(self.data, copy.as_mut_ptr().cast::<u8>(), self.size) };
        // SAFETY: the copy initialized `len` items, and any bytes are valid items.
        unsafe { copy.set_len(len) };
        copy
    }
}
