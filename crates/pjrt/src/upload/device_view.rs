//! `PJRT_Client_CreateViewOfDeviceBuffer`: buffers in memory that another library allocated.

use std::ffi::c_void;

use pjrt_sys::*;
use pjrt_types::Layout;

use crate::element;
use crate::error::Error;
use crate::layout::MemoryLayout;
use crate::objects::buffer::Buffer;
use crate::objects::new_buffer::NewBuffer;
use crate::table::callback::contain;
use crate::table::read;

impl NewBuffer<'_> {
    /// Creates a buffer in device memory that another library allocated, without a copy. `keep` is dropped when the
    /// plugin no longer uses the memory. A thread of the plugin may drop `keep`, and the drop may happen after the
    /// buffer was destroyed.
    ///
    /// `stream` is a handle to a stream of the platform, such as a
    /// CUDA stream. The stream's pending work writes the contents. Pass `None` if the contents are already written.
    ///
    /// # Errors
    ///
    /// Returns an error if the address of a non-empty buffer is null, if the shape has negative extents or exceeds the
    /// address space, if the plugin's API version lacks the element type, or if the layout does not fit the shape. The
    /// plugin may also reject an address that is not aligned. In all these
    /// cases, `keep` is dropped.
    ///
    /// # Safety
    ///
    /// [Contract](crate::contracts) A4: the memory at `address` is in this memory, has the size of the shape in the
    /// given layout, and stays allocated until `keep` is dropped. Until then, no other code writes to the memory. If
    /// the buffer is donated, no other code reads the memory either, because the program writes to it. `stream` is
    /// `None` or a live stream of the platform.
    #[doc(alias = "PJRT_Client_CreateViewOfDeviceBuffer")]
    pub unsafe fn view<D: Send + 'static>(
        self,
        address: *mut c_void,
        stream: Option<isize>,
        keep: D,
    ) -> Result<Buffer, Error> {
        type Function = slot::PJRT_Client_CreateViewOfDeviceBuffer;
        let (client, Self { memory, shape, layout }) = (self.client(), self);
        element::check_data(shape.element_type, client.api().version())?;
        let size = element::host_size(shape)?;
        if address.is_null() && size > 0 {
            return Err(Error::invalid(format!("the address of a buffer of {shape} is null")));
        }
        // XLA's plugins end the process if the layout is absent, so pass the row-major layout by default.
        let row_major = Layout::row_major(shape.dimensions.len());
        let layout = MemoryLayout::new(layout.unwrap_or(&row_major), shape)?;
        let mut layout = layout.raw();
        let mut args = PJRT_Client_CreateViewOfDeviceBuffer_Args::new();
        // Plugins older than API 0.66 ignore `args.memory`, so pass the memory's first device as well.
        if let Some(device) = memory.devices()?.first() {
            args.device = device.handle().as_ptr();
        }
        args.client = client.inner().raw().as_ptr();
        args.device_buffer_ptr = address;
        args.dims = shape.dimensions.as_ptr();
        args.num_dims = shape.dimensions.len();
        args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        args.layout = &raw mut layout;
        args.stream = stream.unwrap_or(0);
        args.memory = memory.handle().as_ptr();
        let kept = Box::into_raw(Box::new(keep));
        args.on_delete_callback = Some(on_delete::<D>);
        args.on_delete_callback_arg = kept.cast::<c_void>();
        // SAFETY: C2 (calls), A4 (views of device memory): the client, device and memory are live and belong to one
        // client. The shape and layout live through the call. The memory stays allocated until the callback runs.
        if let Err(error) = unsafe { client.api().call::<Function>(&mut args) } {
            // SAFETY: C5 (host memory): after a failed call the callback never runs, so this function still owns the
            // box.
            drop(unsafe { Box::from_raw(kept) });
            return Err(error);
        }
        let raw = read::object(args.buffer).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok(unsafe { Buffer::new(raw, client.inner().clone(), None) })
    }
}

/// Drops the `keep` of a view when the plugin no longer uses the memory. This is an `on_delete_callback`.
unsafe extern "C" fn on_delete<D>(_: *mut c_void, user_arg: *mut c_void) {
    contain(|| {
        // SAFETY: C5 (host memory): the callback runs once, with the box that `NewBuffer::view` created.
        drop(unsafe { Box::from_raw(user_arg.cast::<D>()) });
    });
}
