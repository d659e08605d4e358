//! Two plugins in one static library for programs in C, such as `tests/c/two_names.c`.

use std::sync::Arc;

use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, Error, Event, HostArray, Launch,
    Library, NoBackend, Placement, Program, Result, device_plugin,
};

/// A plugin that has a device.
#[derive(Debug)]
pub struct First;

#[device_plugin(export, prefix = "first")]
impl DevicePlugin for First {
    const NAME: &'static str = "first";
    type Backend = Device;
}

/// A device that stores data and cannot run programs.
#[derive(Debug)]
pub struct Device;

impl Backend for Device {
    type Buffer = Arc<[u8]>;
    type Executable = ();

    fn create(_: &ClientOptions) -> Result<Self> {
        Ok(Self)
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "memory")]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> {
        Ok(host.into_bytes().into())
    }

    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer);
        Ok(())
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        Err(Error::unimplemented("programs"))
    }

    fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> {
        Err(Error::unimplemented("programs"))
    }
}

/// A plugin that wraps another library.
#[derive(Debug)]
pub struct Second;

#[device_plugin(export, prefix = "second")]
impl DevicePlugin for Second {
    const NAME: &'static str = "second";
    type Backend = NoBackend;

    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::path("/opt/second/libsecond.so") }
    }
}
