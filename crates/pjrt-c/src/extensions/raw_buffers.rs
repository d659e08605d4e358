//! The bytes of a buffer on its device.

use std::ffi::c_void;

use pjrt::extensions::{RawBuffer, RawBuffers};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::foreign::{Lent, dp_release_callback};
use crate::border::handle::Owned;
use crate::border::memory::Fill;
use crate::buffer::{dp_buffer, dp_event};
use crate::extensions::info::extension;

/// The bytes of a buffer on its device, without shape and layout.
pub struct dp_raw_buffer {
    inner: RawBuffer,
}

/// Returns the bytes of a buffer.
#[c_function]
pub fn dp_buffer_raw_alias(buffer: &dp_buffer) -> Outcome<Owned<dp_raw_buffer>> {
    let raw = extension::<RawBuffers>(&buffer.inner.client().plugin(), "RawBuffer")?;
    Ok(Owned(dp_raw_buffer { inner: raw.alias(&buffer.inner)? }))
}

/// Returns the number of bytes.
#[c_function]
pub fn dp_raw_buffer_size(raw: &dp_raw_buffer) -> Outcome<usize> {
    Ok(raw.inner.on_device_size()?)
}

/// Returns the address of the bytes for the host's processor, or NULL if it cannot read them.
#[c_function]
pub fn dp_raw_buffer_host_pointer(raw: &dp_raw_buffer) -> Outcome<*const c_void> {
    Ok(raw.inner.host_pointer()?.map_or(std::ptr::null(), |address| address.as_ptr().cast_const()))
}

/// Copies `data_size` bytes from byte `offset` to `data`, and waits for the copy.
#[c_function]
pub fn dp_raw_buffer_read(raw: &dp_raw_buffer, offset: usize, data: Fill<u8>) -> Outcome<()> {
    let bytes = raw.inner.read(offset, data.len())?;
    data.all(&bytes)
}

/// Starts to copy `data_size` bytes to byte `offset`. No program may use the buffer meanwhile. The data must stay
/// readable until `release` is called, which may be NULL if the data stays readable until the event is ready.
#[c_function]
pub fn dp_raw_buffer_write(raw: &dp_raw_buffer, offset: usize, data: Lent) -> Outcome<Owned<dp_event>> {
    // SAFETY: K5 (no program uses a buffer whose bytes the caller writes).
    Ok(Owned(dp_event::new(unsafe { raw.inner.write(offset, data) }?)))
}
