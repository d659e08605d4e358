//! A plugin that wraps an existing PJRT library, `libexample_pjrt.so` in the same folder.

use device_plugin::{DevicePlugin, Library, Ownership, device_plugin};

/// The plugin type, which `#[device_plugin]` exports.
#[derive(Debug)]
pub struct Example;

#[device_plugin(export)]
impl DevicePlugin for Example {
    const NAME: &'static str = "example";
    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::beside("libexample_pjrt.so") }
    }
    fn ownership() -> Ownership {
        Ownership::Exclusive
    }
}
