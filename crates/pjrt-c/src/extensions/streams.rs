//! Streams of the driver, for work outside PJRT.

use pjrt::extensions::Streams;
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::buffer::dp_buffer;
use crate::client::dp_device;
use crate::extensions::info::extension;

/// Returns the driver's stream, such as a `cudaStream_t`, in which other code can wait for buffers of the device.
#[c_function]
pub fn dp_device_stream_for_external_ready_events(device: &dp_device) -> Outcome<i64> {
    let streams = extension::<Streams>(&device.inner.client().plugin(), "Stream")?;
    let stream = streams.stream_for_external_ready_events(&device.inner)?;
    // A pointer has at most 64 bits.
    Ok(stream.as_raw() as i64)
}

/// Makes later work in a stream of the driver wait until the buffer is ready. The stream is one of the device.
#[c_function]
pub fn dp_device_wait_until_buffer_ready_on_stream(device: &dp_device, stream: i64, buffer: &dp_buffer) -> Outcome<()> {
    let streams = extension::<Streams>(&device.inner.client().plugin(), "Stream")?;
    let stream =
        isize::try_from(stream).map_err(|_| Failure::argument(format!("`stream` is {stream}, which is no address")))?;
    // SAFETY: K5 (the caller names a stream of the device).
    let stream = unsafe { pjrt::extensions::Stream::from_raw(stream, &device.inner) };
    Ok(streams.wait_until_buffer_ready_on_stream(&stream, &buffer.inner)?)
}
