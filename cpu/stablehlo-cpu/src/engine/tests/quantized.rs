//! Tests of quantized types, whose integers represent real numbers.

use super::{program, run, tensor};
use crate::DType;

#[test]
fn sums_use_expressed_type() {
    let (a, b) = ("!quant.uniform<i8:f32, 1.0e-01:-30>", "!quant.uniform<i8:f32, 5.0e-01:-20>");
    let p = program(
        "%a: tensor<2xf32>, %b: tensor<2xf32>",
        "tensor<2xi8>, tensor<2xf32>",
        &format!(
            "%0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x{a}>
             %1 = stablehlo.uniform_quantize %b : (tensor<2xf32>) -> tensor<2x{b}>
             %2 = stablehlo.add %0, %1 : (tensor<2x{a}>, tensor<2x{b}>) -> tensor<2x{b}>
             %3 = stablehlo.bitcast_convert %2 : (tensor<2x{b}>) -> tensor<2xi8>
             %4 = stablehlo.uniform_dequantize %2 : (tensor<2x{b}>) -> tensor<2xf32>
             return %3, %4 : tensor<2xi8>, tensor<2xf32>"
        ),
    );
    let inputs = vec![tensor(DType::F32, &[2], &[1f32, 2.0]), tensor(DType::F32, &[2], &[3f32, 400.0])];
    let outputs = p.run(inputs).expect("it runs");
    // The first sum is stored as (1 + 3) / 0.5 - 20. The second sum exceeds the range.
    assert_eq!(outputs[0].as_slice::<i8>().unwrap(), [-12, 127]);
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [4.0, 73.5]);
}

#[test]
fn per_axis_scales_move_with_slices() {
    let q = |shape: &str, axis: u32| format!("tensor<{shape}x!quant.uniform<i8:f32:{axis}, {{0.1:-30,0.5:-20}}>>");
    let p = program(
        "%a: tensor<2x1xf32>",
        "tensor<1x2xi8>, tensor<1x2xf32>",
        &format!(
            "%0 = stablehlo.uniform_quantize %a : (tensor<2x1xf32>) -> {from}
             %1 = stablehlo.transpose %0, dims = [1, 0] : ({from}) -> {to}
             %2 = stablehlo.bitcast_convert %1 : ({to}) -> tensor<1x2xi8>
             %3 = stablehlo.uniform_dequantize %1 : ({to}) -> tensor<1x2xf32>
             return %2, %3 : tensor<1x2xi8>, tensor<1x2xf32>",
            from = q("2x1", 0),
            to = q("1x2", 1),
        ),
    );
    let outputs = p.run(vec![tensor(DType::F32, &[2, 1], &[4f32, 15.0])]).expect("it runs");
    assert_eq!(outputs[0].as_slice::<i8>().unwrap(), [10, 10]);
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [4.0, 15.0]);
}

#[test]
fn quantized_reducers_and_parameters() {
    let q = "!quant.uniform<u8:f32, 0.5:3>";
    let p = program(
        &format!("%a: tensor<3x{q}>"),
        &format!("tensor<{q}>"),
        &format!(
            "%z = stablehlo.constant dense<3> : tensor<ui8>
             %s = stablehlo.bitcast_convert %z : (tensor<ui8>) -> tensor<{q}>
             %0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0]
                : (tensor<3x{q}>, tensor<{q}>) -> tensor<{q}>
             return %0 : tensor<{q}>"
        ),
    );
    // 0.5 + 1 + 1.5 = 3, which the stored integer 9 represents.
    assert_eq!(run::<u8>(&p, vec![tensor(DType::U8, &[3], &[4u8, 5, 6])]), [9]);
}
