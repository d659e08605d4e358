//! `#[device_plugin]` rejects plugins with both a backend and a library, with neither, and with a conditional library.

use device_plugin::{DevicePlugin, Library, NoBackend, device_plugin};

pub struct Neither;

#[device_plugin]
impl DevicePlugin for Neither {
    const NAME: &'static str = "neither";
}

pub struct NeitherInWords;

#[device_plugin]
impl DevicePlugin for NeitherInWords {
    const NAME: &'static str = "neither";
    type Backend = NoBackend;
}

type Device = NoBackend;

pub struct Both;

#[device_plugin]
impl DevicePlugin for Both {
    const NAME: &'static str = "both";
    type Backend = Device;
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

pub struct Perhaps;

#[device_plugin]
impl DevicePlugin for Perhaps {
    const NAME: &'static str = "perhaps";
    #[cfg(all())]
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

fn main() {}
