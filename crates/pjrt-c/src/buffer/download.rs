//! Copies of buffers to the host.

use pjrt::Layout;
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::foreign::Lent;
use crate::border::handle::Owned;
use crate::border::memory::Fill;
use crate::buffer::buffer::dp_buffer;
use crate::buffer::event::dp_event;
use crate::buffer::shape::layout;

/// Waits for the contents of a buffer, and copies them to `data`. `data_size` must be the size that
/// `dp_buffer_host_size` returns. Elements with fewer than 8 bits have one byte each. `layout` is the order of the
/// elements on the host as in HLO, such as `{0,1}`; NULL means row-major. If the buffer has dynamic dimensions, the
/// array of the actual extents comes first, and the rest is unspecified. Mirrors `PJRT_Buffer_ToHostBuffer`.
#[c_function]
pub fn dp_buffer_to_host(buffer: &dp_buffer, layout: Option<&str>, data: Fill<u8>) -> Outcome<()> {
    let layout = parse(layout)?;
    // SAFETY: K1 (outputs are writable).
    let mut data = unsafe { Lent::of_fill(&data) };
    let mut download = buffer.inner.download();
    if let Some(layout) = &layout {
        download = download.layout(layout);
    }
    Ok(download.copy_bytes_to(data.as_mut())?)
}

/// Starts to copy the contents of a buffer to `data`, like `dp_buffer_to_host`. Nothing else may use the memory, which
/// must stay allocated, until the event is ready, even if the event is released before. The buffer may be released at
/// once.
#[c_function]
pub fn dp_buffer_start_to_host(buffer: &dp_buffer, layout: Option<&str>, data: Fill<u8>) -> Outcome<Owned<dp_event>> {
    let layout = parse(layout)?;
    // SAFETY: K1 (outputs are writable, here until the event is ready).
    let data = unsafe { Lent::of_fill(&data) };
    let mut download = buffer.inner.download();
    if let Some(layout) = &layout {
        download = download.layout(layout);
    }
    let read = download.start_into(data)?;
    Ok(Owned(dp_event::of_future(async move { read.await.map(drop) })))
}

/// Starts to copy `data_size` bytes of a buffer's memory on the device, from byte `offset`, to `data`. They have the
/// layout of the device's memory. Nothing else may use the memory, which must stay allocated, until the event is ready.
/// Mirrors `PJRT_Buffer_CopyRawToHost`.
#[c_function]
pub fn dp_buffer_start_raw_to_host(buffer: &dp_buffer, offset: usize, data: Fill<u8>) -> Outcome<Owned<dp_event>> {
    let read = buffer.inner.download().raw(offset, data.len()).start()?;
    // SAFETY: K1 (outputs are writable, here until the event is ready).
    let mut data = unsafe { Lent::of_fill(&data) };
    Ok(Owned(dp_event::of_future(async move {
        let bytes = read.await?;
        data.as_mut().copy_from_slice(&bytes);
        Ok(())
    })))
}

fn parse(text: Option<&str>) -> Outcome<Option<Layout>> {
    text.map(layout).transpose()
}
