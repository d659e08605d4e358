//! The smallest plugin: a device in host memory whose programs return their arguments.
//!
//! Cargo builds it as a shared library, `target/debug/examples/libecho_plugin.so`, which any PJRT framework can load.
#![forbid(unsafe_code)]

use std::sync::Arc;

use device_plugin::features::{Features, Platform};
use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, Error, Event, ExecutableInfo,
    HostArray, Launch, Placement, Program, Result, Shape, device_plugin,
};

/// The plugin type, which `#[device_plugin]` exports.
#[derive(Debug)]
pub struct Echo;

#[device_plugin(export)]
impl DevicePlugin for Echo {
    const NAME: &'static str = "echo";
    type Backend = EchoDevice;
}

/// A device in host memory whose programs return their arguments.
#[derive(Debug)]
pub struct EchoDevice;

impl Backend for EchoDevice {
    type Buffer = Arc<[u8]>;
    type Executable = ();

    const FEATURES: Features<Self> = Features::none().platform();

    fn create(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&[])?;
        Ok(Self)
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "echo")]
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> {
        Ok(host.into_bytes().into())
    }

    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer);
        Ok(())
    }

    /// Compiles a program. A program is a string with the extents of one array of 32-bit floats, such as `2,3`.
    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        let text =
            std::str::from_utf8(program.code()).map_err(|_| Error::invalid_argument("the program is not UTF-8"))?;
        let extents = text.split(',').map(|extent| {
            extent.trim().parse::<i64>().map_err(|_| Error::invalid_argument(format!("{extent:?} is not an extent")))
        });
        let shape = Shape::new(device_plugin::ElementType::F32, extents.collect::<Result<Vec<_>>>()?);
        Ok(Compiled::new((), ExecutableInfo::new("echo", [shape.clone()], [shape])))
    }

    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        launch.outputs.push(launch.inputs[0].clone())?;
        Ok(Event::ready())
    }
}

impl Platform for EchoDevice {
    fn platform_version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }
}
