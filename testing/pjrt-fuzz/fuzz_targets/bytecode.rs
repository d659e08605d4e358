//! Fuzzes the reader of portable artifacts. Any bytes must result in a module or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pjrt_fuzz::report(bytes, pjrt_fuzz::bytecode(bytes)));
