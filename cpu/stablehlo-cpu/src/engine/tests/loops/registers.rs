//! Tests of loops over very small arrays, whose elements are kept in registers.

use super::{both, counted, times};
use crate::engine::tests::tensor;
use crate::{DType, Tensor};

fn floats(elements: &[f32]) -> Tensor {
    tensor(DType::F32, &[elements.len()], elements)
}

/// Ordinary and special numbers.
const SPECIAL: [f32; 8] = [1.5, -0.0, f32::NAN, f32::INFINITY, 0.0, -3.25, f32::NEG_INFINITY, 1e-42];

#[test]
fn views_and_functions() {
    let text = counted(
        &["tensor<2x2xf32>", "tensor<4xi8>"],
        "%a = stablehlo.transpose %c0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
         %b = stablehlo.reverse %a, dims = [0] : tensor<2x2xf32>
         %row = stablehlo.slice %b [1:2, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
         %flat = stablehlo.reshape %row : (tensor<1x2xf32>) -> tensor<2xf32>
         %wide = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
         %e = stablehlo.exponential %wide : tensor<2x2xf32>
         %m = stablehlo.maximum %e, %c0 : tensor<2x2xf32>
         %rows = stablehlo.iota dim = 0 : tensor<2x2xf32>
         %s = stablehlo.add %m, %rows : tensor<2x2xf32>
         %p = stablehlo.compare LT, %s, %c0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
         %half = stablehlo.constant dense<0.5> : tensor<2x2xf32>
         %h = stablehlo.multiply %c0, %half : tensor<2x2xf32>
         %next0 = stablehlo.select %p, %h, %s : tensor<2x2xi1>, tensor<2x2xf32>
         %bytes = stablehlo.convert %p : (tensor<2x2xi1>) -> tensor<2x2xi8>
         %k = stablehlo.reshape %bytes : (tensor<2x2xi8>) -> tensor<4xi8>
         %two = stablehlo.constant dense<[1, 2, -3, 100]> : tensor<4xi8>
         %t = stablehlo.multiply %c1, %two : tensor<4xi8>
         %next1 = stablehlo.add %t, %k : tensor<4xi8>",
    );
    for start in [[0.25f32, -1.0, 0.5, 2.0], [SPECIAL[1], SPECIAL[2], SPECIAL[3], SPECIAL[7]]] {
        for n in [0, 1, 7] {
            both(&text, &[times(n), tensor(DType::F32, &[2, 2], &start), tensor(DType::I8, &[4], &[1i8, -2, 3, 4])]);
        }
    }
}

#[test]
fn concatenations() {
    let text = counted(
        &["tensor<3xf64>", "tensor<2x3xi32>"],
        "%a = stablehlo.slice %c0 [0:1] : (tensor<3xf64>) -> tensor<1xf64>
         %b = stablehlo.slice %c0 [1:3] : (tensor<3xf64>) -> tensor<2xf64>
         %d = stablehlo.add %b, %b : tensor<2xf64>
         %next0 = stablehlo.concatenate %d, %a, dim = 0 : (tensor<2xf64>, tensor<1xf64>) -> tensor<3xf64>
         %l = stablehlo.slice %c1 [0:2, 0:1] : (tensor<2x3xi32>) -> tensor<2x1xi32>
         %r = stablehlo.slice %c1 [0:2, 1:3] : (tensor<2x3xi32>) -> tensor<2x2xi32>
         %s = stablehlo.add %l, %l : tensor<2x1xi32>
         %next1 = stablehlo.concatenate %r, %s, dim = 1 : (tensor<2x2xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>",
    );
    let (x, y) = (tensor(DType::F64, &[3], &[1.0f64, -2.0, 0.5]), tensor(DType::I32, &[2, 3], &[1, 2, 3, 4, 5, 6]));
    let outputs = both(&text, &[times(2), x, y]);
    assert_eq!(outputs[0].as_slice::<f64>(), Some(&[2.0, 2.0, -4.0][..]));
    assert_eq!(outputs[1].as_slice::<i32>(), Some(&[3, 2, 4, 6, 8, 10][..]));
}

#[test]
fn long_concatenation_of_short_arrays() {
    let text = counted(
        &["tensor<2xf32>", "tensor<12xf32>"],
        "%next0 = stablehlo.add %c0, %c0 : tensor<2xf32>
         %tail = stablehlo.slice %c1 [0:10] : (tensor<12xf32>) -> tensor<10xf32>
         %next1 = stablehlo.concatenate %next0, %tail, dim = 0 : (tensor<2xf32>, tensor<10xf32>) -> tensor<12xf32>",
    );
    both(&text, &[times(5), floats(&[1.0, -0.5]), floats(&[0.0; 12])]);
}

/// Returns a program that, in each iteration, stores the reduction of `%c0` by `op` along `dims` in `%c1` and doubles
/// `%c0`.
fn reduction(op: &str, ty: &str, dims: &str, result: &str, element: &str, init: &str) -> String {
    counted(
        &[ty, result],
        &format!(
            "%z = stablehlo.constant dense<{init}> : tensor<{element}>
             %next1 = stablehlo.reduce(%c0 init: %z) applies stablehlo.{op} across dimensions = [{dims}]
               : ({ty}, tensor<{element}>) -> {result}
             %next0 = stablehlo.add %c0, %c0 : {ty}"
        ),
    )
}

#[test]
fn reductions() {
    let shapes: [(&[usize], &str, &[usize]); 6] = [
        (&[8], "0", &[]),
        (&[3], "0", &[]),
        (&[4, 2], "0", &[2]),
        (&[4, 2], "1", &[4]),
        (&[2, 2, 2], "1", &[2, 2]),
        (&[7, 1], "0, 1", &[]),
    ];
    let ty = |dims: &[usize], element: &str| {
        let extents: String = dims.iter().map(|d| format!("{d}x")).collect();
        format!("tensor<{extents}{element}>")
    };
    for (dims, reduced, kept) in shapes {
        let n = dims.iter().product::<usize>();
        for op in ["add", "multiply", "maximum", "minimum"] {
            for (element, init) in [("f32", "-0.0"), ("f32", "2.5"), ("i32", "3")] {
                let text = reduction(op, &ty(dims, element), reduced, &ty(kept, element), element, init);
                let inputs: Vec<Tensor> = if element == "f32" {
                    let rotated = |by: usize| (0..n).map(|i| SPECIAL[(i + by) % 8]).collect::<Vec<f32>>();
                    let uneven = (0..n).map(|i| 0.1 + SPECIAL[0] / (i as f32 + 0.7)).collect();
                    [rotated(0), rotated(3), vec![-0.0; n], uneven].map(|x| tensor(DType::F32, dims, &x)).into()
                } else {
                    let x: Vec<i32> = (0..n).map(|i| i32::MAX / 3 - 7 * i32::try_from(i).unwrap()).collect();
                    vec![tensor(DType::I32, dims, &x)]
                };
                let count = kept.iter().product::<usize>();
                for x in inputs {
                    let first = tensor(x.dtype(), kept, &vec![0i32; count]);
                    both(&text, &[times(3), x, first]);
                }
            }
        }
    }
}

#[test]
fn positions_in_small_arrays() {
    let text = counted(
        &["tensor<4xf32>", "tensor<4xf32>", "tensor<2xf32>"],
        "%k = stablehlo.constant dense<3> : tensor<i32>
         %at = stablehlo.and %i, %k : tensor<i32>
         %x = stablehlo.dynamic_slice %c0, %at, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
         %two = stablehlo.constant dense<2.0> : tensor<1xf32>
         %y = stablehlo.multiply %x, %two : tensor<1xf32>
         %z = stablehlo.add %y, %two : tensor<1xf32>
         %next0 = stablehlo.dynamic_update_slice %c0, %z, %at : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
         %next1 = stablehlo.add %c1, %next0 : tensor<4xf32>
         %double = stablehlo.add %c1, %c1 : tensor<4xf32>
         %pair = stablehlo.dynamic_slice %double, %at, sizes = [2] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
         %next2 = stablehlo.subtract %c2, %pair : tensor<2xf32>",
    );
    both(&text, &[times(11), floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[0.5, 0.25, 0.0, -1.0]), floats(&[1.0, 2.0])]);
}

#[test]
fn rows_of_a_table() {
    let text = counted(
        &["tensor<2xf32>", "tensor<9x2xf32>", "tensor<2xi32>"],
        "%zero0 = stablehlo.constant dense<0> : tensor<i32>
         %row = stablehlo.dynamic_slice %c1, %i, %zero0, sizes = [1, 2] : (tensor<9x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
         %x = stablehlo.reshape %row : (tensor<1x2xf32>) -> tensor<2xf32>
         %next0 = stablehlo.add %c0, %x : tensor<2xf32>
         %new = stablehlo.reshape %next0 : (tensor<2xf32>) -> tensor<1x2xf32>
         %next1 = stablehlo.dynamic_update_slice %c1, %new, %i, %zero0
           : (tensor<9x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<9x2xf32>
         %ones = stablehlo.constant dense<1> : tensor<2xi32>
         %next2 = stablehlo.add %c2, %ones : tensor<2xi32>",
    );
    let table: Vec<f32> = (0..18u8).map(f32::from).collect();
    both(
        &text,
        &[times(9), floats(&[0.5, -0.5]), tensor(DType::F32, &[9, 2], &table), tensor(DType::I32, &[2], &[0, 1])],
    );
}

#[test]
fn gathers_and_scatters() {
    let text = counted(
        &["tensor<5xf32>", "tensor<2xi32>"],
        "%ones = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
         %more = stablehlo.add %c1, %ones : tensor<2xi32>
         %four = stablehlo.constant dense<3> : tensor<2xi32>
         %next1 = stablehlo.and %more, %four : tensor<2xi32>
         %at = stablehlo.reshape %next1 : (tensor<2xi32>) -> tensor<2x1xi32>
         %double = stablehlo.add %c0, %c0 : tensor<5xf32>
         %x = \"stablehlo.gather\"(%double, %at) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
           start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}
           : (tensor<5xf32>, tensor<2x1xi32>) -> tensor<2xf32>
         %half = stablehlo.constant dense<0.25> : tensor<2xf32>
         %u = stablehlo.multiply %x, %half : tensor<2xf32>
         %next0 = \"stablehlo.scatter\"(%c0, %at, %u) ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
           %s = stablehlo.add %p, %q : tensor<f32>
           stablehlo.return %s : tensor<f32>
         }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
           scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
           : (tensor<5xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<5xf32>",
    );
    both(&text, &[times(9), floats(&[1.0, 2.0, 3.0, 4.0, 5.0]), tensor(DType::I32, &[2], &[0, 3])]);
}

#[test]
fn branches_and_nested_loops() {
    let text = counted(
        &["tensor<3xf32>", "tensor<3xf32>"],
        "%two = stablehlo.constant dense<2> : tensor<i32>
         %r = stablehlo.remainder %i, %two : tensor<i32>
         %odd = stablehlo.compare EQ, %r, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
         %b = \"stablehlo.if\"(%odd) ({
           %s = stablehlo.add %c0, %c1 : tensor<3xf32>
           stablehlo.return %s : tensor<3xf32>
         }, {
           stablehlo.return %c1 : tensor<3xf32>
         }) : (tensor<i1>) -> tensor<3xf32>
         %inner:3 = stablehlo.while(%j = %i, %p = %b, %q = %c0) : tensor<i32>, tensor<3xf32>, tensor<3xf32>
          cond {
           %z = stablehlo.constant dense<0> : tensor<i32>
           %g = stablehlo.compare GT, %j, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %g : tensor<i1>
         } do {
           %j1 = stablehlo.subtract %j, %one : tensor<i32>
           %half = stablehlo.constant dense<0.5> : tensor<3xf32>
           %t = stablehlo.multiply %p, %half : tensor<3xf32>
           stablehlo.return %j1, %q, %t : tensor<i32>, tensor<3xf32>, tensor<3xf32>
         }
         %next0 = stablehlo.add %inner#1, %inner#2 : tensor<3xf32>
         %next1 = stablehlo.add %c0, %inner#2 : tensor<3xf32>",
    );
    for n in [0, 1, 4, 5] {
        both(&text, &[times(n), floats(&[1.0, -2.0, 0.5]), floats(&[f32::NAN, -0.0, 3.0])]);
    }
}

#[test]
fn exchanged_arrays() {
    let text = counted(
        &["tensor<2xf32>", "tensor<2xf32>", "tensor<2xf32>"],
        "%next0 = stablehlo.add %c1, %c1 : tensor<2xf32>
         %next1 = stablehlo.negate %c0 : tensor<2xf32>
         %next2 = stablehlo.reshape %c0 : (tensor<2xf32>) -> tensor<2xf32>",
    );
    both(&text, &[times(5), floats(&[1.0, 2.0]), floats(&[3.0, 4.0]), floats(&[0.0, 0.0])]);
}

#[test]
fn steps_of_the_interpreter() {
    let text = counted(
        &["tensor<3xf32>", "tensor<2x2xf32>"],
        "%s = \"stablehlo.sort\"(%c0) ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
           %lt = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %lt : tensor<i1>
         }) {dimension = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
         %k = stablehlo.constant dense<[1.0, -2.0, 0.5]> : tensor<3xf32>
         %next0 = stablehlo.multiply %s, %k : tensor<3xf32>
         %d = stablehlo.dot_general %c1, %c1, contracting_dims = [1] x [0]
           : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
         %half = stablehlo.constant dense<0.5> : tensor<2x2xf32>
         %next1 = stablehlo.multiply %d, %half : tensor<2x2xf32>",
    );
    both(&text, &[times(4), floats(&[3.0, 1.0, 2.0]), tensor(DType::F32, &[2, 2], &[0.5f32, 1.0, -1.0, 0.25])]);
}

#[test]
fn functions_of_many_elements() {
    let body = "%a = stablehlo.abs %c0 : tensor<128xf32>
         %b = stablehlo.negate %a : tensor<128xf32>
         %e = stablehlo.exponential %b : tensor<128xf32>
         %l = stablehlo.log_plus_one %e : tensor<128xf32>
         %p = stablehlo.compare NE, %c0, %c0 : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xi1>
         %next0 = stablehlo.select %p, %c0, %l : tensor<128xi1>, tensor<128xf32>";
    for n in [16, 50, 64, 128] {
        let size = format!("tensor<{n}x");
        let text = counted(&[&format!("{size}f32>")], &body.replace("tensor<128x", &size));
        let x: Vec<f32> = (0..n).map(|i| SPECIAL[i % 8] + (i / 8) as f32 * 0.3).collect();
        both(&text, &[times(3), floats(&x)]);
    }
}

#[test]
fn larger_than_the_generator_permits_in_registers() {
    let steps: String =
        (0..2500).map(|i| format!("%s{} = stablehlo.add %s{i}, %c0 : tensor<8xf32>\n", i + 1)).collect();
    let text = counted(
        &["tensor<8xf32>"],
        &format!(
            "%s0 = stablehlo.negate %c0 : tensor<8xf32>\n{steps}%next0 = stablehlo.multiply %s2500, %s0 : tensor<8xf32>"
        ),
    );
    both(&text, &[times(2), floats(&SPECIAL)]);
}
