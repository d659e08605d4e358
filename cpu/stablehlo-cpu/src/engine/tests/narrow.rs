//! Tests of types narrower than a byte, and of random numbers. JAX's own backend cannot serve as a reference, because
//! it does not support these types and returns different random numbers in each run.

use super::{DType, op, program, run, tensor};

#[test]
fn two_and_four_bit_integers_wrap() {
    assert_eq!(op("add", DType::I4, &[&[7i8, -8, 3], &[1, -1, 4]]), [-8, 7, 7]);
    assert_eq!(op("multiply", DType::U4, &[&[5u8, 15], &[5, 15]]), [9, 1]);
    assert_eq!(op("add", DType::I2, &[&[1i8, -2], &[1, -1]]), [-2, 1]);
    assert_eq!(op("subtract", DType::U2, &[&[0u8, 3], &[1, 1]]), [3, 2]);
    assert_eq!(op("divide", DType::I4, &[&[-8i8, 7, 5], &[-1, 0, 2]]), [-8, -1, 2]);
    assert_eq!(op("divide", DType::U4, &[&[7u8], &[0]]), [15]);
}

#[test]
fn counts_and_shifts_use_own_bits() {
    assert_eq!(op("popcnt", DType::I4, &[&[-1i8, 5, 0]]), [4, 2, 0]);
    assert_eq!(op("count_leading_zeros", DType::I4, &[&[0i8, 1, -1]]), [4, 3, 0]);
    assert_eq!(op("shift_right_logical", DType::I4, &[&[-8i8, -1, -1], &[3, 1, 4]]), [1, 7, 0]);
    assert_eq!(op("shift_right_arithmetic", DType::U4, &[&[8u8, 4, 8], &[1, 1, 9]]), [12, 2, 15]);
    assert_eq!(op("shift_left", DType::I4, &[&[1i8, 3, 1], &[3, 2, 4]]), [-8, -4, 0]);
}

/// A caller may set the unused bits of a narrow integer arbitrarily.
#[test]
fn parameters_use_own_bits() {
    assert_eq!(op("negate", DType::I4, &[&[0x0Fu8, 0xF8]]), [1, 0xF8]);
}

#[test]
fn six_bit_floats() {
    // Normal numbers are 2^(e - 1) * (1 + m / 8), so the largest number is 7.5. The smallest subnormal number is 0.125.
    let x = [0b011111u8, 0b000001, 0b101000];
    let p = program(
        "%a: tensor<3xf6E2M3FN>",
        "tensor<3xf32>",
        "%0 = stablehlo.convert %a : (tensor<3xf6E2M3FN>) -> tensor<3xf32>\n return %0 : tensor<3xf32>",
    );
    assert_eq!(run::<f32>(&p, vec![tensor(DType::F6E2M3FN, &[3], &x)]), [7.5, 0.125, -1.0]);
    assert_eq!(op("add", DType::F6E2M3FN, &[&x, &x]), [0b011111, 0b000010, 0b110000]);
    // The largest number of `f6E3M2FN` is 28.
    assert_eq!(
        op("multiply", DType::F6E3M2FN, &[&[0b011111u8, 0b001100], &[0b001100, 0b101100]]),
        [0b011111, 0b101100]
    );
}

#[test]
fn random_number_bounds() {
    let p = program(
        "%a: tensor<f32>, %b: tensor<f32>",
        "tensor<1000xf32>",
        "%n = stablehlo.constant dense<[1000]> : tensor<1xi64>
         %0 = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<1000xf32>
         return %0 : tensor<1000xf32>",
    );
    let bounds = || vec![tensor(DType::F32, &[], &[-2.0f32]), tensor(DType::F32, &[], &[6.0f32])];
    let (first, second) = (run::<f32>(&p, bounds()), run::<f32>(&p, bounds()));
    assert!(first.iter().all(|x| (-2.0..6.0).contains(x)));
    let mean = first.iter().sum::<f32>() / 1000.0;
    assert!((mean - 2.0).abs() < 0.4, "{mean}");
    assert_ne!(first, second);
    let p = program(
        "%a: tensor<f64>, %b: tensor<f64>",
        "tensor<4000xf64>",
        "%n = stablehlo.constant dense<[4000]> : tensor<1xi64>
         %0 = stablehlo.rng %a, %b, %n, distribution = NORMAL : (tensor<f64>, tensor<f64>, tensor<1xi64>) -> tensor<4000xf64>
         return %0 : tensor<4000xf64>",
    );
    let x = run::<f64>(&p, vec![tensor(DType::F64, &[], &[1.0f64]), tensor(DType::F64, &[], &[2.0f64])]);
    let mean = x.iter().sum::<f64>() / 4000.0;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4000.0;
    assert!((mean - 1.0).abs() < 0.15 && (variance - 4.0).abs() < 0.5, "{mean} {variance}");
}
