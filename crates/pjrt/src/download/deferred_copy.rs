//! `PJRT_Buffer_CopyRawToHostFuture`: copies to the host whose destination is provided later.

use std::ffi::{c_char, c_void};
use std::fmt;

use pjrt_sys::*;
use pjrt_types::ErrorCode;

use crate::download::host_read::HostRead;
use crate::download::raw_download::RawDownload;
use crate::error::Error;
use crate::layout::HostOrder;
use crate::objects::event::Event;
use crate::table::read;
use crate::table::send_ptr::SendPtr;

type Start = unsafe extern "C" fn(*mut PJRT_Buffer_CopyRawToHostFuture_Callback_Args);

/// A copy to the host that starts when its destination is provided. If this value is dropped before the copy has
/// started, the copy ends with an error of code `CANCELLED`.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1u8, 2, 3, 4], &[4])?;
/// let copy = x.download().raw(1, 2).defer()?;
/// // The memory may become available later, for example when an earlier copy has ended.
/// assert_eq!(copy.start(vec![0; 2])?.wait()?, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the copy starts when its destination is provided"]
pub struct DeferredCopy {
    /// The plugin's function that receives the destination, and the function's argument. `None` after the function was
    /// called.
    callback: Option<SendPtr<(Start, *mut c_void)>>,
    /// The event of the copy. `None` after the copy has started.
    event: Option<Event>,
    len: usize,
}

impl RawDownload<'_> {
    /// Prepares the copy, whose destination the caller provides later.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::start`] apply. Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if
    /// the plugin is older than API 0.84.
    #[doc(alias = "PJRT_Buffer_CopyRawToHostFuture")]
    pub fn defer(self) -> Result<DeferredCopy, Error> {
        type Function = slot::PJRT_Buffer_CopyRawToHostFuture;
        let (raw_offset, transfer_size) = self.range()?;
        let live = self.buffer.live()?;
        let mut args = PJRT_Buffer_CopyRawToHostFuture_Args::new();
        args.buffer = live.as_ptr();
        args.offset = raw_offset;
        args.transfer_size = transfer_size;
        // SAFETY: C2 (calls): the buffer is live, and the range is within it. All other arguments are outputs.
        unsafe { live.api().call::<Function>(&mut args) }?;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let callback = args.future_ready_callback.ok_or(read::Malformed("null for a callback")).map_err(malformed)?;
        let callback = Some(SendPtr((callback, args.callback_data)));
        let mut copy = DeferredCopy { callback, event: None, len: self.len };
        let event = read::object(args.event).map_err(malformed)?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        copy.event = Some(unsafe { Event::new(event, live.owner().clone()) });
        Ok(copy)
    }
}

impl DeferredCopy {
    /// Returns the number of bytes that the copy writes.
    #[expect(clippy::len_without_is_empty, reason = "a copy is not a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Starts the copy into `destination`. When the copy has ended, the returned future yields `destination`.
    ///
    /// # Errors
    ///
    /// Returns an error if the length of `destination` differs from [`Self::len`]. The copy then ends with an error.
    pub fn start(mut self, mut destination: Vec<u8>) -> Result<HostRead<u8>, Error> {
        if destination.len() != self.len {
            let found = destination.len();
            return Err(Error::invalid(format!("the copy has {} bytes, but its destination {found}", self.len)));
        }
        let Some(event) = self.event.take() else { unreachable!("only functions that take `self` start the copy") };
        // Moving the `Vec` into the future afterwards does not change the address of its memory.
        self.call(ErrorCode::OK, "", destination.as_mut_ptr().cast::<c_void>());
        Ok(HostRead::of(&event, destination, HostOrder::default()))
    }

    /// Ends the copy with an error of the given code and message. The plugin then copies nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if `code` is `OK`.
    pub fn fail(mut self, code: ErrorCode, message: &str) -> Result<(), Error> {
        if code == ErrorCode::OK {
            return Err(Error::invalid("a copy cannot end with an error whose code is OK"));
        }
        self.call(code, message, std::ptr::null_mut());
        Ok(())
    }

    fn call(&mut self, code: ErrorCode, message: &str, destination: *mut c_void) {
        let Some(SendPtr((callback, data))) = self.callback.take() else { return };
        let mut args = PJRT_Buffer_CopyRawToHostFuture_Callback_Args::new();
        args.callback_data = data;
        args.error_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast::<c_char>();
        args.error_message_size = message.len();
        args.dst = destination;
        // SAFETY: C2 (calls), C5 (host memory): the function is called once, with the argument that came with it. The
        // message lives through the call, and the destination until the event is ready.
        unsafe { callback(&mut args) }
    }
}

impl Drop for DeferredCopy {
    fn drop(&mut self) {
        self.call(
            ErrorCode::CANCELLED,
            "the copy was dropped before its destination was provided",
            std::ptr::null_mut(),
        );
    }
}

impl fmt::Debug for DeferredCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredCopy").field("len", &self.len).finish_non_exhaustive()
    }
}
