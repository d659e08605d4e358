//! Fuzzes the requests to a server of `pjrt-remote`. Any messages must end the connection only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pjrt_fuzz::{report, requests};

fuzz_target!(|bytes: &[u8]| report(bytes, requests::send(bytes)));
