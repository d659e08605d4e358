//! `dp_buffer`: an array on a device.

use pjrt::Buffer;
use pjrt::raw::AsRaw;
use pjrt_c_macros::c_function;
use pjrt_sys::PJRT_Buffer;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error, error_code};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory::{Fill, Name, Plain};
use crate::border::text::{Lazy, NO_TEXT};
use crate::buffer::event::dp_event;
use crate::buffer::shape::dp_shape;
use crate::client::{dp_client, dp_device, dp_memory};

use crate::client::objects::placement;

/// An array on a device. Its contents may still be pending; functions that use them wait.
pub struct dp_buffer {
    pub(crate) inner: Buffer,
    layout: Lazy,
}

impl dp_buffer {
    #[inline]
    pub(crate) fn new(inner: Buffer) -> Self {
        Self { inner, layout: Lazy::default() }
    }
}

/// Returns the buffer's object of PJRT, which is valid as long as the buffer. Do not destroy it. Returns NULL if
/// `buffer` is not a buffer.
#[c_function]
pub fn dp_buffer_raw(buffer: &dp_buffer) -> *mut PJRT_Buffer {
    buffer.inner.as_raw()
}

/// Takes over a buffer that the program created itself with functions of the client's table. It is destroyed with the
/// last reference, so the program must not destroy it. After an error, the buffer still belongs to the program.
#[c_function]
pub fn dp_buffer_adopt(client: &dp_client, buffer: *mut PJRT_Buffer) -> Outcome<Owned<dp_buffer>> {
    if buffer.is_null() || !buffer.is_aligned() {
        return Err(Failure::argument("`buffer` is not a PJRT_Buffer"));
    }
    // SAFETY: K5 (a buffer to adopt belongs to its client and to nobody else).
    Ok(Owned(dp_buffer::new(unsafe { pjrt::raw::own_buffer(&client.inner, buffer) }?)))
}

/// Returns the element type and the extents. The extents belong to the buffer. If some are dynamic, these are their
/// bounds.
#[c_function]
pub fn dp_buffer_shape(buffer: &dp_buffer) -> Outcome<dp_shape> {
    Ok(dp_shape::lend(buffer.inner.shape()?))
}

/// Returns the size of the contents on the host in bytes. Elements with fewer than 8 bits have one byte each.
#[c_function]
pub fn dp_buffer_host_size(buffer: &dp_buffer) -> Outcome<usize> {
    let shape = buffer.inner.shape()?;
    shape.host_size().ok_or_else(|| Failure::argument(format!("{shape} has more bytes than this machine can address")))
}

/// Fills `dimensions` with the actual extents of a buffer with dynamic dimensions. `dimensions_size` must be the number
/// of dimensions.
#[c_function]
pub fn dp_buffer_unpadded_dimensions(buffer: &dp_buffer, dimensions: Fill<i64>) -> Outcome<()> {
    dimensions.expect(buffer.inner.dimensions()?.len())?;
    dimensions.all(&buffer.inner.unpadded_dimensions()?)
}

/// Fills `is_dynamic` with whether each dimension is dynamic. `is_dynamic_size` must be the number of dimensions.
#[c_function]
pub fn dp_buffer_dynamic_dimensions(buffer: &dp_buffer, is_dynamic: Fill<bool>) -> Outcome<()> {
    let indices = buffer.inner.dynamic_dimension_indices()?;
    let rank = buffer.inner.dimensions()?.len();
    is_dynamic.each((0..rank).map(|index| indices.contains(&index)))
}

/// Returns the size of the buffer in the device's memory, in bytes.
#[c_function]
pub fn dp_buffer_on_device_size(buffer: &dp_buffer) -> Outcome<usize> {
    Ok(buffer.inner.on_device_size()?)
}

/// Returns the layout in the device's memory as in HLO, such as `{1,0}`, or a string with null `data` if the plugin
/// does not report it. The text belongs to the buffer.
#[c_function]
pub fn dp_buffer_layout(buffer: &dp_buffer) -> Outcome<dp_string> {
    let layout =
        buffer.layout.get(|| Ok(buffer.inner.memory_layout()?.map_or(String::new(), |layout| layout.to_string())))?;
    Ok(if layout.size == 0 { NO_TEXT } else { layout })
}

/// Returns the device that holds the buffer.
#[c_function]
pub fn dp_buffer_device(buffer: &dp_buffer) -> Outcome<Owned<dp_device>> {
    Ok(Owned(dp_device::new(buffer.inner.device()?)))
}

/// Returns the memory that holds the buffer.
#[c_function]
pub fn dp_buffer_memory(buffer: &dp_buffer) -> Outcome<Owned<dp_memory>> {
    Ok(Owned(dp_memory::new(buffer.inner.memory()?)))
}

/// Returns another object for the buffer's client.
#[c_function]
pub fn dp_buffer_client(buffer: &dp_buffer) -> Outcome<Owned<dp_client>> {
    Ok(Owned(dp_client::new(buffer.inner.client())))
}

/// Returns whether the buffer is in memory that the host's processor can read.
#[c_function]
pub fn dp_buffer_is_on_cpu(buffer: &dp_buffer) -> Outcome<bool> {
    Ok(buffer.inner.is_on_cpu()?)
}

/// Returns an event that is ready when the contents are.
#[c_function]
pub fn dp_buffer_ready_event(buffer: &dp_buffer) -> Outcome<Owned<dp_event>> {
    Ok(Owned(dp_event::new(buffer.inner.ready_event()?)))
}

/// Waits until the contents are ready, and returns the error of the operation that computes them if it failed.
#[c_function]
pub fn dp_buffer_await(buffer: &dp_buffer) -> Outcome<()> {
    Ok(buffer.inner.wait()?)
}

/// Frees the memory on the device. The buffer remains an object, whose contents can no longer be used. Returns
/// `DP_INVALID_ARGUMENT` while other code uses the memory, as after `dp_buffer_to_dlpack`.
#[c_function]
pub fn dp_buffer_delete(buffer: &dp_buffer) -> Outcome<()> {
    Ok(buffer.inner.delete()?)
}

/// Returns whether the memory on the device was freed, by `dp_buffer_delete` or because the buffer was donated.
#[c_function]
pub fn dp_buffer_is_deleted(buffer: &dp_buffer) -> Outcome<bool> {
    Ok(buffer.inner.is_deleted()?)
}

/// Copies the buffer to a device or memory of the same client. Exactly one of `device` and `memory` is not NULL.
#[c_function]
pub fn dp_buffer_copy_to(
    buffer: &dp_buffer,
    device: *const dp_device,
    memory: *const dp_memory,
) -> Outcome<Owned<dp_buffer>> {
    if device.is_null() && memory.is_null() {
        return Err(Failure::argument("`device` and `memory` are NULL; name the destination"));
    }
    // SAFETY: K2 (exclusive use).
    let placement = unsafe { placement(device, memory) }?;
    Ok(Owned(dp_buffer::new(buffer.inner.copy_to(placement)?)))
}

/// Returns a buffer with the same memory and another shape and layout. `layout` may be NULL: row-major. Needs API 0.85
/// or later.
#[c_function]
pub fn dp_buffer_bitcast(
    buffer: &dp_buffer,
    shape: Plain<dp_shape>,
    layout: Option<&str>,
) -> Outcome<Owned<dp_buffer>> {
    // SAFETY: K3 (arrays are readable).
    let shape = unsafe { shape.0.read() }?;
    let layout = layout.map(super::shape::layout).transpose()?;
    Ok(Owned(dp_buffer::new(buffer.inner.bitcast(&shape, layout.as_ref())?)))
}

/// Waits until the contents are ready, and returns the address of the buffer's memory as a number. The plugin may free
/// or move the memory at any time. `dp_buffer_to_dlpack` keeps it in place.
#[c_function]
pub fn dp_buffer_unsafe_pointer(buffer: &dp_buffer) -> Outcome<usize> {
    Ok(buffer.inner.unsafe_pointer()?)
}

/// Creates a buffer with unspecified contents in `memory`. `layout` may be NULL: the plugin's default.
#[c_function]
pub fn dp_memory_create_uninitialized_buffer(
    memory: &dp_memory,
    shape: Plain<dp_shape>,
    layout: Option<&str>,
) -> Outcome<Owned<dp_buffer>> {
    // SAFETY: K3 (arrays are readable).
    let shape = unsafe { shape.0.read() }?;
    let layout = layout.map(super::shape::layout).transpose()?;
    Ok(Owned(dp_buffer::new(memory.inner.buffer(&shape).layout(layout.as_ref()).uninitialized()?)))
}

/// Creates a buffer in `memory` whose contents are an error: programs that read it fail with this error. `code` is one
/// of `DP_*`, and not `DP_OK`.
#[c_function]
pub fn dp_memory_create_error_buffer(
    memory: &dp_memory,
    shape: Plain<dp_shape>,
    code: dp_code,
    message: Name<'_>,
) -> Outcome<Owned<dp_buffer>> {
    // SAFETY: K3 (arrays are readable).
    let shape = unsafe { shape.0.read() }?;
    Ok(Owned(dp_buffer::new(memory.inner.buffer(&shape).error(error_code(code)?, message)?)))
}
