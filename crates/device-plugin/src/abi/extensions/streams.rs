//! The stream extension: the device's queues, for libraries that share its memory.

use pjrt_sys::{AbiStruct, Extension, PJRT_Extension_Base, PJRT_Stream_Extension, extension_slot};

use crate::abi::extensions::ffi;
use crate::abi::objects::client::buffer::BufferHandle;
use crate::abi::objects::client::device::Device;
use crate::abi::table::entry::{Shim, entries, entry};
use crate::extensions::{Stream, StreamFunctions};
use crate::{Backend, DevicePlugin, Error, Result};

/// Where the extension lies, or the next one where the backend does not offer it.
pub(crate) const fn pointer<P: DevicePlugin>() -> *mut PJRT_Extension_Base {
    struct Constant<P>(std::marker::PhantomData<P>);
    impl<P: DevicePlugin> Constant<P> {
        const EXTENSION: &'static PJRT_Stream_Extension = &PJRT_Stream_Extension {
            base: PJRT_Extension_Base {
                struct_size: PJRT_Stream_Extension::STRUCT_SIZE,
                type_: PJRT_Stream_Extension::TYPE,
                next: ffi::pointer::<P>(),
            },
            get_stream: Some(entry::<Shim<P>, extension_slot::PJRT_Get_Stream_For_External_Ready_Events>),
            wait_stream: Some(entry::<Shim<P>, extension_slot::PJRT_Wait_Until_Buffer_Ready_On_Stream>),
        };
    }
    if P::Backend::EXTENSIONS.streams.is_none() {
        return ffi::pointer::<P>();
    }
    let pointer: *const PJRT_Stream_Extension = Constant::<P>::EXTENSION;
    pointer.cast_mut().cast()
}

fn functions<B: Backend>() -> Result<StreamFunctions<B>> {
    // The table holds these functions only where the backend offers them.
    B::EXTENSIONS.streams.ok_or_else(|| Error::unimplemented("the backend offers no streams"))
}

entries! {
    in extension_slot;

    PJRT_Get_Stream_For_External_Ready_Events(args, device) {
        let device: &Device = device;
        let client = device.client::<P>()?;
        args.stream = (functions::<P::Backend>()?.stream)(&client.backend, device.index)?.0;
        Ok(())
    }

    PJRT_Wait_Until_Buffer_Ready_On_Stream(args, buffer) {
        let buffer: &BufferHandle<P::Backend> = buffer;
        let held = buffer.hold()?;
        // The call has no event, so it waits for the buffer as XLA does, unless the device keeps the order itself. A
        // value that does not exist yet can be given to nobody.
        if !P::Backend::QUEUED || held.value().get().is_none() {
            buffer.ready.wait()?;
        }
        let value = held.value().available()?;
        (functions::<P::Backend>()?.wait)(&buffer.client.backend, Stream(args.stream), value)
    }
}
