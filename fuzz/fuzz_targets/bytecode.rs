//! The reader of portable artifacts: any bytes give a module or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first bytes are those of every artifact, so that none is spent on finding them.
    let program = if bytes.starts_with(b"ML\xEFR") { bytes.to_vec() } else { [b"ML\xEFR", bytes].concat() };
    if let Err(error) = stablehlo::parse(program) {
        assert!(!error.to_string().is_empty());
    }
});
