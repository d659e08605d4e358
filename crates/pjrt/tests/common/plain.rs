//! A plugin whose device has host memory but cannot compile programs. Tests add functions to copies of its table.

use device_plugin::{Backend, DevicePlugin, device_plugin};

pub(crate) struct Plain;

#[device_plugin]
impl DevicePlugin for Plain {
    const NAME: &'static str = "plain";
    type Backend = Device;
}

pub(crate) struct Device;

impl Backend for Device {
    device_plugin_testing::unit_device!("Plain");
    device_plugin_testing::host_memory!();
    device_plugin_testing::no_programs!();
}
