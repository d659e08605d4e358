//! `#[device_plugin]` rejects an implementation for a type of another crate.

#[allow(unused_imports)]
use device_plugin::{DevicePlugin, device_plugin};

#[device_plugin]
impl DevicePlugin for (u8, u8) {
    const NAME: &'static str = "pair";
    type Backend = device_plugin::NoBackend;
}

fn main() {}
