//! A plugin with a C function that shuts it down, for the tests: the function adds a line to the file that
//! `CLOSING_PLUGIN_LOG` names.

use std::io::Write;
use std::sync::Arc;

use device_plugin::{
    Backend, CompileOptions, Compiled, CreateOptions, DeviceInfo, DevicePlugin, Error, Event, HostArray, Launch,
    OptionSchema, Placement, Program, Result, device_plugin,
};

/// The plugin.
pub struct Closing;

#[device_plugin(export)]
impl DevicePlugin for Closing {
    const NAME: &'static str = "closing";
    type Backend = ClosingDevice;

    fn options() -> OptionSchema {
        OptionSchema::only([])
    }

    fn shutdown() {
        log("hook");
    }
}

/// A device in host memory, without programs.
pub struct ClosingDevice;

impl Backend for ClosingDevice {
    type Buffer = Arc<[u8]>;
    type Executable = ();

    fn create(_: &CreateOptions) -> Result<Self> {
        Ok(Self)
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "closing")]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> {
        Ok(host.into_bytes().into())
    }

    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer);
        Ok(())
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        Err(Error::unimplemented("this device runs no programs"))
    }

    fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> {
        Err(Error::unimplemented("this device runs no programs"))
    }
}

/// Shuts the plugin down.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C" fn closing_plugin_shutdown() {
    log("closed");
}

fn log(line: &str) {
    let Some(path) = std::env::var_os("CLOSING_PLUGIN_LOG") else { return };
    let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // Nobody is left to tell.
    let _ = log.and_then(|mut log| writeln!(log, "{line}"));
}
