//! Tests of regions of scalars that are not straight-line code, so they run element by element.

use super::{program, run, tensor};
use crate::DType;

/// Ops that double `%x` in a loop, `%y` times. The result is `%w#0`.
const LOOP: &str = "%n0 = stablehlo.convert %y : (tensor<i32>) -> tensor<i32>
    %w:2 = stablehlo.while(%v = %x, %n = %n0) : tensor<i32>, tensor<i32>
     cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %m = stablehlo.subtract %n, %one : tensor<i32>
      %d = stablehlo.add %v, %v : tensor<i32>
      stablehlo.return %d, %m : tensor<i32>, tensor<i32>
    }";

#[test]
fn loop_in_map() {
    let p = program(
        "%a: tensor<4xi32>, %b: tensor<4xi32>",
        "tensor<4xi32>",
        &format!(
            "%0 = \"stablehlo.map\"(%a, %b) ({{
             ^bb0(%x: tensor<i32>, %y: tensor<i32>):
               {LOOP}
               stablehlo.return %w#0 : tensor<i32>
             }}) {{dimensions = array<i64: 0>}} : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
             return %0 : tensor<4xi32>"
        ),
    );
    let inputs = vec![tensor(DType::I32, &[4], &[1, 2, 3, 4]), tensor(DType::I32, &[4], &[3, 0, 1, 2])];
    assert_eq!(run::<i32>(&p, inputs), [8, 2, 6, 16]);
}

#[test]
fn loop_in_reducer_and_scatter() {
    let p = program(
        "%a: tensor<3xi32>, %i: tensor<2x1xi32>, %u: tensor<2xi32>",
        "tensor<i32>, tensor<3xi32>",
        &format!(
            "%z = stablehlo.constant dense<1> : tensor<i32>
             %0 = \"stablehlo.reduce\"(%a, %z) ({{
             ^bb0(%x: tensor<i32>, %y: tensor<i32>):
               %s = stablehlo.add %x, %y : tensor<i32>
               %k = stablehlo.constant dense<0> : tensor<i32>
               %r = stablehlo.while(%v = %s) : tensor<i32>
                cond {{
                 %c = stablehlo.compare LT, %v, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 stablehlo.return %c : tensor<i1>
               }} do {{
                 %d = stablehlo.negate %v : tensor<i32>
                 stablehlo.return %d : tensor<i32>
               }}
               stablehlo.return %r : tensor<i32>
             }}) {{dimensions = array<i64: 0>}} : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
             %1 = \"stablehlo.scatter\"(%a, %i, %u) ({{
             ^bb0(%x: tensor<i32>, %y: tensor<i32>):
               {LOOP}
               stablehlo.return %w#0 : tensor<i32>
             }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], inserted_window_dims = [0],
               scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
               : (tensor<3xi32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<3xi32>
             return %0, %1 : tensor<i32>, tensor<3xi32>"
        ),
    );
    let inputs = vec![
        tensor(DType::I32, &[3], &[5, 1, 7]),
        tensor(DType::I32, &[2, 1], &[2, 0]),
        tensor(DType::I32, &[2], &[1, 2]),
    ];
    let outputs = p.run(inputs).expect("it runs");
    assert_eq!(outputs[0].as_slice::<i32>().unwrap(), [14]);
    assert_eq!(outputs[1].as_slice::<i32>().unwrap(), [20, 1, 14]);
}

#[test]
fn loop_in_region() {
    let p = |body: &str, result: &str| {
        let body = format!(
            "%a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
             %b = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
             %0 = \"stablehlo.map\"(%a, %b) ({{
             ^bb0(%x: tensor<i32>, %y: tensor<i32>):
               {body}
               stablehlo.return {result} : tensor<i32>
             }}) {{dimensions = array<i64: 0>}} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
             return %0 : tensor<2xi32>"
        );
        program("", "tensor<2xi32>", &body)
    };
    let plain = p("%s = stablehlo.add %x, %y : tensor<i32>", "%s");
    assert!(!plain.memory_estimate().loops);
    // The compiler must not run the loop, although its operands are constants.
    let looped = p(LOOP, "%w#0");
    assert!(looped.memory_estimate().loops && looped.step_count() > 0);
    assert_eq!(run::<i32>(&looped, Vec::new()), [8, 32]);
}

/// The comparator looks up the ranks of its operands in a table that is defined outside of the comparator.
#[test]
fn comparator_reads_table() {
    let p = program(
        "%a: tensor<4xi32>, %t: tensor<4xi32>",
        "tensor<4xi32>",
        "%0 = \"stablehlo.sort\"(%a) ({
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %l = stablehlo.dynamic_slice %t, %x, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
           %r = stablehlo.dynamic_slice %t, %y, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
           %c = stablehlo.compare LT, %l, %r : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
           %s = stablehlo.reshape %c : (tensor<1xi1>) -> tensor<i1>
           stablehlo.return %s : tensor<i1>
         }) {dimension = 0 : i64, is_stable = true} : (tensor<4xi32>) -> tensor<4xi32>
         return %0 : tensor<4xi32>",
    );
    let inputs = vec![tensor(DType::I32, &[4], &[0, 1, 2, 3]), tensor(DType::I32, &[4], &[30, 10, 40, 20])];
    assert_eq!(run::<i32>(&p, inputs), [1, 3, 0, 2]);
}

/// Each step doubles the number of paths from the result to the argument. The compiler cannot visit all 2^64 paths.
#[test]
fn comparator_with_many_paths() {
    let mut steps = String::new();
    for side in ["x", "y"] {
        for step in 1..=64 {
            let before = if step == 1 { format!("%{side}") } else { format!("%{side}{}", step - 1) };
            steps += &format!("%{side}{step} = stablehlo.maximum {before}, {before} : tensor<i32>\n");
        }
    }
    let body = format!(
        "%0 = \"stablehlo.sort\"(%a) ({{
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           {steps}
           %c = stablehlo.compare LT, %x64, %y64 : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1>
         }}) {{dimension = 0 : i64, is_stable = true}} : (tensor<4xi32>) -> tensor<4xi32>
         return %0 : tensor<4xi32>"
    );
    let p = program("%a: tensor<4xi32>", "tensor<4xi32>", &body);
    assert_eq!(run::<i32>(&p, vec![tensor(DType::I32, &[4], &[30, 10, 40, 20])]), [10, 20, 30, 40]);
}
