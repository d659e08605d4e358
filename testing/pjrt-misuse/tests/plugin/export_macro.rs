//! `export!` rejects items that are not plugin types, and malformed or unsupported arguments.

use device_plugin::{DevicePlugin, Library, device_plugin};

pub struct Wrapper;

#[device_plugin]
impl DevicePlugin for Wrapper {
    const NAME: &'static str = "wrapper";
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

device_plugin::export!("wrapper");
device_plugin::export!(Wrapper prefix = "a");
device_plugin::export!(Wrapper, prefixed = "b", descriptor_only);
device_plugin::export!(Wrapper, prefix = "c-d", descriptor_only = true);

fn main() {}
