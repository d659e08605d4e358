//! Fuzzes the compiler of loops. No accepted program may leave its arrays, and generated code must compute what an
//! interpreter computes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../cpu/stablehlo-jit/tests/suite/oracle/mod.rs"]
mod oracle;

fuzz_target!(|bytes: &[u8]| pjrt_fuzz::report(bytes, oracle::check(bytes).map(drop)));
