//! A plugin that wraps a PJRT library which exists already, `libexample_pjrt.so` beside this one.
#![forbid(unsafe_code)]

use device_plugin::{DevicePlugin, Library, Ownership, device_plugin};

/// The plugin.
pub struct Example;

#[device_plugin(export)]
impl DevicePlugin for Example {
    const NAME: &'static str = "example";

    fn library() -> Library {
        Library::beside("libexample_pjrt.so")
    }
    fn ownership() -> Ownership {
        Ownership::Exclusive
    }
}
