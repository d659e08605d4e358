//! Tests of values that only one device holds.

use super::manual::{launch, numbers};
use super::module;
use crate::spmd::{OpSharding, partition};
use crate::{DType, Tensor};

/// Returns arguments that differ between the devices. Only the argument on partition 2 matters.
fn own(id: usize) -> Vec<Tensor> {
    let first = [1.0f32, 10.0, 100.0, 1000.0][id];
    vec![Tensor::from_slice(DType::F32, &[2], &[first, first * 2.0]).expect("an argument")]
}

#[test]
fn argument_from_one_device() {
    let gspmd = "func.func @main(%a: tensor<2xf32> {mhlo.sharding = \"{maximal device=2}\"}) -> tensor<2xf32> {
          %0 = stablehlo.negate %a : tensor<2xf32>
          return %0 : tensor<2xf32>
        }";
    let shardy = "sdy.mesh @two = <[], device_ids=[2]>
        func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@two, []>}) -> tensor<2xf32> {
          %0 = stablehlo.negate %a : tensor<2xf32>
          return %0 : tensor<2xf32>
        }";
    for text in [gspmd, shardy] {
        assert_eq!(numbers(&launch(text, 1, 4, &own)), vec![[-100.0, -200.0]; 4], "{text}");
        let split = partition(&module(text), 1, 4).unwrap();
        assert_eq!(split.parameter_shardings, [OpSharding::Maximal { partition: 2 }]);
    }
}

#[test]
fn results_on_every_device() {
    let text = "sdy.mesh @one = <[], device_ids=[1]>
        func.func @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@one, []>}) {
          %0 = sdy.sharding_constraint %a <@one, []> : tensor<2xf32>
          %1 = stablehlo.custom_call @Sharding(%0) {backend_config = \"\", mhlo.sharding = \"{maximal device=3}\"} : (tensor<2xf32>) -> tensor<2xf32>
          %2 = stablehlo.add %1, %1 : tensor<2xf32>
          return %2 : tensor<2xf32>
        }";
    let same = |_: usize| own(0);
    assert_eq!(numbers(&launch(text, 1, 4, &same)), vec![[2.0, 4.0]; 4]);
}

#[test]
fn unknown_device_is_named() {
    let text = "func.func @main(%a: tensor<2xf32> {mhlo.sharding = \"{maximal device=4}\"}) -> tensor<2xf32> { return %a : tensor<2xf32> }";
    let error = partition(&module(text), 1, 4).unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Invalid, "{error}");
}
