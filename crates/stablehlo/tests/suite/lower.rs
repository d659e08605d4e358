//! Tests lowering programs for devices with different rules.
#![cfg(feature = "text")]

use stablehlo::VerifyLevel;
use stablehlo::ir::{ElementType, RngAlgorithm};
use stablehlo::lower::{DeviceRules, lower};

/// Lowers a program, and checks that the lowered program is valid.
fn lowered(text: &str, rules: &DeviceRules) -> String {
    let module = stablehlo::parse(text.to_owned(), VerifyLevel::FULL).expect("a program");
    let text = lower(&module, rules).unwrap_or_else(|e| panic!("{e}")).to_string();
    stablehlo::parse(text.clone(), VerifyLevel::FULL).unwrap_or_else(|e| panic!("{e}\n{text}"));
    text
}

fn error(text: &str, rules: &DeviceRules) -> stablehlo::Error {
    let module = stablehlo::parse(text.to_owned(), VerifyLevel::FULL).expect("a program");
    lower(&module, rules).expect_err("the device cannot run the program")
}

const GATHER: &str = "func.func @main(%x: tensor<4x6xf32>, %i: tensor<2x3x1xi32>) -> tensor<2x4x3xf32> {
  %0 = \"stablehlo.gather\"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 4, 1>}
    : (tensor<4x6xf32>, tensor<2x3x1xi32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}";

const SCATTER: &str =
    "func.func @main(%x: tensor<4x6xf32>, %i: tensor<2xi32>, %u: tensor<2x6xf32>) -> tensor<4x6xf32> {
  %0 = \"stablehlo.scatter\"(%x, %i, %u) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<4x6xf32>, tensor<2xi32>, tensor<2x6xf32>)
    -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}";

mod dense {
    use super::*;

    #[test]
    fn gather_of_few_elements() {
        let text = lowered(GATHER, &DeviceRules::new().dense_gather(6));
        assert!(!text.contains("gather") && text.contains("dot_general") && text.contains("clamp"), "{text}");
        let text = lowered(GATHER, &DeviceRules::new().dense_gather(5));
        assert!(text.contains("stablehlo.gather"), "{text}");
    }

    #[test]
    fn scatter_with_many_indices() {
        let text = lowered(SCATTER, &DeviceRules::new().dense_scatter(12));
        assert!(!text.contains("scatter") && text.contains("dot_general"), "{text}");
        let text = lowered(SCATTER, &DeviceRules::new().dense_scatter(11));
        assert!(text.contains("stablehlo.scatter"), "{text}");
        // A scatter that overwrites elements is not replaced.
        let replaces =
            SCATTER.replace("%1 = stablehlo.add %a, %b : tensor<f32>\n", "").replace("return %1 :", "return %b :");
        assert!(lowered(&replaces, &DeviceRules::new().dense_scatter(100)).contains("stablehlo.scatter"));
    }
}

#[test]
fn autocast_shortens_the_operands_of_products() {
    let text = "func.func @main(%x: tensor<4x6xf32>, %y: tensor<6x2xf32>, %n: tensor<6x2xi32>) -> (tensor<4x2xf32>, tensor<2x2xi32>) {
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>
      %1 = stablehlo.dot_general %n, %n, contracting_dims = [0] x [0] : (tensor<6x2xi32>, tensor<6x2xi32>) -> tensor<2x2xi32>
      return %0, %1 : tensor<4x2xf32>, tensor<2x2xi32>
    }";
    let text = lowered(text, &DeviceRules::new().autocast(ElementType::Bf16));
    assert_eq!(text.matches("stablehlo.convert").count(), 2, "{text}");
    assert!(text.contains("(tensor<4x6xbf16>, tensor<6x2xbf16>) -> tensor<4x2xf32>"), "{text}");
}

mod element_types {
    use super::*;

    const DOUBLES: &str = "func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
      %c = stablehlo.constant dense<[0.5, -1.25]> : tensor<2xf64>
      %0 = stablehlo.multiply %x, %c : tensor<2xf64>
      return %0 : tensor<2xf64>
    }";

    #[test]
    fn are_replaced_in_constants_and_signatures() {
        let rules = DeviceRules::new().replaced(ElementType::F64, ElementType::F32).supported([ElementType::F32]);
        let text = lowered(DOUBLES, &rules);
        assert!(!text.contains("f64") && text.contains("dense<[5.000000e-01, -1.250000e+00]>"), "{text}");
        let wide = DOUBLES.replace("f64", "i64").replace("[0.5, -1.25]", "[3, -4]");
        let text = lowered(&wide, &DeviceRules::new().replaced(ElementType::I64, ElementType::I32));
        assert!(text.contains("dense<[3, -4]> : tensor<2xi32>"), "{text}");
    }

    #[test]
    fn that_the_device_lacks_are_named() {
        let error = error(DOUBLES, &DeviceRules::new().supported([ElementType::F32, ElementType::Bf16]));
        assert_eq!(error.kind(), stablehlo::ErrorKind::Unsupported, "{error}");
        expect_test::expect_file!["../messages/lower.txt"].assert_eq(&format!("{error}\n"));
    }
}

#[test]
fn random_bits_and_donation() {
    let text =
        "func.func @main(%s: tensor<2xui64> {tf.aliasing_output = 0 : i32}) -> (tensor<2xui64>, tensor<4xui32>) {
      %0:2 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
      return %0#0, %0#1 : tensor<2xui64>, tensor<4xui32>
    }";
    let same = lowered(text, &DeviceRules::new());
    assert!(same.contains("DEFAULT") && same.contains("tf.aliasing_output"), "{same}");
    let text = lowered(text, &DeviceRules::new().rng(RngAlgorithm::Philox).donation(false));
    assert!(text.contains("PHILOX") && !text.contains("tf.aliasing_output"), "{text}");
}
