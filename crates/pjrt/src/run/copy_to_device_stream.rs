//! `PJRT_CopyToDeviceStream_*`: the channel through which the host sends a value to a running program.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::event::Event;
use crate::objects::owners::ClientInner;
use crate::table::callback::contain;
use crate::table::handle::{Handle, Owned};
use crate::table::read;

/// The channel through which the host sends one value to a running program. See
/// [`ExecuteOptions::with_recv_callback`](crate::ExecuteOptions::with_recv_callback).
///
/// The value is sent in chunks. If the stream is dropped before all bytes were sent, the plugin decides how the run
/// ends.
pub struct CopyToDeviceStream(Owned<PJRT_CopyToDeviceStream, Arc<ClientInner>>);

impl CopyToDeviceStream {
    /// # Safety
    ///
    /// `raw` is a live stream of a run of `client`, and the caller owns the stream.
    pub(crate) unsafe fn new(raw: NonNull<PJRT_CopyToDeviceStream>, client: Arc<ClientInner>) -> Self {
        // SAFETY: this function's contract: the stream is live, and the caller owned it.
        Self(unsafe { Owned::new(raw, client) })
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_CopyToDeviceStream, Arc<ClientInner>> {
        &self.0
    }

    /// Returns the size of the value, in bytes.
    #[doc(alias = "PJRT_CopyToDeviceStream_TotalBytes")]
    pub fn total_bytes(&self) -> Result<usize, Error> {
        type Function = slot::PJRT_CopyToDeviceStream_TotalBytes;
        size(Function::NAME, self.0.query::<Function>()?)
    }

    /// Returns the granule size, in bytes. The size of each chunk must be a multiple of the granule size.
    #[doc(alias = "PJRT_CopyToDeviceStream_GranuleSize")]
    pub fn granule_size(&self) -> Result<usize, Error> {
        type Function = slot::PJRT_CopyToDeviceStream_GranuleSize;
        size(Function::NAME, self.0.query::<Function>()?)
    }

    /// Returns the number of bytes that were passed to [`add_chunk`](Self::add_chunk) so far.
    #[doc(alias = "PJRT_CopyToDeviceStream_CurrentBytes")]
    pub fn current_bytes(&self) -> Result<usize, Error> {
        type Function = slot::PJRT_CopyToDeviceStream_CurrentBytes;
        size(Function::NAME, self.0.query::<Function>()?)
    }

    /// Starts sending `chunk`. The chunk contains the next bytes of the value. The plugin drops `chunk` when it no
    /// longer reads it.
    ///
    /// # Errors
    ///
    /// Returns an error if `chunk` has more bytes than the value still lacks, or if its length is not a multiple of
    /// [`granule_size`](Self::granule_size). The returned event reports errors of the transfer itself.
    #[doc(alias = "PJRT_CopyToDeviceStream_AddChunk")]
    pub fn add_chunk<D: AsRef<[u8]> + Send + Sync + 'static>(&mut self, chunk: D) -> Result<Event, Error> {
        type Function = slot::PJRT_CopyToDeviceStream_AddChunk;
        let api = self.0.api();
        if !api.supports::<Function>() {
            return Err(Error::missing(Function::NAME, Function::SINCE, api.version()));
        }
        let (len, total, sent) = (chunk.as_ref().len(), self.total_bytes()?, self.current_bytes()?);
        if len > total.saturating_sub(sent) {
            return Err(Error::invalid(format!("a chunk of {len} bytes follows {sent} of the value's {total} bytes")));
        }
        let granule = self.granule_size()?;
        if granule > 0 && len % granule != 0 {
            return Err(Error::invalid(format!("a chunk of {len} bytes is not a multiple of {granule} bytes")));
        }
        let owned = Box::into_raw(Box::new(chunk));
        // SAFETY: only the deleter frees the box, and it runs after the last use of this reference.
        let bytes: &[u8] = unsafe { &*owned }.as_ref();
        let mut raw = PJRT_Chunk {
            data: bytes.as_ptr().cast::<c_void>().cast_mut(),
            size: bytes.len(),
            deleter: Some(delete::<D>),
            deleter_arg: owned.cast::<c_void>(),
        };
        let mut args = PJRT_CopyToDeviceStream_AddChunk_Args::new();
        args.stream = self.0.as_ptr();
        args.chunk = &raw mut raw;
        // SAFETY: C2 (calls), C5 (host memory): the stream is live. The plugin reads the chunk until it calls the
        // deleter, once.
        unsafe { api.call::<Function>(&mut args) }?;
        let event = read::object(args.transfer_complete).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        Ok(unsafe { Event::new(event, self.0.owner().clone()) })
    }
}

/// Drops the chunk that `add_chunk` boxed. This is the `deleter` of a `PJRT_Chunk`.
unsafe extern "C" fn delete<D>(_: *mut c_void, deleter_arg: *mut c_void) {
    contain(|| {
        // SAFETY: C5 (host memory): the deleter runs once, with the box that `add_chunk` created.
        drop(unsafe { Box::from_raw(deleter_arg.cast::<D>()) });
    });
}

fn size(function: &'static str, bytes: i64) -> Result<usize, Error> {
    usize::try_from(bytes).map_err(|_| Error::malformed_text(function, format!("{bytes} bytes")))
}

impl fmt::Debug for CopyToDeviceStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopyToDeviceStream").field(self.handle()).finish()
    }
}
