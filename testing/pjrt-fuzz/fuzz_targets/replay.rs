//! Fuzzes replays of recordings on the embedded device. Any bytes must result in an error or a report, in limited time
//! and memory.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use pjrt_fuzz::{recordings, report};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    recordings::mutate(data, size, max_size, seed, fuzzer_mutate)
});

fuzz_target!(|bytes: &[u8]| report(bytes, recordings::repeat(bytes)));
