//! Tests of `bf16` and `f16`. A fused program must compute the same bits as its operations one by one. The package
//! `half` computes them here.

use half::{bf16, f16};

use super::{DType, Tensor, program, run, tensor};
use crate::engine::elementwise::num::Narrow;

/// Returns whether two numbers have the same bits, or both are NaN.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn every_f16_is_widened() {
    for bits in 0..=u16::MAX {
        let x = f16::from_bits(bits);
        assert!(same(x.widen(), x.to_f32()), "{bits:#x}");
        assert_eq!(x.widen().is_sign_negative(), x.is_sign_negative(), "{bits:#x}");
    }
}

#[test]
fn numbers_near_each_f16_and_between_two_are_rounded() {
    for bits in 0..0x7C00 {
        let [low, high] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f32());
        // Above the largest number is the one that would follow it.
        let high = if high.is_finite() { high } else { 65_536.0 };
        let middle = low.midpoint(high);
        for center in [low, middle] {
            for offset in -2..=2i32 {
                let x = f32::from_bits(center.to_bits().saturating_add_signed(offset));
                for x in [x, -x] {
                    assert_eq!(f16::narrow(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
                }
            }
        }
    }
    for x in [f32::INFINITY, f32::NEG_INFINITY, 1e30, f32::from_bits(1)] {
        assert_eq!(f16::narrow(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
    }
    assert!(f16::narrow(f32::NAN).is_nan() && f16::narrow(f32::from_bits(0x7F80_0001)).is_nan());
}

/// Numbers of all magnitudes, with infinities and NaN.
fn numbers<T: Narrow + Copy>(n: usize, bits: impl Fn(u16) -> T) -> Vec<T> {
    (0..n).map(|i| bits(u16::try_from(i * 40_503 % 65_536).unwrap_or(0))).collect()
}

macro_rules! programs {
    ($t:ident, $dtype:expr, $name:literal) => {{
        const N: usize = 70_000;
        let (a, b) = (numbers(N, $t::from_bits), numbers(N, |bits| $t::from_bits(bits.rotate_left(5) ^ 0x1234)));
        let two = |f: fn(f32, f32) -> f32, a: $t, b: $t| $t::from_f32(f(a.to_f32(), b.to_f32()));
        let ty = format!("tensor<{N}x{}>", $name);
        // The sum is a result of the program, and the larger number needs no rounding.
        let body = format!(
            "%0 = stablehlo.multiply %a, %b : {ty}
             %1 = stablehlo.add %0, %a : {ty}
             %2 = stablehlo.maximum %1, %b : {ty}
             %3 = stablehlo.floor %2 : {ty}
             %4 = stablehlo.negate %3 : {ty}
             %5 = stablehlo.divide %4, %1 : {ty}
             %6 = stablehlo.compare GT, %5, %a : ({ty}, {ty}) -> tensor<{N}xi1>
             %7 = stablehlo.select %6, %5, %4 : tensor<{N}xi1>, {ty}
             %8 = stablehlo.subtract %7, %b : {ty}
             return %1, %8 : {ty}, {ty}"
        );
        let program = program(&format!("%a: {ty}, %b: {ty}"), &format!("{ty}, {ty}"), &body);
        let inputs: Vec<Tensor> = [&a, &b].map(|x| tensor($dtype, &[N], x)).into();
        let outputs = program.run(inputs).expect("the program runs");
        let [sums, ends]: [&[$t]; 2] = std::array::from_fn(|i| outputs[i].as_slice().expect("16-bit elements"));
        for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
            let sum = two(|x, y| x + y, two(|x, y| x * y, a, b), a);
            let larger = if sum.is_nan() || b.is_nan() {
                $t::NAN
            } else if sum > b {
                sum
            } else {
                b
            };
            let down = -$t::from_f32(larger.to_f32().floor());
            let quotient = two(|x, y| x / y, down, sum);
            let end = two(|x, y| x - y, if quotient > a { quotient } else { down }, b);
            assert!(same(sums[i].to_f32(), sum.to_f32()), "{a} {b}: {} {sum}", sums[i]);
            assert!(same(ends[i].to_f32(), end.to_f32()), "{a} {b}: {} {end}", ends[i]);
        }
    }};
}

#[test]
fn each_function_is_rounded() {
    programs!(bf16, DType::Bf16, "bf16");
    programs!(f16, DType::F16, "f16");
}

#[test]
fn number_that_was_rounded_is_rounded_to_the_other_type() {
    let program = program(
        "%a: tensor<3xf32>",
        "tensor<3xf32>",
        "%0 = stablehlo.convert %a : (tensor<3xf32>) -> tensor<3xbf16>
         %1 = stablehlo.convert %0 : (tensor<3xbf16>) -> tensor<3xf32>
         %2 = stablehlo.convert %1 : (tensor<3xf32>) -> tensor<3xf16>
         %3 = stablehlo.convert %2 : (tensor<3xf16>) -> tensor<3xf32>
         return %3 : tensor<3xf32>",
    );
    let x = [1.0 + 1.0 / 512.0, 1e6, 3.0e-8];
    let expected = x.map(|x: f32| f16::from_f32(bf16::from_f32(x).to_f32()).to_f32());
    assert_eq!(run::<f32>(&program, vec![tensor(DType::F32, &[3], &x)]), expected);
}

#[test]
fn region_of_several_ops_rounds_each() {
    let program = program(
        "%a: tensor<4xf16>, %b: tensor<4xf16>",
        "tensor<4xf16>",
        "%0 = \"stablehlo.map\"(%a, %b) <{dimensions = array<i64: 0>}> ({
         ^bb0(%x: tensor<f16>, %y: tensor<f16>):
           %1 = stablehlo.multiply %x, %x : tensor<f16>
           %2 = stablehlo.add %1, %y : tensor<f16>
           %3 = stablehlo.multiply %2, %y : tensor<f16>
           stablehlo.return %3 : tensor<f16>
         }) : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
         return %0 : tensor<4xf16>",
    );
    let x = [1.001, 200.5, 3.3, 0.1].map(f16::from_f32);
    let y = [0.333, 1.0, -11.0, 0.7].map(f16::from_f32);
    let expected: Vec<f16> = x.iter().zip(&y).map(|(&x, &y)| (x * x + y) * y).collect();
    let inputs = [&x, &y].map(|x| tensor(DType::F16, &[4], x));
    assert_eq!(run::<f16>(&program, inputs.into()), expected);
}
