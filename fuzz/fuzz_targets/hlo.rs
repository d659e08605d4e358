//! The reader of HLO protos: any bytes give an error or a module that can be printed, written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| device_plugin_fuzz::report(bytes, device_plugin_fuzz::hlo(bytes)));
