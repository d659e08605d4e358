//! Fuzzes the printer and the writer. Reading the output for an accepted program must return the same program.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pjrt_fuzz::report(bytes, pjrt_fuzz::round_trip(bytes)));
