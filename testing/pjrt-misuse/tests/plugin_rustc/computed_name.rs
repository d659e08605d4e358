//! The compiler rejects an invalid name in an expression that the macro cannot evaluate.

use device_plugin::{DevicePlugin, Library, device_plugin};

pub struct Example;

#[device_plugin]
impl DevicePlugin for Example {
    const NAME: &'static str = concat!("my", "-", "device");
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

fn main() {}
