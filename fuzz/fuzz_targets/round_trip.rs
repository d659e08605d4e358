//! Fuzzes the printer and the writer. An accepted program must be read again as the same program.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| device_plugin_fuzz::report(bytes, device_plugin_fuzz::round_trip(bytes)));
