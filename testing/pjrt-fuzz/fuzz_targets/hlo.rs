//! Fuzzes the reader of HLO protos. Any bytes must result in an error, or in a module that can be printed, written and
//! read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pjrt_fuzz::report(bytes, pjrt_fuzz::hlo(bytes)));
