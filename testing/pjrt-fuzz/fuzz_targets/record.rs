//! Fuzzes the readers of recordings: blocks, JSON, summaries and `trim`. Any bytes must result in an error or a result
//! that takes little memory. The mutator writes valid checksums, because the reader rejects almost all other files.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use pjrt_fuzz::{recordings, report};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    recordings::mutate(data, size, max_size, seed, fuzzer_mutate)
});

fuzz_target!(|bytes: &[u8]| report(bytes, recordings::read(bytes)));
