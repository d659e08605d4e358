//! What is read and verified prints, reads again as the same text, and, where the version can say it, is written as an
//! artifact that is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stablehlo::ir::Version;

fuzz_target!(|program: &[u8]| {
    let Ok(module) = stablehlo::parse(program.to_vec()) else { return };
    let text = module.to_string();
    let again = stablehlo::parse(text.clone()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again.to_string(), text);
    for version in [Version::NEWEST, Version::OLDEST] {
        let Ok(artifact) = stablehlo::write(&module, version) else { continue };
        let read = stablehlo::parse(artifact).unwrap_or_else(|e| panic!("{e}\n{text}"));
        if version == Version::NEWEST {
            assert_eq!(read.to_string(), text);
        }
    }
});
