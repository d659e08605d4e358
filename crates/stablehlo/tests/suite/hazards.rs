//! Tests the detection of programs that crash XLA's plugins.

#![allow(clippy::unwrap_used, reason = "a test program")]

use stablehlo::hazards::{Hazard, hazards, may_have_hazards};

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
