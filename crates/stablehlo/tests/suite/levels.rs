//! Tests that only the verification level determines which programs are rejected. Cargo features must not matter, so
//! also run this file with `--no-default-features`.

use std::path::Path;

use stablehlo::{Result, VerifyLevel, ir};

fn broken(name: &str, level: VerifyLevel) -> Result<ir::Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken").join(name);
    stablehlo::parse(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())), level)
}

#[test]
fn structure_at_every_level() {
    for level in [VerifyLevel::STRUCTURE, VerifyLevel::FULL] {
        for name in ["tensor_of_tensors.bc", "op_without_a_dialect.bc"] {
            assert!(broken(name, level).is_err(), "{name} at {level:?}");
        }
    }
}

#[test]
fn type_text_at_full() {
    let error = broken("type_of_no_text.bc", VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Type, "{error}");
    broken("type_of_no_text.bc", VerifyLevel::STRUCTURE).unwrap();
}

#[cfg(feature = "text")]
#[test]
fn rules_at_full() {
    let main = |op: &str| {
        format!("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{op}\nreturn %0 : tensor<2xf32> }}")
    };
    for op in [
        "%0 = \"stablehlo.collective_permute\"(%x) {source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>} : \
         (tensor<2xf32>) -> tensor<2xf32>",
        "%0 = stablehlo.tan %x {result_accuracy = #stablehlo.result_accuracy<atol = -1.0, mode = \
         #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2xf32>",
    ] {
        let text = main(op);
        stablehlo::parse(text.clone(), VerifyLevel::STRUCTURE).unwrap_or_else(|e| panic!("{op}: {e}"));
        assert!(stablehlo::parse(text, VerifyLevel::FULL).is_err(), "{op}");
    }
    let count = main("%0 = \"stablehlo.add\"(%x) : (tensor<2xf32>) -> tensor<2xf32>");
    assert!(stablehlo::parse(count, VerifyLevel::STRUCTURE).is_err());
}
