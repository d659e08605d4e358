//! `PJRT_Buffer_CopyRawToHost`: copies of bytes from a device's memory to the host.

use std::ffi::c_void;

use pjrt_sys::*;

use crate::download::byte_range::byte_range;
use crate::download::host_read::{HostRead, zeroed};
use crate::error::Error;
use crate::layout::HostOrder;
use crate::objects::buffer::Buffer;
use crate::objects::event::Event;
use crate::table::read;

/// First API minor version whose plugins copy raw bytes of a buffer that is not ready. XLA of API 0.81 crashes, and XLA
/// of API 0.106 waits for the contents.
const AWAITS_CONTENTS: i32 = 106;

/// A copy of bytes of a buffer's memory on the device that has not started. [`Download::raw`](crate::Download::raw)
/// creates it. The bytes have the layout of the device's memory.
///
/// ```
/// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1u8, 2, 3, 4], &[4])?;
/// assert_eq!(x.download().raw(1, 2).start()?.wait()?, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a download starts when one of its functions is called"]
pub struct RawDownload<'a> {
    pub(crate) buffer: &'a Buffer,
    offset: usize,
    pub(crate) len: usize,
    /// Whether the download has a layout, which is an error.
    has_layout: bool,
}

impl<'a> RawDownload<'a> {
    pub(crate) fn new(buffer: &'a Buffer, offset: usize, len: usize, has_layout: bool) -> Self {
        Self { buffer, offset, len, has_layout }
    }

    /// Converts the byte range for the C API. Returns an error if the range is not within the buffer, or if the
    /// download has a layout. Waits for the contents if the plugin does not.
    pub(crate) fn range(&self) -> Result<(i64, i64), Error> {
        if self.has_layout {
            return Err(Error::invalid("raw bytes have the layout of the device's memory; leave out `layout`"));
        }
        if self.buffer.handle().api().version().minor < AWAITS_CONTENTS {
            self.buffer.wait_once()?;
        }
        byte_range(self.offset, self.len, self.buffer.on_device_size()?, "the buffer")
    }

    /// Starts the copy. Dropping the returned future does not stop it. The copy owns its destination memory.
    ///
    /// For plugins older than API 0.106, this function waits until the contents are ready, because XLA's plugins of
    /// these versions may crash otherwise.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is not within the buffer's [`on_device_size`](Buffer::on_device_size), if the
    /// buffer has been deleted, or if the download has a layout. The future returns errors of the copy itself.
    #[doc(alias = "PJRT_Buffer_CopyRawToHost")]
    pub fn start(self) -> Result<HostRead<u8>, Error> {
        type Function = slot::PJRT_Buffer_CopyRawToHost;
        let (offset, transfer_size) = self.range()?;
        let raw = self.buffer.live()?;
        let mut memory = zeroed::<u8>(self.len);
        let mut args = PJRT_Buffer_CopyRawToHost_Args::new();
        args.buffer = raw.as_ptr();
        args.dst = memory.as_mut_ptr().cast::<c_void>();
        args.offset = offset;
        args.transfer_size = transfer_size;
        // SAFETY: C2 (calls), C5 (host memory): the buffer is live. `HostRead` keeps the memory until the event is
        // ready. Moving the vector does not change the address of its memory.
        unsafe { raw.api().call::<Function>(&mut args) }?;
        match read::object(args.event) {
            Ok(event) => {
                // SAFETY: C3 (objects): the plugin created the event for this caller.
                let event = unsafe { Event::new(event, raw.owner().clone()) };
                Ok(HostRead::of(&event, memory, HostOrder::default()))
            }
            Err(broken) => {
                // It is unknown when the copy ends, so leak the memory.
                std::mem::forget(memory);
                Err(Error::malformed(Function::NAME, broken))
            }
        }
    }
}
