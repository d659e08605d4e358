//! `export!` of a plugin without a backend does not compile, because such a plugin has no function table.

use device_plugin::{DevicePlugin, Library, device_plugin};

pub struct Wrapper;

#[device_plugin]
impl DevicePlugin for Wrapper {
    const NAME: &'static str = "wrapper";
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

device_plugin::export!(Wrapper);

fn main() {}
