//! The reader of text: any text gives a module or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = stablehlo::parse(text.to_owned()) {
        assert!(!error.to_string().is_empty());
    }
});
