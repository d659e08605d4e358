//! `#[device_plugin]` rejects unsupported and malformed arguments.

use device_plugin::{DevicePlugin, Library, device_plugin};

macro_rules! plugins {
    ($($ty:ident $(#[$attribute:meta])*;)*) => {$(
        pub struct $ty;

        $(#[$attribute])*
        impl DevicePlugin for $ty {
            const NAME: &'static str = "example";
            fn library() -> Library {
                unsafe { Library::beside("libexample.so") }
            }
        }
    )*};
}

plugins! {
    Unknown #[device_plugin(name = "x", exported)];
    Twice #[device_plugin(export, prefix = "twice", export)];
    ExportValue #[device_plugin(export = "value")];
    PrefixAlone #[device_plugin(prefix = "alone")];
    PrefixNoText #[device_plugin(export, prefix = no_text)];
    PrefixNoName #[device_plugin(export, prefix = "1 name")];
    Register #[device_plugin(register)];
    Quoted #[device_plugin(crate = "device_plugin")];
    NoCommas #[device_plugin(export register)];
    All #[device_plugin(exprot, prefx = "all", register = "no")];
}

fn main() {}
