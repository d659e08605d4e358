//! Channels between a running program and the host. The framework's callbacks receive data from the device or supply
//! data to it.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::{NonNull, null, null_mut};
use std::slice;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use pjrt_sys::{
    PJRT_CallbackError, PJRT_Chunk, PJRT_Error, PJRT_Error_Code, PJRT_RecvCallbackInfo, PJRT_SendCallbackInfo,
};

use super::gate::{self, Gate, Open, lock};
use crate::abi::table::error_handle::{ErrorHandle, into_raw as error_into_raw};
use crate::abi::table::ffi_read;
use crate::{Completer, Error, ErrorCode, Event, Result};

/// The channels of one execution on one device.
#[derive(Clone, Default)]
pub struct HostChannels(Option<Arc<Channels>>);

struct Channels {
    send: Vec<SendCallback>,
    recv: Vec<RecvCallback>,
    /// Open while the execution is in progress. Afterwards the framework's callbacks are invalid.
    gate: Arc<Gate>,
}

struct SendCallback(PJRT_SendCallbackInfo);
struct RecvCallback(PJRT_RecvCallbackInfo);

// SAFETY: V4 (callbacks): callbacks may be called from any thread.
unsafe impl Send for SendCallback {}
// SAFETY: V3 (arrays and text): the data does not change, so several threads may read it.
unsafe impl Sync for SendCallback {}
// SAFETY: the reason for `Send` of `SendCallback` also applies here.
unsafe impl Send for RecvCallback {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for RecvCallback {}

impl HostChannels {
    /// Reads the channels of a launch, and opens them.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the lists, and V4 (callbacks) for the callbacks until the event is ready.
    pub(crate) unsafe fn read(
        send: (*const PJRT_SendCallbackInfo, usize),
        recv: (*const PJRT_RecvCallbackInfo, usize),
    ) -> Result<Opened> {
        // SAFETY: V3 (arrays and text) and V4 (callbacks), which the caller promises.
        let send = unsafe { ffi_read::slice(send.0, send.1, "options->send_callbacks[i]") }?;
        // SAFETY: V3 (arrays and text) and V4 (callbacks), which the caller promises.
        let recv = unsafe { ffi_read::slice(recv.0, recv.1, "options->recv_callbacks[i]") }?;
        if send.iter().any(|info| info.send_callback.is_none()) || recv.iter().any(|info| info.recv_callback.is_none())
        {
            return Err(Error::argument("a send or receive callback is null"));
        }
        let gate = Arc::new(Gate::default());
        let opened = gate.open();
        let channels = Channels {
            send: send.iter().map(|info| SendCallback(*info)).collect(),
            recv: recv.iter().map(|info| RecvCallback(*info)).collect(),
            gate,
        };
        Ok(Opened { channels: Self(Some(Arc::new(channels))), gate: opened })
    }

    /// Returns the ids of the channels on which the program may send.
    pub fn send_ids(&self) -> impl Iterator<Item = i64> {
        self.0.iter().flat_map(|channels| channels.send.iter().map(|callback| callback.0.channel_id))
    }

    /// Returns the ids of the channels on which the program may receive.
    pub fn recv_ids(&self) -> impl Iterator<Item = i64> {
        self.0.iter().flat_map(|channels| channels.recv.iter().map(|callback| callback.0.channel_id))
    }

    fn open(&self) -> Result<(&Channels, Arc<Open>)> {
        let channels = self.0.as_deref().ok_or_else(|| {
            Error::invalid_argument("the program has no send or receive callbacks; pass them in the execute options")
        })?;
        let closed = || Error::failed_precondition("the execution has ended, so its channels are closed");
        Ok((channels, channels.gate.enter().ok_or_else(closed)?))
    }

    /// Sends a chunk of data to the host. `total` is the size of all chunks in bytes, and `done` marks the last chunk.
    /// The framework's callback may block.
    ///
    /// # Errors
    ///
    /// Returns the errors of the framework's callback, `INVALID_ARGUMENT` if the channel does not exist, and
    /// `FAILED_PRECONDITION` if the execution has ended.
    pub fn send(&self, channel: i64, data: Vec<u8>, total: usize, done: bool) -> Result<()> {
        let (channels, _open) = self.open()?;
        let info = channels.send.iter().map(|callback| &callback.0).find(|info| info.channel_id == channel);
        let info = info.ok_or_else(|| no_channel("send", channel))?;
        let Some(callback) = info.send_callback else { return Err(no_channel("send", channel)) };
        let owner = Box::into_raw(Box::new(data));
        // SAFETY: `owner` was boxed above, and no other reference to it exists.
        let bytes = unsafe { &mut *owner };
        let mut chunk = PJRT_Chunk {
            data: bytes.as_mut_ptr().cast(),
            size: bytes.len(),
            deleter: Some(delete_chunk),
            deleter_arg: owner.cast(),
        };
        let mut make_error: PJRT_CallbackError = Some(make_error);
        // SAFETY: V4 (callbacks): the callback deletes the chunk.
        let error = unsafe { callback(&raw mut chunk, &raw mut make_error, total, done.into(), info.user_arg) };
        match NonNull::new(error.cast::<ErrorHandle>()) {
            None => Ok(()),
            // SAFETY: V2 (handles): the callback creates errors with `make_error`, and no longer uses this error.
            Some(error) => Err(unsafe { Box::from_raw(error.as_ptr()) }.error),
        }
    }

    /// Requests `total` bytes from the host. The size of each chunk must be a multiple of `granule` bytes.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the channel does not exist, if `granule` is 0 or if `total` is not a multiple of
    /// `granule`, and `FAILED_PRECONDITION` if the execution has ended.
    pub fn recv(&self, channel: i64, total: usize, granule: usize) -> Result<CopyToDeviceStream> {
        let (channels, _open) = self.open()?;
        let info = channels.recv.iter().map(|callback| &callback.0).find(|info| info.channel_id == channel);
        let info = info.ok_or_else(|| no_channel("receive", channel))?;
        let Some(callback) = info.recv_callback else { return Err(no_channel("receive", channel)) };
        if granule == 0 || !total.is_multiple_of(granule) || i64::try_from(total).is_err() {
            return Err(Error::invalid_argument(format!(
                "a transfer of {total} bytes cannot be split into pieces of {granule} bytes"
            )));
        }
        let stream = Arc::new(Stream { total, granule, state: Mutex::default(), changed: Condvar::new() });
        let raw = Arc::into_raw(Arc::clone(&stream)).cast_mut().cast();
        // SAFETY: V4 (callbacks): the framework destroys the stream.
        unsafe { callback(raw, info.user_arg) };
        Ok(CopyToDeviceStream(stream))
    }
}

/// The send and receive callbacks of a call of `PJRT_LoadedExecutable_Execute`. The framework passes one array of
/// callbacks for each device.
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) send: *const *mut PJRT_SendCallbackInfo,
    pub(crate) num_send: usize,
    pub(crate) recv: *const *mut PJRT_RecvCallbackInfo,
    pub(crate) num_recv: usize,
}

/// The open channels of a launch. This value exists until the backend has started the launch.
pub(crate) struct Opened {
    pub(crate) channels: HostChannels,
    gate: gate::Opened,
}

impl Callbacks {
    /// Opens the channels of the launch with index `at`. The call has `count` launches.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the lists, and V4 (callbacks) for the callbacks until the event of the execution
    /// is ready.
    pub(crate) unsafe fn open(&self, at: usize, count: usize) -> Result<Opened> {
        let count_of = |callbacks: usize| if callbacks == 0 { 0 } else { count };
        // SAFETY: V3 (arrays and text) and V4 (callbacks), which the caller promises.
        let send = unsafe { ffi_read::slice(self.send, count_of(self.num_send), "options->send_callbacks") }?;
        // SAFETY: V3 (arrays and text) and V4 (callbacks), which the caller promises.
        let recv = unsafe { ffi_read::slice(self.recv, count_of(self.num_recv), "options->recv_callbacks") }?;
        let send = (send.get(at).map_or(null(), |list| list.cast_const()), self.num_send);
        let recv = (recv.get(at).map_or(null(), |list| list.cast_const()), self.num_recv);
        // SAFETY: V3 (arrays and text) and V4 (callbacks), which the caller promises.
        unsafe { HostChannels::read(send, recv) }
    }
}

impl Opened {
    /// Passes the channels to the execution, whose event is `done`. Returns an event that is ready when the execution
    /// and all callbacks have ended.
    pub(crate) fn hand_over(self, done: &Event) -> Event {
        self.gate.hand_over(slice::from_ref(done))
    }
}

fn no_channel(verb: &str, channel: i64) -> Error {
    Error::invalid_argument(format!("the framework passed no callback to {verb} on channel {channel}"))
}

impl std::fmt::Debug for HostChannels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids = (self.send_ids().collect::<Vec<_>>(), self.recv_ids().collect::<Vec<_>>());
        f.debug_struct("HostChannels").field("send", &ids.0).field("recv", &ids.1).finish()
    }
}

/// # Safety
///
/// V2 (handles): `owner` is the `deleter_arg` of a chunk of [`HostChannels::send`], and the caller does not use it
/// again.
unsafe extern "C" fn delete_chunk(_: *mut c_void, owner: *mut c_void) {
    // SAFETY: V2 (handles), which the caller promises.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
}

/// Creates an error that a callback returns.
///
/// # Safety
///
/// V3 (arrays and text) holds for the message.
unsafe extern "C" fn make_error(
    code: PJRT_Error_Code,
    message: *const std::ffi::c_char,
    size: usize,
) -> *mut PJRT_Error {
    // SAFETY: V3 (arrays and text), which the caller promises.
    let error = unsafe { ffi_read::status(code.0, message, size) };
    error.unwrap_or_else(Some).map_or(null_mut(), error_into_raw)
}

/// The reference-counted object behind a `PJRT_CopyToDeviceStream*`: a stream of data from the host.
pub(crate) struct Stream {
    pub(crate) total: usize,
    pub(crate) granule: usize,
    state: Mutex<StreamState>,
    changed: Condvar,
}

#[derive(Default)]
struct StreamState {
    pieces: VecDeque<HostChunk>,
    /// Number of bytes that the host has sent.
    come: usize,
    /// Whether the framework has destroyed the stream.
    ended: bool,
    /// Whether the backend has dropped its [`CopyToDeviceStream`].
    dropped: bool,
}

/// A stream of data that the host sends to a running program in chunks.
#[derive(Debug)]
pub struct CopyToDeviceStream(Arc<Stream>);

/// A chunk of data from the host. Dropping the chunk reports to the host that its transfer is complete.
pub struct HostChunk {
    raw: PJRT_Chunk,
    done: Option<Completer>,
}

// SAFETY: V3 (arrays and text) and V4 (callbacks): the plugin owns the chunk until it calls the deleter, which any
// thread may do.
unsafe impl Send for HostChunk {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for HostChunk {}

impl Deref for HostChunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: V3 (arrays and text): the data is readable until the deleter is called. `AddChunk` has checked the
        // pointer.
        unsafe { ffi_read::slice(self.raw.data.cast::<u8>().cast_const(), self.raw.size, "chunk->data") }
            .unwrap_or_default()
    }
}

impl Drop for HostChunk {
    fn drop(&mut self) {
        if let Some(deleter) = self.raw.deleter {
            // SAFETY: V4 (callbacks): the deleter is called once, after the last use of the data.
            unsafe { deleter(self.raw.data, self.raw.deleter_arg) };
        }
        if let Some(done) = self.done.take() {
            done.complete(Ok(()));
        }
    }
}

impl std::fmt::Debug for HostChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostChunk({} bytes)", self.raw.size)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", lock(&self.state).come, self.total)
    }
}

impl CopyToDeviceStream {
    /// Waits for the next chunk. Returns `None` after the last chunk.
    ///
    /// # Errors
    ///
    /// Returns `CANCELLED` if the framework destroyed the stream before it sent all data.
    pub fn next(&self) -> Result<Option<HostChunk>> {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(piece) = state.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if state.come == self.0.total {
                return Ok(None);
            }
            if state.ended {
                return Err(Error::new(
                    ErrorCode::CANCELLED,
                    format!("the framework sent only {} of {} bytes", state.come, self.0.total),
                ));
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for all remaining chunks and returns their data.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`CopyToDeviceStream::next`].
    pub fn collect(&self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.next()? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

impl Drop for CopyToDeviceStream {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.dropped = true;
        let left = std::mem::take(&mut state.pieces);
        // Run deleters and callbacks after the lock is released.
        drop(state);
        for mut piece in left {
            if let Some(done) = piece.done.take() {
                done.complete(Err(Error::new(
                    ErrorCode::CANCELLED,
                    "the program has closed the channel and reads no more data",
                )));
            }
        }
    }
}

impl Stream {
    /// Adds a chunk. If the stream rejects the chunk, returns the chunk and an error.
    fn add(&self, piece: HostChunk) -> Result<(), (HostChunk, Error)> {
        let size = piece.raw.size;
        let mut state = lock(&self.state);
        let fault = if !size.is_multiple_of(self.granule) {
            Error::invalid_argument(format!("the chunk has {size} bytes; send a multiple of {}", self.granule))
        } else if size > self.total - state.come {
            let left = self.total - state.come;
            Error::invalid_argument(format!("the chunk has {size} bytes, but the stream takes only {left} more"))
        } else if state.come == self.total {
            Error::failed_precondition("the stream already has all its data")
        } else if state.dropped {
            Error::new(ErrorCode::CANCELLED, "the program has closed the channel and reads no more data")
        } else {
            state.come += size;
            state.pieces.push_back(piece);
            self.changed.notify_all();
            return Ok(());
        };
        Err((piece, fault))
    }

    /// Adds a chunk, which the plugin owns from here on. Returns the event of its transfer. If the stream rejects the
    /// chunk, the event fails.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) and V4 (callbacks) hold for the chunk.
    pub(crate) unsafe fn receive(&self, raw: PJRT_Chunk) -> Result<Event> {
        let (event, done) = Event::pending();
        let piece = HostChunk { raw, done: Some(done) };
        // SAFETY: V3 (arrays and text): this call only checks the pointer.
        unsafe { ffi_read::slice(raw.data.cast::<u8>().cast_const(), raw.size, "chunk->data") }?;
        if let Err((mut piece, error)) = self.add(piece)
            && let Some(done) = piece.done.take()
        {
            done.complete_internally(Err(error));
        }
        Ok(event)
    }

    /// Returns the number of bytes that the host has sent.
    pub(crate) fn received(&self) -> usize {
        lock(&self.state).come
    }

    /// Ends the stream, because the framework destroys it.
    pub(crate) fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
    }
}
