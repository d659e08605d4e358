//! Tests of the search for the position of the largest and the smallest element.

use super::{DType, program, tensor};
use crate::Program;

/// Returns a program that finds the extremes of an array along a dimension, as `jnp.argmax` and `jnp.argmin` do.
fn search(is_max: bool, element: &str, extents: [usize; 3], dimension: usize, init: &str) -> Program {
    let kind = if element.starts_with('i') { "SIGNED" } else { "FLOAT" };
    search_by(kind, is_max, element, extents, dimension, init)
}

/// Like [`search`], with comparisons of this kind.
fn search_by(kind: &str, is_max: bool, element: &str, extents: [usize; 3], dimension: usize, init: &str) -> Program {
    let [a, b, c] = extents;
    let input = format!("tensor<{a}x{b}x{c}x{element}>");
    let positions = format!("tensor<{a}x{b}x{c}xi32>");
    let kept: String = (0..3).filter(|&d| d != dimension).map(|d| format!("{}x", extents[d])).collect();
    let results = format!("tensor<{kept}{element}>, tensor<{kept}xi32>").replace("xx", "x");
    let direction = if is_max { "GT" } else { "LT" };
    let body = format!(
        "%init = stablehlo.constant dense<{init}> : tensor<{element}>
         %zero = stablehlo.constant dense<0> : tensor<i32>
         %at = stablehlo.iota dim = {dimension} : {positions}
         %0:2 = stablehlo.reduce(%x init: %init), (%at init: %zero) across dimensions = [{dimension}]
             : ({input}, {positions}, tensor<{element}>, tensor<i32>) -> ({results})
           reducer(%a: tensor<{element}>, %b: tensor<{element}>) (%i: tensor<i32>, %j: tensor<i32>) {{
             %1 = stablehlo.compare {direction}, %a, %b, {kind} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
             %2 = stablehlo.compare NE, %a, %a, {kind} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
             %3 = stablehlo.or %1, %2 : tensor<i1>
             %4 = stablehlo.compare EQ, %a, %b, {kind} : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
             %5 = stablehlo.compare LT, %i, %j, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
             %6 = stablehlo.and %4, %5 : tensor<i1>
             %7 = stablehlo.or %3, %6 : tensor<i1>
             %8 = stablehlo.select %3, %a, %b : tensor<i1>, tensor<{element}>
             %9 = stablehlo.select %7, %i, %j : tensor<i1>, tensor<i32>
             stablehlo.return %8, %9 : tensor<{element}>, tensor<i32>
           }}
         return %0#0, %0#1 : {results}"
    );
    program(&format!("%x: {input}"), &results, &body)
}

/// The body of [`search`], applied to one element after the other.
fn expected(is_max: bool, init: f32, row: impl Iterator<Item = f32>) -> (f32, i32) {
    let (mut best, mut at) = (init, 0);
    for (position, x) in (0..).zip(row) {
        let keeps = if is_max { best > x } else { best < x } || best.is_nan();
        let keeps_position = keeps || (best == x && at < position);
        (best, at) = (if keeps { best } else { x }, if keeps_position { at } else { position });
    }
    (best, at)
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn first_of_equal_elements_and_of_nans() {
    let few = [[2, 3, 5], [3, 4100, 1], [1, 70, 2], [1, 1, 2049], [2, 1, 33]];
    // Many rows, which are searched several at once if they are short.
    let many = [[1, 40, 20], [18, 1, 64], [2, 17, 65], [1, 2000, 9]];
    for extents in few.into_iter().chain(many) {
        let [_, b, c] = extents;
        let n: usize = extents.iter().product();
        let mut numbers: Vec<f32> = (0..n).map(|i| (i * 7919 % 97) as f32 - 60.0).collect();
        for special in [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            // Several equal extremes, or several NaNs.
            for at in [n / 3, n / 2, n - 1] {
                numbers[at] = special;
            }
            for (dimension, is_max, init) in
                (0..3).flat_map(|d| [(d, true, f32::NEG_INFINITY), (d, false, f32::INFINITY), (d, true, 36.0)])
            {
                let text = match init {
                    f32::NEG_INFINITY => "0xFF800000",
                    f32::INFINITY => "0x7F800000",
                    _ => "36.0",
                };
                let outputs = search(is_max, "f32", extents, dimension, text)
                    .run(vec![tensor(DType::F32, &extents, &numbers)])
                    .unwrap();
                let (found, positions) = (outputs[0].as_slice::<f32>().unwrap(), outputs[1].as_slice::<i32>().unwrap());
                let strides = [b * c, c, 1];
                let kept: Vec<usize> = (0..3).filter(|&d| d != dimension).collect();
                for (index, (&found, &position)) in found.iter().zip(positions).enumerate() {
                    let start =
                        index / extents[kept[1]] * strides[kept[0]] + index % extents[kept[1]] * strides[kept[1]];
                    let row = (0..extents[dimension]).map(|i| numbers[start + i * strides[dimension]]);
                    let (best, at) = expected(is_max, init, row);
                    assert_eq!(position, at, "{extents:?} {dimension} {is_max} {special}");
                    assert!(found.to_bits() == best.to_bits() || (found.is_nan() && best.is_nan()), "{found} {best}");
                }
            }
        }
    }
}

#[test]
fn zeros_of_both_signs() {
    for (extents, dimension) in [([1, 6, 1], 1), ([1, 6, 2], 1), ([1, 2100, 1], 1), ([6, 1, 3], 0)] {
        for (is_max, init, text) in
            [(true, f32::NEG_INFINITY, "0xFF800000"), (false, -0.0, "-0.0"), (false, 0.0, "0.0")]
        {
            for signs in 0..16u32 {
                let n = extents.iter().product();
                let other = if is_max { -1.0 } else { 1.0 };
                let zero = |i: usize| if signs >> (i % 4) & 1 == 0 { 0.0 } else { -0.0 };
                let numbers: Vec<f32> = (0..n).map(|i| if i % 5 < 2 { zero(i) } else { other }).collect();
                let inputs = vec![tensor(DType::F32, &extents, &numbers)];
                let outputs = search(is_max, "f32", extents, dimension, text).run(inputs).unwrap();
                let columns = n / extents[dimension];
                for (column, found) in outputs[0].as_slice::<f32>().unwrap().iter().enumerate() {
                    let row = numbers[column..].iter().step_by(columns).copied();
                    let (best, at) = expected(is_max, init, row);
                    assert_eq!(found.to_bits(), best.to_bits(), "{extents:?} {is_max} {init} {signs}");
                    assert_eq!(outputs[1].as_slice::<i32>().unwrap()[column], at);
                }
            }
        }
    }
}

/// In the weak order, NaN equals itself and follows all numbers, and in the total order, it may precede them.
#[test]
fn orders_that_include_nan() {
    for kind in ["WEAKORDER", "TOTALORDER"] {
        let search = search_by(kind, false, "f32", [1, 3, 1], 1, "0x7F800000");
        let outputs = search.run(vec![tensor(DType::F32, &[1, 3, 1], &[3.0, f32::NAN, 1.0])]).unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [1.0], "{kind}");
        assert_eq!(outputs[1].as_slice::<i32>().unwrap(), [2], "{kind}");
    }
}

#[test]
fn integers_and_narrow_floats() {
    let found = |is_max, element, dtype, init| {
        let x: Vec<i32> = vec![3, -7, 9, 9, -7, 2];
        let input = match dtype {
            DType::I32 => tensor(dtype, &[1, 6, 1], &x),
            _ => tensor(dtype, &[1, 6, 1], &x.iter().map(|&x| half::bf16::from_f32(x as f32)).collect::<Vec<_>>()),
        };
        let outputs = search(is_max, element, [1, 6, 1], 1, init).run(vec![input]).unwrap();
        outputs[1].as_slice::<i32>().unwrap()[0]
    };
    assert_eq!(found(true, "i32", DType::I32, "-2147483648"), 2);
    assert_eq!(found(false, "i32", DType::I32, "2147483647"), 1);
    assert_eq!(found(true, "bf16", DType::Bf16, "0xFF80"), 2);
    assert_eq!(found(false, "bf16", DType::Bf16, "0x7F80"), 1);
}

/// The positions of an extreme take no memory.
#[test]
fn positions_are_not_stored() {
    let program = search(true, "f32", [1, 1 << 16, 1], 1, "0xFF800000");
    let pool = crate::engine::pool::Pool::new(0);
    let x = tensor(DType::F32, &[1, 1 << 16, 1], &vec![1f32; 1 << 16]);
    program.run_in(vec![x], &pool, None, None).unwrap();
    assert!(pool.usage().peak < 4096, "{}", pool.usage().peak);
}
