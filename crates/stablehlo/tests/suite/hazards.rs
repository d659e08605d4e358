//! Tests the detection of programs that crash XLA's plugins.

#![allow(clippy::unwrap_used, reason = "a test program")]

use bytes::Bytes;
use stablehlo::hazards::{Hazard, hazards, may_have_hazards, oversized_type};

fn of(program: &str) -> Vec<Hazard> {
    let artifact = stablehlo::write(
        &stablehlo::parse(program.to_owned(), stablehlo::VerifyLevel::FULL).unwrap(),
        "1.9.0".parse().unwrap(),
    )
    .unwrap();
    let found = hazards(&stablehlo::parse(program.to_owned(), stablehlo::VerifyLevel::FULL).unwrap());
    assert_eq!(
        found,
        hazards(&stablehlo::parse(artifact.clone(), stablehlo::VerifyLevel::FULL).unwrap()),
        "text and artifact differ"
    );
    assert_eq!(may_have_hazards(program.as_bytes()), may_have_hazards(&artifact));
    if let Some(of_hlo) = of_hlo(program) {
        assert_eq!(found, of_hlo, "text and HLO differ");
    }
    assert!(found.is_empty() || may_have_hazards(&artifact));
    found
}

/// Returns the hazards of the program in HLO. Returns `None` if the program cannot be written as HLO. For example, HLO
/// cannot express `set_dimension_size`.
#[cfg(feature = "hlo")]
fn of_hlo(program: &str) -> Option<Vec<Hazard>> {
    let module = stablehlo::parse(program.to_owned(), stablehlo::VerifyLevel::FULL).unwrap();
    let hlo = stablehlo::write_hlo(&module).ok()?;
    let found = hazards(&stablehlo::parse_hlo(hlo.clone(), stablehlo::VerifyLevel::FULL).unwrap());
    assert!(found.is_empty() || may_have_hazards(&hlo));
    Some(found)
}

#[cfg(not(feature = "hlo"))]
fn of_hlo(_: &str) -> Option<Vec<Hazard>> {
    println!("SKIPPED hazards in HLO: stablehlo is built without the feature hlo");
    None
}

fn dimension_size(size: i64) -> Vec<Hazard> {
    of(&format!(
        "func.func @main(%x: tensor<8xf32>) -> tensor<?xf32, #stablehlo.bounds<8>> {{
  %n = stablehlo.constant dense<{size}> : tensor<i32>
  %0 = \"stablehlo.set_dimension_size\"(%x, %n) <{{dimension = 0 : i64}}>
    : (tensor<8xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<8>>
  return %0 : tensor<?xf32, #stablehlo.bounds<8>>
}}"
    ))
}

#[test]
fn sizes_outside_the_dimension() {
    for size in [0, 3, 8] {
        assert_eq!(dimension_size(size), []);
    }
    for size in [-1, 9] {
        assert_eq!(dimension_size(size), [Hazard::DimensionSize { func: "main".to_owned(), size, bound: 8 }]);
    }
    expect_test::expect_file!["../messages/hazards.txt"].assert_eq(&format!("{}\n", dimension_size(9)[0]));
}

#[test]
fn top_k_without_a_comparator() {
    let top_k = |version: u32| {
        format!(
            "func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> {{
  %0 = stablehlo.custom_call @TopK(%x) {{api_version = {version} : i32}} : (tensor<8xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}"
        )
    };
    let call = |version| of(&top_k(version));
    #[cfg(feature = "hlo")]
    assert!(of_hlo(&top_k(1)).is_some());
    assert_eq!(call(1), [Hazard::TopK { func: "main".to_owned() }]);
    assert_eq!(call(2), []);
}

#[test]
fn program_without_hazards() {
    assert!(!may_have_hazards(b"func.func @main() { return }"));
    assert!(!may_have_hazards(b"TopTo"));
    assert!(may_have_hazards(b"TTopK"));
}

#[test]
fn oversized_types() {
    let identity = |ty: &str| format!("func.func @main(%x: {ty}) -> {ty} {{ return %x : {ty} }}");
    // The parser rejects the first two.
    for ty in [
        "tensor<4611686018427387904x1xf32>",
        "tensor<3037000500x3037000500xcomplex<f64>>",
        "tensor<2305843009213693952x1xf32>",
        "tensor<2305843009213693952x0xf32>",
        "tensor<0x4294967296x4294967296xi4>",
        "tensor<65536x65536x0x65536x65536xf8E4M3FN>",
        "tensor<?x0x1152921504606846976xi64>",
    ] {
        let program = identity(ty);
        let found = Some(ty.to_owned());
        assert_eq!(oversized_type(&Bytes::from(program.clone())), found);
        let spaced = format!("// tensor<\n{}", program.replace("tensor<", "tensor < ").replace("%x", "%tensor"));
        assert_eq!(oversized_type(&Bytes::from(spaced)), found);
        let Ok(module) = stablehlo::parse(program, stablehlo::VerifyLevel::FULL) else { continue };
        let artifact = stablehlo::write(&module, "1.9.0".parse().unwrap()).unwrap();
        assert_eq!(oversized_type(&Bytes::from(artifact)), found);
    }
    for ty in ["tensor<2305843009213693951x0xf32>", "tensor<0x9223372036854775807xi1>", "tensor<f32>", "tensor<?xf32>"]
    {
        let program = identity(ty);
        assert_eq!(oversized_type(&Bytes::from(program.clone())), None, "{ty}");
        let module = stablehlo::parse(program, stablehlo::VerifyLevel::FULL).unwrap();
        let artifact = stablehlo::write(&module, "1.9.0".parse().unwrap()).unwrap();
        assert_eq!(oversized_type(&Bytes::from(artifact)), None, "{ty}");
    }
    for text in ["", "tensor", "tensor<", "tensor<4", "ML\u{ef}R", "tensor<99999999999999999999x4xf32>"] {
        assert_eq!(oversized_type(&Bytes::from(text)), None, "{text}");
    }
    assert_eq!(oversized_type(&Bytes::from_static(b"ML\xefR")), None);
}
