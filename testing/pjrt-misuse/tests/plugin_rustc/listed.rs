//! A feature that is listed in `FEATURES` needs an implementation of its trait.

use std::sync::Arc;

use device_plugin::features::Features;
use device_plugin::{
    Backend, CompileOptions, Compiled, ClientOptions, DeviceInfo, DevicePlugin, Error, Event, HostArray, Launch,
    Placement, Program, Result, device_plugin,
};

pub struct Plugin;

#[device_plugin]
impl DevicePlugin for Plugin {
    const NAME: &'static str = "listed";
    type Backend = Device;
}

pub struct Device;

impl Backend for Device {
    type Buffer = ();
    type Executable = ();

    const FEATURES: Features<Self> = Features::none().tracking();

    fn create(_: &ClientOptions) -> Result<Self> {
        Ok(Self)
    }
    fn devices(&self) -> Vec<DeviceInfo> {
        Vec::new()
    }
    fn buffer_from_host(&self, _: HostArray<'_>, _: Placement) -> Result<()> {
        Ok(())
    }
    fn read(&self, (): &(), _: &mut [u8]) -> Result<()> {
        Ok(())
    }
    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        Err(Error::unimplemented("programs"))
    }
    fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> {
        Ok(Event::ready())
    }
}

fn main() {}
