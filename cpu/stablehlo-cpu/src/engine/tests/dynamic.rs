//! Tests of programs whose shapes are computed from constants.

use super::{DType, compile, program, run, tensor};

/// Extents are computed from `get_dimension_size` and used for a result with dynamic dimensions.
#[test]
fn shape_from_shapes() {
    let p = program(
        "%a: tensor<2x3xf32>",
        "tensor<6xf32>",
        "%r = stablehlo.get_dimension_size %a, dim = 0 : (tensor<2x3xf32>) -> tensor<i32>
         %c = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
         %n = stablehlo.multiply %r, %c : tensor<i32>
         %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
         %f = stablehlo.dynamic_reshape %a, %s : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<?xf32>
         %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
         %0 = stablehlo.add %f, %i : tensor<?xf32>
         %1 = stablehlo.reshape %0 : (tensor<?xf32>) -> tensor<6xf32>
         return %1 : tensor<6xf32>",
    );
    let x = tensor(DType::F32, &[2, 3], &[10.0f32, 20.0, 30.0, 40.0, 50.0, 60.0]);
    assert_eq!(run::<f32>(&p, vec![x]), [10.0, 21.0, 32.0, 43.0, 54.0, 65.0]);
}

#[test]
fn shape_from_parts() {
    let p = program(
        "%a: tensor<3xf32>",
        "tensor<2x3xf32>",
        "%c = stablehlo.get_dimension_size %a, dim = 0 : (tensor<3xf32>) -> tensor<i32>
         %x = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
         %y = stablehlo.constant dense<2> : tensor<1xi32>
         %s = stablehlo.concatenate %y, %x, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
         %b = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
         %0 = stablehlo.reshape %b : (tensor<?x?xf32>) -> tensor<2x3xf32>
         return %0 : tensor<2x3xf32>",
    );
    let x = tensor(DType::F32, &[3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(run::<f32>(&p, vec![x]), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
}

#[test]
fn run_time_shape_is_rejected() {
    let module = stablehlo::parse(
        "func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
           %0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
           return %0 : tensor<?x?xf32> }",
        stablehlo::VerifyLevel::FULL,
    );
    let error = compile(&module.unwrap()).unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Unsupported, "{error}");
}

#[test]
fn host_queue_is_rejected() {
    let module = stablehlo::parse(
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {
           %t = stablehlo.create_token : !stablehlo.token
           %0 = \"stablehlo.outfeed\"(%a, %t) <{outfeed_config = \"\"}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
           return %a : tensor<f32> }", stablehlo::VerifyLevel::FULL);
    let error = compile(&module.unwrap()).unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (crate::CompileErrorKind::Unsupported, Some("stablehlo.outfeed")),
        "{error}"
    );
}
