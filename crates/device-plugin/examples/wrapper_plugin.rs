//! A plugin that wraps an existing PJRT library, `libexample_pjrt.so` in the same folder.
#![forbid(unsafe_code)]

use device_plugin::{DevicePlugin, Library, Ownership, device_plugin};

/// The plugin type, which `#[device_plugin]` exports.
#[derive(Debug)]
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
