//! The stream extension: gives other libraries access to the device's streams, so that they can share its memory.

use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::client::device::Device;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::backend::functions;
use crate::features::Stream;
use crate::{Backend, DevicePlugin, Error, Result};

extension! {
    /// The stream extension. A plugin offers it if the backend implements the feature `Streams`.
    Streams = PJRT_Stream_Extension if P::Backend::FEATURES.streams.is_some();
    get_stream: PJRT_Get_Stream_For_External_Ready_Events,
    wait_stream: PJRT_Wait_Until_Buffer_Ready_On_Stream,
}

fn streams<B: Backend>() -> Result<functions::Streams<B>> {
    // A plugin offers the extension only if the backend has the feature, so this error does not occur.
    B::FEATURES.streams.ok_or_else(|| Error::unimplemented("the backend does not support streams"))
}

#[entry(extension)]
unsafe fn PJRT_Get_Stream_For_External_Ready_Events<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Get_Stream_For_External_Ready_Events_Args,
    device: &Device,
) -> Result<()> {
    let client = Client::<P::Backend>::of_device(device)?;
    args.stream = (streams::<P::Backend>()?.stream_for_external_ready_events)(&client.backend, device.index)?.0;
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Wait_Until_Buffer_Ready_On_Stream<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Wait_Until_Buffer_Ready_On_Stream_Args,
    buffer: &BufferHandle<P::Backend>,
) -> Result<()> {
    let held = buffer.hold()?;
    // The call returns no event, so it waits for the buffer, as in XLA. A backend with the feature `queued` orders
    // its work itself, so the call need not wait. But it must wait for a value that does not exist yet, because the
    // backend cannot receive such a value.
    if !P::Backend::FEATURES.queued || held.value().get().is_none() {
        buffer.ready.wait()?;
    }
    let value = held.value().available()?;
    (streams::<P::Backend>()?.wait_until_buffer_ready_on_stream)(&buffer.client.backend, Stream(args.stream), value)
}
