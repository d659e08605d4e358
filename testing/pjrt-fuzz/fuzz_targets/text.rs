//! Fuzzes the reader of StableHLO text. Any text must result in a module or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pjrt_fuzz::report(bytes, pjrt_fuzz::text(bytes)));
