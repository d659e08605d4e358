//! `#[device_plugin]` rejects missing names, names that are not strings, and names that frameworks do not accept.

use device_plugin::{DevicePlugin, Library, device_plugin};

pub struct Nameless;

#[device_plugin]
impl DevicePlugin for Nameless {
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

pub struct Number;

#[device_plugin]
impl DevicePlugin for Number {
    const NAME: &'static str = 7;
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

pub struct Capital;

#[device_plugin]
impl DevicePlugin for Capital {
    const NAME: &'static str = "My-Device";
    const ALIASES: &'static [&'static str] = &["gpu", "G P U", ""];
    fn library() -> Library {
        unsafe { Library::beside("libexample.so") }
    }
}

fn main() {}
