//! `PJRT_Stream_Extension`: streams of a device, for libraries that share the device's memory.

use std::sync::Arc;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::device::Device;
use crate::objects::owners::ClientInner;
use crate::objects::owners::Plugin;
use crate::table::handle::Owner as _;

/// Functions for a device's streams. With streams, libraries can share device memory, for example through DLPack,
/// without blocking a host thread.
///
/// ```
/// # use pjrt::ClientOptions;
/// # use pjrt::extensions::Streams;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1.0f32], &[1])?;
/// if let Some(streams) = client.plugin().extension::<Streams>() {
///     let stream = streams.stream_for_external_ready_events(&client.default_device()?)?;
///     streams.wait_until_buffer_ready_on_stream(&stream, &x)?;
///     // Pass `stream.as_raw()` to the library that reads the buffer.
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Stream_Extension")]
pub struct Streams(Functions<PJRT_Stream_Extension>);

impl sealed::Sealed for Streams {}

impl PluginExtension for Streams {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

/// A stream of a device. It consists of the platform's handle, such as a `cudaStream_t`, and the device's client.
#[derive(Clone)]
pub struct Stream {
    raw: isize,
    client: Arc<ClientInner>,
}

impl Stream {
    /// Wraps a stream of another library, for use with a device.
    ///
    /// # Safety
    ///
    /// `raw` is a handle to a stream of the device's platform. The stream lives as long as the returned value and its
    /// clones.
    pub unsafe fn from_raw(raw: isize, device: &Device) -> Self {
        Self { raw, client: device.handle().owner().clone() }
    }

    /// Returns the platform's handle, for calls of the platform's own functions.
    pub fn as_raw(&self) -> isize {
        self.raw
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:#x})", self.raw)
    }
}

impl Streams {
    /// Returns the stream on which another library signals to the device that shared memory is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the device belongs to another plugin.
    #[doc(alias = "PJRT_Get_Stream_For_External_Ready_Events")]
    pub fn stream_for_external_ready_events(&self, device: &Device) -> Result<Stream, Error> {
        self.0.check(device.handle().api())?;
        let mut args = PJRT_Get_Stream_For_External_Ready_Events_Args::new();
        args.device = device.handle().as_ptr();
        // SAFETY: C2 (calls): the device is live and belongs to this plugin.
        unsafe { self.0.call::<function::PJRT_Get_Stream_For_External_Ready_Events>(&mut args) }?;
        Ok(Stream { raw: args.stream, client: device.handle().owner().clone() })
    }

    /// Makes later work on a stream wait until the buffer is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream belongs to another plugin, if stream and buffer belong to different clients, or
    /// if the buffer has been deleted.
    #[doc(alias = "PJRT_Wait_Until_Buffer_Ready_On_Stream")]
    pub fn wait_until_buffer_ready_on_stream(&self, stream: &Stream, buffer: &Buffer) -> Result<(), Error> {
        self.0.check(stream.client.api())?;
        if !Arc::ptr_eq(&stream.client, buffer.handle().owner()) {
            return Err(Error::invalid("the stream belongs to another client than the buffer"));
        }
        let mut args = PJRT_Wait_Until_Buffer_Ready_On_Stream_Args::new();
        args.stream = stream.raw;
        args.buffer = buffer.live()?.as_ptr();
        // SAFETY: C2 (calls): the buffer is live and belongs to this plugin. The stream came from the plugin and lives
        // as long as its client, or the caller of `Stream::from_raw` guarantees that it is live.
        unsafe { self.0.call::<function::PJRT_Wait_Until_Buffer_Ready_On_Stream>(&mut args) }
    }
}
