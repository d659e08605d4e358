//! `#[device_plugin]` rejects items that are not an unconditional implementation of `DevicePlugin` for a single type.

use device_plugin::{DevicePlugin, device_plugin};

#[device_plugin]
pub struct Struct;

#[device_plugin]
pub fn function() {}

#[device_plugin]
impl Struct {
    pub fn inherent() {}
}

#[device_plugin]
impl Default for Struct {
    fn default() -> Self {
        Self
    }
}

pub struct Generic<T>(T);

#[device_plugin]
impl<T: 'static> DevicePlugin for Generic<T> {
    const NAME: &'static str = "generic";
    type Backend = device_plugin::NoBackend;
}

pub struct Conditional;

#[device_plugin]
impl DevicePlugin for Conditional
where
    Struct: Default,
{
    const NAME: &'static str = "conditional";
    type Backend = device_plugin::NoBackend;
}

pub struct Borrowing<'a>(&'a str);

#[device_plugin]
impl DevicePlugin for Borrowing<'static> {
    const NAME: &'static str = "borrowing";
    type Backend = device_plugin::NoBackend;
}

fn main() {}
