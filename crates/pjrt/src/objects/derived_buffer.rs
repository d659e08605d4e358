//! Buffers that hold an error, and buffers that reinterpret the bytes of another buffer.

use std::ffi::c_char;

use pjrt_sys::*;
use pjrt_types::{ErrorCode, Layout, NamedValue, Shape};

use crate::element;
use crate::error::Error;
use crate::layout::MemoryLayout;
use crate::objects::buffer::Buffer;
use crate::objects::new_buffer::NewBuffer;
use crate::table::named_value;
use crate::table::read;

/// First API minor version whose `PJRT_Client_CreateErrorBuffer_Args` has the field `device_layout`. Older versions
/// have the field `shape_layout` instead.
const DEVICE_LAYOUT: i32 = 117;

impl NewBuffer<'_> {
    /// Creates a buffer that holds an error instead of contents. Operations on the buffer fail with this error.
    ///
    /// # Errors
    ///
    /// Returns an error if the code is `OK`. The errors of [`Self::uninitialized`] also apply.
    #[doc(alias = "PJRT_Client_CreateErrorBuffer")]
    pub fn error(self, code: ErrorCode, message: &str) -> Result<Buffer, Error> {
        self.error_with_payload(code, message, &[])
    }

    /// Creates a buffer like [`Self::error`], with a payload of the error. Plugins older than API 0.103 ignore the
    /// payload.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::error`] apply.
    pub fn error_with_payload(self, code: ErrorCode, message: &str, payload: &[NamedValue]) -> Result<Buffer, Error> {
        type Function = slot::PJRT_Client_CreateErrorBuffer;
        if code == ErrorCode::OK {
            return Err(Error::invalid("the error for the buffer has the code OK; pass the code of an error"));
        }
        self.check()?;
        let (client, Self { memory, shape, layout }) = (self.client(), self);
        // XLA's plugin of API 0.106 ends the process when it uses an error buffer without a layout. Therefore always
        // pass a layout.
        let row_major = Layout::row_major(shape.dimensions.len());
        let layout = MemoryLayout::new(layout.unwrap_or(&row_major), shape)?;
        let mut layout = layout.raw();
        let payload = named_value::raw(payload);
        let mut args = PJRT_Client_CreateErrorBuffer_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.error_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast::<c_char>();
        args.error_message_size = message.len();
        args.payload = payload.as_ptr();
        args.num_payload = payload.len();
        args.shape_dims = shape.dimensions.as_ptr();
        args.shape_num_dims = shape.dimensions.len();
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.memory = memory.handle().as_ptr();
        let is_newer = client.api().version().minor >= DEVICE_LAYOUT;
        let field = if is_newer { &mut args.device_layout } else { &mut args.shape_layout };
        *field = &raw mut layout;
        // SAFETY: C2 (calls): the client and memory are live and belong to one client. The message, payload, dimensions
        // and layout live through the call.
        unsafe { client.api().call::<Function>(&mut args) }?;
        let raw = read::object(args.buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok(unsafe { Buffer::new(raw, client.inner().clone(), None) })
    }
}

impl Buffer {
    /// Returns a buffer with the same bytes and another element type, shape or layout. If `layout` is `None`, the
    /// plugin uses its default layout. Both buffers may share the same memory. XLA's plugins delete this buffer.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin's API version lacks the new element type, if the new shape is invalid or has
    /// another size in bits, if the layout does not fit the new shape, or if the buffer has been deleted or has
    /// external references, such as a view. Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if
    /// the plugin is older than API 0.98.
    #[doc(alias = "PJRT_Buffer_Bitcast")]
    pub fn bitcast(&self, shape: &Shape, layout: Option<&Layout>) -> Result<Self, Error> {
        type Function = slot::PJRT_Buffer_Bitcast;
        let live = self.live()?;
        element::check_data(shape.element_type, live.api().version())?;
        let own = self.shape()?;
        let bits = |shape: &Shape| shape.num_elements()?.checked_mul(shape.element_type.bits());
        if shape.host_size().is_none() || bits(shape) != bits(own) {
            return Err(Error::invalid(format!("a buffer of {own} cannot be a buffer of {shape}: their sizes differ")));
        }
        let layout = layout.map(|layout| MemoryLayout::new(layout, shape)).transpose()?;
        let mut layout = layout.as_ref().map(MemoryLayout::raw);
        let mut args = PJRT_Buffer_Bitcast_Args::new();
        args.buffer = live.as_ptr();
        args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.dims = shape.dimensions.as_ptr();
        args.num_dims = shape.dimensions.len();
        if let Some(layout) = &mut layout {
            args.device_layout = layout;
        }
        self.moving::<Function>(|| {
            // SAFETY: C2 (calls): the buffer is live. The shape and layout live through the call.
            unsafe { live.api().call::<Function>(&mut args) }
        })?;
        let raw = read::object(args.out_buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok(unsafe { Self::new(raw, live.owner().clone(), None) })
    }
}
