//! `#[device_plugin]` on a negative implementation does not compile.

#[allow(unused_imports)]
use device_plugin::{DevicePlugin, device_plugin};

pub struct Example;

#[device_plugin]
impl !DevicePlugin for Example {}

fn main() {}
