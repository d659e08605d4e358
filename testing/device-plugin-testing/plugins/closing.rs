//! A test plugin that exports a C function for its shutdown. The function and the plugin's shutdown hook each append a
//! line to the file that the environment variable `CLOSING_PLUGIN_LOG` names.

#![allow(missing_debug_implementations, reason = "a test plugin")]

use std::io::Write;

use device_plugin::{Backend, DevicePlugin, OptionSchema, device_plugin};

/// The plugin type, which `#[device_plugin]` exports.
pub struct Closing;

#[device_plugin(export)]
impl DevicePlugin for Closing {
    const NAME: &'static str = "closing";
    type Backend = ClosingDevice;

    fn options() -> OptionSchema {
        OptionSchema::only([])
    }

    fn shutdown() {
        log("hook");
    }
}

/// A device in host memory that cannot run programs.
pub struct ClosingDevice;

impl Backend for ClosingDevice {
    device_plugin_testing::unit_device!("closing");
    device_plugin_testing::host_memory!();
    device_plugin_testing::no_programs!();
}

/// Logs `closed`, in place of shutting down a library.
// SAFETY: the library contains no other function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn closing_plugin_shutdown() {
    log("closed");
}

fn log(line: &str) {
    let Some(path) = std::env::var_os("CLOSING_PLUGIN_LOG") else { return };
    let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // The process is ending, so an error cannot be reported.
    let _ = log.and_then(|mut log| writeln!(log, "{line}"));
}
