//! The reader of HLO protos: any bytes give a module or an error, with and without a config around the module.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for result in [stablehlo::parse_hlo(bytes.to_vec()), stablehlo::parse_hlo_with_config(bytes.to_vec())] {
        match result {
            Ok(module) => assert!(!module.to_string().is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
