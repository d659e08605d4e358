//! With `#[device_plugin]`, an implementation of another trait with the name `DevicePlugin` does not compile.

use device_plugin::device_plugin;

pub trait DevicePlugin {
    const NAME: &'static str;
    type Backend;
}

pub struct Example;
pub struct Device;

#[device_plugin]
impl DevicePlugin for Example {
    const NAME: &'static str = "example";
    type Backend = Device;
}

fn main() {}
