//! Functions of the caller that exchange values with a running program.

use std::ffi::c_void;

use pjrt::{CopyToDeviceStream, ErrorCode};
use pjrt_c_macros::c_function;

use crate::border::error::{DP_OK, dp_code, dp_error, error_code};
use crate::border::failure::Outcome;
use crate::border::foreign::{Context, Lent, dp_release_callback};
use crate::border::handle;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::buffer::dp_event;
use crate::program::execute_options::dp_execute_options;

/// A part of a value that a program sends to the host.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_sent_chunk {
    /// Position of the device among those of the run.
    pub device_index: usize,
    /// The bytes, which are valid during the call.
    pub data: *const c_void,
    /// The number of bytes.
    pub size: usize,
    /// The number of bytes of the whole value.
    pub total_size: usize,
    /// Whether this is the last part.
    pub is_last: bool,
}

/// A function that receives a part of a value. It returns `DP_OK`, or the code of an error with which the run fails. It
/// may run on any thread, and must not wait for the run.
pub type dp_send_callback = Option<unsafe extern "C" fn(context: *mut c_void, chunk: *const dp_sent_chunk) -> dp_code>;

/// A function that provides a value that the program receives. The stream belongs to the function, which may keep it
/// and send the value later. The function may run on any thread, and must not wait for the run.
pub type dp_recv_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, device_index: usize, stream: *mut dp_copy_to_device_stream)>;

/// A stream by which the program sends a value to a device.
pub struct dp_copy_to_device_stream {
    inner: CopyToDeviceStream,
}

/// Adds a function for the values that the program sends to the host on a channel. `release` is called with `context`
/// when neither the options nor a run need it any longer, and may be NULL.
#[c_function]
pub fn dp_execute_options_add_send_callback(
    options: &mut dp_execute_options,
    channel_id: i64,
    callback: dp_send_callback,
    context: Context,
) -> Outcome<()> {
    let callback = memory::function(callback, "callback")?;
    let call = move |chunk: pjrt::SentChunk<'_>| {
        let chunk = dp_sent_chunk {
            device_index: chunk.device_index,
            data: chunk.bytes.as_ptr().cast(),
            size: chunk.bytes.len(),
            total_size: chunk.total_size,
            is_last: chunk.is_last,
        };
        // SAFETY: K5 (functions of the caller): it was passed together with the context.
        let code = unsafe { callback(context.get(), &raw const chunk) };
        if code == DP_OK {
            Ok(())
        } else {
            Err((error_code(code).unwrap_or(ErrorCode::UNKNOWN), "the caller's function failed".to_owned()))
        }
    };
    options.inner = std::mem::take(&mut options.inner).with_send_callback(channel_id, call);
    Ok(())
}

/// Adds a function for the values that the program receives from the host on a channel. `release` is called with
/// `context` when neither the options nor a run need it any longer, and may be NULL.
#[c_function]
pub fn dp_execute_options_add_recv_callback(
    options: &mut dp_execute_options,
    channel_id: i64,
    callback: dp_recv_callback,
    context: Context,
) -> Outcome<()> {
    let callback = memory::function(callback, "callback")?;
    let call = move |device_index: usize, stream: CopyToDeviceStream| {
        let stream = handle::give(dp_copy_to_device_stream { inner: stream });
        // SAFETY: K5 (functions of the caller): it was passed together with the context.
        unsafe { callback(context.get(), device_index, stream) };
    };
    options.inner = std::mem::take(&mut options.inner).with_recv_callback(channel_id, call);
    Ok(())
}

/// Sets whether values in these functions are row-major, instead of in the layout of the device's memory. Needs API
/// 0.108 or later.
#[c_function]
pub fn dp_execute_options_set_major_to_minor_callbacks(options: &mut dp_execute_options, enabled: bool) -> Outcome<()> {
    options.inner.major_to_minor_callbacks = enabled;
    Ok(())
}

/// Returns the number of bytes of the value.
#[c_function]
pub fn dp_copy_to_device_stream_total_bytes(stream: &dp_copy_to_device_stream) -> Outcome<usize> {
    Ok(stream.inner.total_bytes()?)
}

/// Returns the number of bytes of which the size of each part must be a multiple.
#[c_function]
pub fn dp_copy_to_device_stream_granule_size(stream: &dp_copy_to_device_stream) -> Outcome<usize> {
    Ok(stream.inner.granule_size()?)
}

/// Returns the number of bytes that were sent.
#[c_function]
pub fn dp_copy_to_device_stream_current_bytes(stream: &dp_copy_to_device_stream) -> Outcome<usize> {
    Ok(stream.inner.current_bytes()?)
}

/// Sends the next part of the value. The data must stay readable until `release` is called, which may be NULL if the
/// data stays readable until the event is ready.
#[c_function]
pub fn dp_copy_to_device_stream_add_chunk(
    stream: &mut dp_copy_to_device_stream,
    data: Lent,
) -> Outcome<Owned<dp_event>> {
    Ok(Owned(dp_event::new(stream.inner.add_chunk(data)?)))
}
