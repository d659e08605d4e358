//! `PJRT_Client_BufferFromHostBuffer`: the call that transfers an array from the host to a device.

use std::ffi::c_void;
use std::ptr;

use pjrt_sys::*;
use pjrt_types::{HostBufferSemantics, Layout, Shape};

use crate::element;
use crate::error::Error;
use crate::layout::{self, MemoryLayout};
use crate::objects::buffer::Buffer;
use crate::objects::event::Event;
use crate::objects::owners::Client;
use crate::objects::placement::Placement;
use crate::table::read;

/// First minor API version in which XLA's plugins convert uploads to the requested layout. XLA of API 0.106 reports the
/// requested layout for the buffer, but leaves the elements row-major.
const HONOURS_DEVICE_LAYOUT: i32 = 115;

/// A pointer to host data, with its shape and strides. Without strides, the data is row-major.
pub(crate) struct HostData<'a> {
    pub(crate) data: *const u8,
    pub(crate) shape: &'a Shape,
    pub(crate) byte_strides: &'a [i64],
}

impl Client {
    /// Transfers host data. An outer error means that the plugin no longer uses the data. Otherwise, the plugin may use
    /// the data until the event is ready, even if the inner result is an error. If there is no event, the plugin no
    /// longer uses the data.
    ///
    /// # Safety
    ///
    /// The elements of `host` are valid for as long as the plugin may use them under `semantics`.
    pub(crate) unsafe fn send(
        &self,
        host: &HostData<'_>,
        semantics: HostBufferSemantics,
        placement: Placement<'_>,
        device_layout: Option<&Layout>,
    ) -> Result<(Result<Buffer, Error>, Option<Event>), Error> {
        placement.check(self.inner())?;
        element::check_data(host.shape.element_type, self.api().version())?;
        let mut device = None;
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        match placement {
            Placement::Default => device = Some(self.default_device_raw()?),
            Placement::Device(to) => device = Some(to.raw()),
            Placement::Memory(to) => args.memory = to.handle().as_ptr(),
        }
        args.client = self.inner().raw().as_ptr();
        args.data = host.data.cast::<c_void>();
        args.type_ = PJRT_Buffer_Type(host.shape.element_type.as_raw());
        args.dims = host.shape.dimensions.as_ptr();
        args.num_dims = host.shape.dimensions.len();
        if !host.byte_strides.is_empty() {
            // Leave the pointer null if there are no strides. XLA of API 0.106 treats every non-null pointer as
            // strides, and aborts the process if the number of strides differs from the rank.
            args.byte_strides = host.byte_strides.as_ptr();
            args.num_byte_strides = host.byte_strides.len();
        }
        let converted = device_layout.map(|layout| MemoryLayout::new(layout, host.shape)).transpose()?;
        if let Some(layout) = device_layout
            && (layout::is_non_default(layout, host.shape) || !layout.tiles.is_empty())
            && self.api().version().minor < HONOURS_DEVICE_LAYOUT
        {
            let version = self.api().version();
            return Err(Error::unsupported(format!(
                "an upload to the layout {layout} requires API 0.{HONOURS_DEVICE_LAYOUT}; the plugin has API {version}"
            )));
        }
        let mut converted = converted.as_ref().map(MemoryLayout::raw);
        if let Some(layout) = &mut converted {
            args.device_layout = layout;
        }
        args.host_buffer_semantics = PJRT_HostBufferSemantics(semantics as u32);
        args.device = device.map_or(ptr::null_mut(), |device| device.0.as_ptr());
        let call = || {
            (args.done_with_host_buffer, args.buffer) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: C2 (calls), C5 (host memory): the client is live, and the device and memory belong to it. The
            // data is valid by this function's contract, and the plugin does not read it after a failed call. The
            // dimensions, strides and layout live through the call.
            unsafe { self.api().call::<slot::PJRT_Client_BufferFromHostBuffer>(&mut args) }
        };
        self.inner().allocating(|| self.devices_at(placement), call)?;
        let done = read::object(args.done_with_host_buffer).ok();
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        let done = done.map(|raw| unsafe { Event::new(raw, self.inner().clone()) });
        let buffer = read::object(args.buffer)
            .map_err(|broken| Error::malformed(slot::PJRT_Client_BufferFromHostBuffer::NAME, broken))
            // SAFETY: C3 (objects): the plugin created the buffer for this caller.
            .map(|raw| unsafe { Buffer::new(raw, self.inner().clone(), device) });
        Ok((buffer, done))
    }
}
