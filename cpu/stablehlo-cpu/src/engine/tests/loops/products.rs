//! Tests small products of a matrix and a vector in compiled loops.

use super::{both, compiled, counted, times};
use crate::DType;
use crate::engine::tests::tensor;

/// Returns numbers whose products and sums are rounded, with zeros of both signs among them.
fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| if i % 5 == 3 { -0.0 } else { (i as f64 * 0.7 - 1.3) / 3.0 }).collect()
}

/// Compares a product in a loop with that of the interpreter. `a` and `b` are the extents of the operands, which are
/// contracted along the dimensions `contracting`.
#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
fn check(a: &[usize], b: &[usize], contracting: (usize, usize)) {
    for dtype in [DType::F32, DType::F64] {
        let name = if dtype == DType::F32 { "f32" } else { "f64" };
        let ty = |dims: &[usize]| format!("tensor<{}{name}>", dims.iter().map(|d| format!("{d}x")).collect::<String>());
        let without = |dims: &[usize], at: usize| [&dims[..at], &dims[at + 1..]].concat();
        let out = [without(a, contracting.0), without(b, contracting.1)].concat();
        let (ta, tb, to) = (ty(a), ty(b), ty(&out));
        // The operands change in each iteration, and the sum of all products is carried.
        let body = format!(
            "%p = stablehlo.dot_general %c0, %c1, contracting_dims = [{}] x [{}] : ({ta}, {tb}) -> {to}
             %next2 = stablehlo.add %c2, %p : {to}
             %next0 = stablehlo.negate %c0 : {ta}
             %next1 = stablehlo.add %c1, %c1 : {tb}",
            contracting.0, contracting.1
        );
        let text = counted(&[&ta, &tb, &to], &body);
        let array = |dims: &[usize]| {
            let values = numbers(dims.iter().product());
            match dtype {
                DType::F32 => tensor(dtype, dims, &values.iter().map(|&x| x as f32).collect::<Vec<_>>()),
                _ => tensor(dtype, dims, &values),
            }
        };
        both(&text, &[times(5), array(a), array(b), array(&out)]);
    }
}

#[test]
fn rows_and_columns() {
    for k in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 21] {
        check(&[k], &[k], (0, 0));
        check(&[k], &[k, 2], (0, 0));
        check(&[k], &[2, k], (0, 1));
        check(&[3, k], &[k], (1, 0));
        check(&[k, 3], &[k], (0, 0));
        check(&[1, k], &[k, 3], (1, 0));
        check(&[k, 1], &[3, k], (0, 1));
    }
}

#[test]
fn results_in_memory() {
    check(&[11, 5], &[5], (1, 0));
    check(&[2], &[2, 32], (0, 0));
}

#[test]
fn interpreter_computes_larger_products() {
    check(&[13, 5], &[5], (1, 0));
    check(&[4, 4], &[4, 4], (1, 0));
    check(&[16, 16], &[16], (1, 0));
}

#[test]
fn zeros_and_special_values() {
    let text = counted(
        &["tensor<3xf32>", "tensor<3xf32>", "tensor<f32>"],
        "%next2 = stablehlo.dot_general %c0, %c1, contracting_dims = [0] x [0]
           : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
         %next0 = stablehlo.add %c0, %c0 : tensor<3xf32>
         %next1 = stablehlo.negate %c1 : tensor<3xf32>",
    );
    for a in [[-0.0f32, -0.0, -0.0], [f32::INFINITY, 1.0, -1.0], [f32::NAN, 0.0, 0.0], [f32::MIN_POSITIVE; 3]] {
        for b in [[0.0f32, 1.0, 2.0], [-0.0, -1.0, 1e-30], [f32::MAX; 3]] {
            let arrays = [tensor(DType::F32, &[3], &a), tensor(DType::F32, &[3], &b)];
            let [a, b] = arrays;
            both(&text, &[times(3), a, b, tensor(DType::F32, &[], &[0.0f32])]);
        }
    }
}

/// Without a step of the interpreter, the work of an iteration is known, so that the loop can pause.
#[test]
fn small_products_need_no_interpreter() {
    let product = |k: usize| {
        let body = format!(
            "%p = stablehlo.dot_general %c0, %c0, contracting_dims = [0] x [0]
               : (tensor<{k}xf32>, tensor<{k}xf32>) -> tensor<f32>
             %next0 = stablehlo.negate %c0 : tensor<{k}xf32>
             %next1 = stablehlo.add %c1, %p : tensor<f32>"
        );
        compiled(&counted(&[&format!("tensor<{k}xf32>"), "tensor<f32>"], &body), true).can_pause()
    };
    assert!(product(2) && product(8));
    assert!(!product(200));
}
