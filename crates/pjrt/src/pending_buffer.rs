//! Buffers that exist before their contents: uninitialized buffers, alias buffers, and buffers that wait for another
//! operation.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{ErrorCode, Layout, Shape};

use crate::buffer::Buffer;
use crate::client::{Client, ClientInner};
use crate::element;
use crate::error::{Error, ErrorKind};
use crate::handle::Owner;
use crate::layout::MemoryLayout;
use crate::memory::Memory;
use crate::read;
use crate::send_ptr::SendPtr;

impl Client {
    /// Allocates a buffer whose contents are unspecified, for example as an argument that a program overwrites.
    ///
    /// `layout` is the plugin's default if it is `None`.
    ///
    /// # Errors
    ///
    /// A shape with negative extents, a layout of another shape, a memory of another client, or an error of the plugin.
    #[doc(alias = "PJRT_Client_CreateUninitializedBuffer")]
    pub fn create_uninitialized_buffer(
        &self,
        shape: &Shape,
        layout: Option<&Layout>,
        memory: &Memory,
    ) -> Result<Buffer, Error> {
        type Function = slot::PJRT_Client_CreateUninitializedBuffer;
        self.check_new_buffer(shape, memory)?;
        let layout = layout.map(|layout| MemoryLayout::new(layout, shape)).transpose()?;
        let mut layout = layout.as_ref().map(MemoryLayout::raw);
        let mut args = PJRT_Client_CreateUninitializedBuffer_Args::new();
        args.client = self.inner().raw().as_ptr();
        args.shape_dims = shape.dimensions.as_ptr();
        args.shape_num_dims = shape.dimensions.len();
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.shape_layout = layout.as_mut().map_or(std::ptr::null_mut(), |layout| &raw mut *layout);
        args.memory = memory.handle().as_ptr();
        let call = || {
            args.buffer = std::ptr::null_mut();
            // SAFETY: C2: client and memory are live and belong to one client; shape and layout live through the call.
            unsafe { self.api().call::<Function>(&mut args) }
        };
        self.inner().allocating(|| self.devices_at(memory.into()), call)?;
        let raw = read::object(args.buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3: the plugin created the buffer for this caller.
        Ok(unsafe { Buffer::new(raw, self.inner().clone(), None) })
    }

    /// Creates a buffer that later becomes an alias of another buffer. It can be used at once: programs and copies wait
    /// until the [`AliasFulfillment`] provides the other buffer or an error.
    ///
    /// XLA's GPU client waits within the call that runs a program, and XLA's CPU client after it. Unless you know the
    /// client, run such programs on another thread than the one that provides the buffer.
    ///
    /// `layout` is row-major if it is `None`.
    ///
    /// # Errors
    ///
    /// As for [`Client::create_uninitialized_buffer`].
    #[doc(alias = "PJRT_Client_CreateAliasBuffer")]
    pub fn create_alias_buffer(
        &self,
        shape: &Shape,
        layout: Option<&Layout>,
        memory: &Memory,
    ) -> Result<(Buffer, AliasFulfillment), Error> {
        type Function = slot::PJRT_Client_CreateAliasBuffer;
        self.check_new_buffer(shape, memory)?;
        // XLA's plugins compare the layouts, and an absent one differs from all others.
        let row_major = Layout::row_major(shape.dimensions.len());
        let layout = MemoryLayout::new(layout.unwrap_or(&row_major), shape)?;
        let mut layout = layout.raw();
        let mut args = PJRT_Client_CreateAliasBuffer_Args::new();
        args.client = self.inner().raw().as_ptr();
        args.memory = memory.handle().as_ptr();
        args.shape_dims = shape.dimensions.as_ptr();
        args.shape_num_dims = shape.dimensions.len();
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.shape_layout = &raw mut layout;
        // SAFETY: C2: client and memory are live and belong to one client; shape and layout live through the call.
        unsafe { self.api().call::<Function>(&mut args) }?;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let raw = read::object(args.alias_buffer).map_err(malformed)?;
        // SAFETY: C3: the plugin created the buffer for this caller.
        let buffer = unsafe { Buffer::new(raw, self.inner().clone(), None) };
        let callback = read::object(args.fulfill_alias_buffer_cb).map_err(malformed)?;
        let fulfillment = AliasFulfillment {
            client: self.inner().clone(),
            callback: Some(SendPtr(callback.as_ptr())),
            shape: shape.clone(),
            memory: memory.clone(),
        };
        Ok((buffer, fulfillment))
    }

    pub(crate) fn check_new_buffer(&self, shape: &Shape, memory: &Memory) -> Result<(), Error> {
        element::check_data(shape.element_type, self.api().version())?;
        if shape.host_size().is_none() {
            return Err(Error::invalid(format!("{shape} has negative extents or exceeds the address space")));
        }
        if !Arc::ptr_eq(memory.handle().owner(), self.inner()) {
            return Err(Error::invalid("the memory belongs to another client"));
        }
        Ok(())
    }
}

/// Provides the contents of an alias buffer, once. If it is dropped before, the buffer gets an error of code
/// `CANCELLED`.
#[must_use = "without it, the buffer never gets contents"]
pub struct AliasFulfillment {
    client: Arc<ClientInner>,
    /// `None` once it was called.
    callback: Option<SendPtr<*mut PJRT_FulfillAliasBufferCallback>>,
    shape: Shape,
    memory: Memory,
}

impl AliasFulfillment {
    /// Makes the alias buffer an alias of this buffer, which may itself be pending.
    ///
    /// # Errors
    ///
    /// A buffer of another client, shape or memory: the alias buffer then gets an error of code `CANCELLED`. Otherwise
    /// an error of the plugin.
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
        self.call(buffer.live()?.as_ptr(), ErrorCode::OK, "")
    }

    /// Gives the alias buffer an error instead of contents. Operations on it fail with that error.
    ///
    /// # Errors
    ///
    /// The code `OK`.
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
        // SAFETY: C2: client and buffer are live and belong to one client; the callback is that of the alias buffer, and
        // is passed once; the text lives through the call.
        let called = unsafe { self.client.api().call::<slot::PJRT_Client_FulfillAliasBuffer>(&mut args) };
        match called {
            // XLA's plugins return the error that they gave to the buffer.
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
    /// Gives up this buffer for one with the same contents, which becomes ready when this buffer is ready and the
    /// [`ControlDependency`] has ended. It orders uses of the memory after an operation that the plugin does not know.
    ///
    /// # Errors
    ///
    /// A deleted buffer, or an error of the plugin. This buffer is dropped in any case.
    #[doc(alias = "PJRT_Buffer_DonateWithControlDependency")]
    pub fn donate_with_control_dependency(self) -> Result<(Self, ControlDependency), Error> {
        type Function = slot::PJRT_Buffer_DonateWithControlDependency;
        let mut args = PJRT_Buffer_DonateWithControlDependency_Args::new();
        let live = self.live()?;
        args.buffer = live.as_ptr();
        // SAFETY: C2: the buffer is live; all other arguments are outputs.
        unsafe { live.api().call::<Function>(&mut args) }?;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        let client = live.owner().clone();
        let Some(callback) = args.dependency_ready_callback else {
            return Err(malformed(read::Malformed("null for a callback")));
        };
        let dependency =
            ControlDependency { callback: Some(SendPtr((callback, args.callback_data))), client: client.clone() };
        let raw = read::object(args.out_buffer).map_err(malformed)?;
        // SAFETY: C3: the plugin created the buffer for this caller.
        Ok((unsafe { Self::new(raw, client, None) }, dependency))
    }
}

type DependencyReady = unsafe extern "C" fn(*mut PJRT_Buffer_DonateWithControlDependency_Callback_Args);

/// An operation of the caller that a buffer waits for. If it is dropped before it has ended, the buffer gets an error of
/// code `CANCELLED`.
#[must_use = "without it, the buffer never becomes ready"]
pub struct ControlDependency {
    /// The plugin's function and its argument. `None` once it was called.
    callback: Option<SendPtr<(DependencyReady, *mut c_void)>>,
    /// The function belongs to the client.
    client: Arc<ClientInner>,
}

impl ControlDependency {
    /// Ends the operation. The buffer becomes ready.
    pub fn ready(mut self) {
        self.end(ErrorCode::OK, "");
    }

    /// Ends the operation with an error, which the buffer gets.
    ///
    /// # Errors
    ///
    /// The code `OK`.
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
        // SAFETY: C2: the function is called once, with the argument that came with it; the text lives through the
        // call.
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
