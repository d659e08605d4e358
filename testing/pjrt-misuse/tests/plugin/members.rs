//! `#[device_plugin]` rejects unknown and malformed members. The compiler does not report any of them a second time.

use device_plugin::{DevicePlugin, Library, device_plugin};

pub struct Example;

#[device_plugin]
unsafe impl DevicePlugin for Example {
    const NAME: &'static str = "example";
    const ALIAS: &'static [&'static str] = &[];
    type Device = ();
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
    fn capabilites() -> device_plugin::Capabilities {
        device_plugin::Capabilities::default()
    }
    fn helper() {}
    fn process(&self) -> device_plugin::ProcessPlan {
        device_plugin::ProcessPlan::default()
    }
    async fn initialize() -> device_plugin::Result<()> {
        Ok(())
    }
    pub fn ownership() -> device_plugin::Ownership {
        device_plugin::Ownership::Shared
    }
    fn configure(topology: &device_plugin::ProcessTopology) -> device_plugin::Result<device_plugin::EnvPlan> {
        Ok(device_plugin::EnvPlan::default())
    }
    fn options() {}
    fn shutdown() -> bool {
        true
    }
    fn manifest<T>(manifest: device_plugin::Manifest) -> device_plugin::Manifest {
        manifest
    }
    unsafe fn attributes() -> Vec<device_plugin::NamedValue> {
        Vec::new()
    }
    extern "C" fn stablehlo_versions() -> Option<device_plugin::StablehloVersions> {
        None
    }
    include!("more.rs");
}

fn main() {}
