//! Buffers that exist before their contents: uninitialized buffers, alias buffers, and buffers that wait for another
//! operation.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{ErrorCode, Layout, Shape};

use crate::error::{Error, ErrorKind};
use crate::layout::MemoryLayout;
use crate::objects::alias_chain::AliasChain;
use crate::objects::buffer::Buffer;
use crate::objects::memory::Memory;
use crate::objects::new_buffer::NewBuffer;
use crate::objects::owners::ClientInner;
use crate::table::handle::Owner;
use crate::table::read;
use crate::table::send_ptr::SendPtr;

impl NewBuffer<'_> {
    /// Allocates a buffer with unspecified contents, for example as an input that a program overwrites.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin's API version lacks the element type, if the shape has negative extents or
    /// exceeds the address space, or if the layout does not match the shape.
    #[doc(alias = "PJRT_Client_CreateUninitializedBuffer")]
    pub fn uninitialized(self) -> Result<Buffer, Error> {
        type Function = slot::PJRT_Client_CreateUninitializedBuffer;
        self.check()?;
        let (client, Self { memory, shape, layout }) = (self.client(), self);
        let layout = layout.map(|layout| MemoryLayout::new(layout, shape)).transpose()?;
        let mut layout = layout.as_ref().map(MemoryLayout::raw);
        let mut args = PJRT_Client_CreateUninitializedBuffer_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.shape_dims = shape.dimensions.as_ptr();
        args.shape_num_dims = shape.dimensions.len();
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.shape_layout = layout.as_mut().map_or(std::ptr::null_mut(), |layout| &raw mut *layout);
        args.memory = memory.handle().as_ptr();
        let call = || {
            args.buffer = std::ptr::null_mut();
            // SAFETY: C2 (calls): the client is live, the memory belongs to it, and the shape and layout live through
            // the call.
            unsafe { client.api().call::<Function>(&mut args) }
        };
        client.inner().allocating(|| client.devices_at(memory.into()), call)?;
        let raw = read::object(args.buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok(unsafe { Buffer::new(raw, client.inner().clone(), None) })
    }

    /// Creates a buffer that later becomes an alias of another buffer. The new buffer can be used at once. Programs and
    /// copies wait until the [`AliasFulfillment`] provides the other buffer or an error.
    ///
    /// In XLA's GPU client, the call that runs a program blocks until the contents are available. In XLA's CPU client,
    /// the call returns earlier. If you do not know the client, run programs that use the alias buffer on a different
    /// thread than the one that provides the contents.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::uninitialized`] apply.
    #[doc(alias = "PJRT_Client_CreateAliasBuffer")]
    pub fn alias(self) -> Result<(Buffer, AliasFulfillment), Error> {
        type Function = slot::PJRT_Client_CreateAliasBuffer;
        self.check()?;
        let (client, Self { memory, shape, layout }) = (self.client(), self);
        // XLA's plugins compare the layouts of the two buffers, and an absent layout differs from every layout.
        // Therefore always pass a layout.
        let row_major = Layout::row_major(shape.dimensions.len());
        let layout = MemoryLayout::new(layout.unwrap_or(&row_major), shape)?;
        let mut layout = layout.raw();
        let mut args = PJRT_Client_CreateAliasBuffer_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.memory = memory.handle().as_ptr();
        args.shape_dims = shape.dimensions.as_ptr();
        args.shape_num_dims = shape.dimensions.len();
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.shape_layout = &raw mut layout;
        // SAFETY: C2 (calls): the client is live, the memory belongs to it, and the shape and layout live through the
        // call.
        unsafe { client.api().call::<Function>(&mut args) }?;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let raw = read::object(args.alias_buffer).map_err(malformed)?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        let buffer = unsafe { Buffer::new(raw, client.inner().clone(), None) };
        let callback = read::object(args.fulfill_alias_buffer_cb).map_err(malformed)?;
        let fulfillment = AliasFulfillment {
            client: client.inner().clone(),
            callback: Some(SendPtr(callback.as_ptr())),
            shape: shape.clone(),
            memory: memory.clone(),
            alias: buffer.make_alias(),
        };
        Ok((buffer, fulfillment))
    }
}

/// Provides the contents of an alias buffer, or an error. If the `AliasFulfillment` is dropped unused, the alias buffer
/// gets an error of code `CANCELLED`.
#[must_use = "without it, the buffer never gets contents"]
pub struct AliasFulfillment {
    client: Arc<ClientInner>,
    /// The plugin's callback. `None` after the call.
    callback: Option<SendPtr<*mut PJRT_FulfillAliasBufferCallback>>,
    shape: Shape,
    memory: Memory,
    alias: Arc<AliasChain>,
}

impl AliasFulfillment {
    /// Makes the alias buffer an alias of `buffer`. The contents of `buffer` may still be pending. If they are computed
    /// from the alias buffer, neither of the two buffers becomes ready. XLA's plugins delete `buffer`.
    ///
    /// # Errors
    ///
    /// Returns an error if `buffer` belongs to another client, has another shape, is in another memory, was deleted or
    /// has external references, such as a view, or if `buffer` is the alias buffer itself or an alias that waits for
    /// it. In these cases, the alias buffer gets an error of code `CANCELLED`.
    #[doc(alias = "PJRT_Client_FulfillAliasBuffer")]
    pub fn fulfill(mut self, buffer: &Buffer) -> Result<(), Error> {
        if !Arc::ptr_eq(buffer.handle().owner(), &self.client) {
            return Err(Error::invalid("the buffer belongs to another client than the alias buffer"));
        }
        let shape = buffer.shape()?;
        if *shape != self.shape {
            return Err(Error::invalid(format!("the alias buffer is {}, but the buffer is {shape}", self.shape)));
        }
        match buffer.memory() {
            Ok(memory) if memory != self.memory => {
                return Err(Error::invalid(format!(
                    "the alias buffer is in {:?}, but the buffer is in {memory:?}",
                    self.memory
                )));
            }
            Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        let live = buffer.live()?;
        if buffer.alias().is_some_and(|source| !self.alias.wait_for(source)) {
            return Err(Error::invalid(
                "the buffer waits for the alias buffer, so neither would ever be ready; provide another buffer",
            ));
        }
        buffer.moving::<slot::PJRT_Client_FulfillAliasBuffer>(|| {
            // XLA's plugins end the process if the buffer is deleted.
            if buffer.is_deleted()? {
                return Err(Error::invalid("the buffer has been deleted"));
            }
            self.call(live.as_ptr(), ErrorCode::OK, "")
        })
    }

    /// Provides an error instead of contents. Operations on the alias buffer fail with this error.
    ///
    /// # Errors
    ///
    /// Returns an error if the code is `OK`.
    pub fn fail(mut self, code: ErrorCode, message: &str) -> Result<(), Error> {
        if code == ErrorCode::OK {
            return Err(Error::invalid("a buffer cannot end with an error whose code is OK"));
        }
        self.call(std::ptr::null_mut(), code, message)
    }

    fn call(&mut self, buffer: *mut PJRT_Buffer, code: ErrorCode, message: &str) -> Result<(), Error> {
        let Some(callback) = self.callback.take() else { return Ok(()) };
        let mut args = PJRT_Client_FulfillAliasBuffer_Args::new();
        args.client = self.client.raw().as_ptr();
        args.buffer = buffer;
        args.status_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast::<c_char>();
        args.error_message_size = message.len();
        args.fulfill_alias_buffer_cb = callback.0;
        // SAFETY: C2 (calls): the client is live, and the buffer is null or a live buffer of this client. The callback
        // is that of the alias buffer and is passed only once. The message lives through the call.
        let called = unsafe { self.client.api().call::<slot::PJRT_Client_FulfillAliasBuffer>(&mut args) };
        match called {
            // XLA's plugins return the same error that they set on the alias buffer. The call has succeeded in this
            // case.
            Err(error) if error.code() == code && error.message() == message => Ok(()),
            called => called,
        }
    }
}

impl Drop for AliasFulfillment {
    fn drop(&mut self) {
        let message = "the alias buffer's fulfillment was dropped before it provided a buffer";
        if let Err(error) = self.call(std::ptr::null_mut(), ErrorCode::CANCELLED, message) {
            tracing::warn!(%error, "an alias buffer without contents could not be ended");
        }
    }
}

impl fmt::Debug for AliasFulfillment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AliasFulfillment").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Buffer {
    /// Exchanges this buffer for a new buffer with the same contents. The new buffer becomes ready when this buffer is
    /// ready and the [`ControlDependency`] has ended. This delays uses of the memory until an operation outside the
    /// plugin has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the buffer was deleted. This buffer is dropped even if the call fails.
    #[doc(alias = "PJRT_Buffer_DonateWithControlDependency")]
    pub fn donate_with_control_dependency(self) -> Result<(Self, ControlDependency), Error> {
        type Function = slot::PJRT_Buffer_DonateWithControlDependency;
        let mut args = PJRT_Buffer_DonateWithControlDependency_Args::new();
        let live = self.live()?;
        args.buffer = live.as_ptr();
        // SAFETY: C2 (calls): the buffer is live, and all other arguments are outputs.
        unsafe { live.api().call::<Function>(&mut args) }?;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let client = live.owner().clone();
        let Some(callback) = args.dependency_ready_callback else {
            return Err(malformed(read::Malformed("null for a callback")));
        };
        let dependency =
            ControlDependency { callback: Some(SendPtr((callback, args.callback_data))), client: client.clone() };
        let raw = read::object(args.out_buffer).map_err(malformed)?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok((unsafe { Self::new(raw, client, None) }, dependency))
    }
}

type DependencyReady = unsafe extern "C" fn(*mut PJRT_Buffer_DonateWithControlDependency_Callback_Args);

/// An operation of the caller that a buffer waits for. If the `ControlDependency` is dropped before the caller ends it,
/// the buffer gets an error of code `CANCELLED`.
#[must_use = "without it, the buffer never becomes ready"]
pub struct ControlDependency {
    /// The plugin's callback and its argument. `None` after the call.
    callback: Option<SendPtr<(DependencyReady, *mut c_void)>>,
    /// Keeps the client alive, because the callback belongs to it.
    client: Arc<ClientInner>,
}

impl ControlDependency {
    /// Ends the operation, so that the buffer can become ready.
    pub fn ready(mut self) {
        self.end(ErrorCode::OK, "");
    }

    /// Ends the operation with an error. Operations on the buffer fail with this error.
    ///
    /// # Errors
    ///
    /// Returns an error if the code is `OK`.
    pub fn fail(mut self, code: ErrorCode, message: &str) -> Result<(), Error> {
        if code == ErrorCode::OK {
            return Err(Error::invalid("an operation cannot end with an error whose code is OK"));
        }
        self.end(code, message);
        Ok(())
    }

    fn end(&mut self, code: ErrorCode, message: &str) {
        let Some(SendPtr((callback, data))) = self.callback.take() else { return };
        let mut args = PJRT_Buffer_DonateWithControlDependency_Callback_Args::new();
        args.callback_data = data;
        args.error_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast::<c_char>();
        args.error_message_size = message.len();
        // SAFETY: C2 (calls): the callback is called once, with the argument that the plugin returned together with it.
        // The message lives through the call.
        unsafe { callback(&mut args) }
    }
}

impl Drop for ControlDependency {
    fn drop(&mut self) {
        self.end(ErrorCode::CANCELLED, "the operation that the buffer waits for was dropped before it ended");
    }
}

impl fmt::Debug for ControlDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlDependency").field("client", self.client.raw()).finish_non_exhaustive()
    }
}
