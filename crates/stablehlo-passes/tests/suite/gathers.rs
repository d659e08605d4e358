//! `expand_gather_scatter` and its values.

use stablehlo::ir::Module;
use stablehlo_passes::expand_gather_scatter;

use crate::oracle::{applied, check as check_all, parsed, same_values};

fn pass(module: &Module) -> Option<Module> {
    expand_gather_scatter(module).expect("a valid program")
}

fn check(name: &str, before: &Module, tolerance: f64) {
    let after = applied(name, before, pass).unwrap_or_else(|| panic!("{name}: {before}"));
    let text = after.to_string();
    assert!(!text.contains("stablehlo.gather") && !text.contains("stablehlo.scatter"), "{text}");
    same_values(name, before, &after, &[], tolerance);
}

const INDICES: [&str; 6] = ["i32", "i64", "i8", "ui8", "ui32", "ui64"];

/// Dimension numbers, slice sizes, shapes of the operand and of the indices, numbers of the indices, and the shape of
/// the result.
const GATHERS: [(&str, &str, &str, &str, &str, &str); 6] = [
    // Rows.
    (
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1",
        "1, 3",
        "5x3",
        "4x1",
        "[[0], [4], [9], [2]]",
        "4x3",
    ),
    // Windows that reach the border, along both dimensions in reverse.
    (
        "offset_dims = [1, 2], start_index_map = [1, 0], index_vector_dim = 1",
        "2, 2",
        "5x3",
        "3x2",
        "[[0, 0], [2, 4], [1, 100]]",
        "3x2x2",
    ),
    // Index vectors along the first dimension, and offsets before the batch.
    (
        "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [0, 1], index_vector_dim = 0",
        "2, 1",
        "5x3",
        "2x3",
        "[[0, 3, 4], [2, 1, 7]]",
        "2x3",
    ),
    // Scalars as indices.
    (
        "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2",
        "1, 2",
        "5x3",
        "2x2",
        "[[0, 3], [4, 1]]",
        "2x2x2",
    ),
    // Batching dimensions.
    (
        "offset_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [1],
      index_vector_dim = 2",
        "1, 2",
        "3x5",
        "2x3x1",
        "[[[0], [1], [2]], [[3], [4], [1]]]",
        "2x3x2",
    ),
    // One window.
    ("offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0", "2, 3", "5x3", "1", "[2]", "2x3"),
];

#[test]
fn gathers() {
    for index in INDICES {
        for (dimensions, sizes, operand, shape, numbers, result) in GATHERS {
            for element in ["f32", "i1", "bf16", "complex<f32>"] {
                // Numbers out of range, also negative ones.
                for numbers in
                    [numbers.to_owned(), numbers.replace('4', if index.starts_with('u') { "200" } else { "-3" })]
                {
                    let (x, y) = (format!("tensor<{operand}x{element}>"), format!("tensor<{result}x{element}>"));
                    let i = format!("tensor<{shape}x{index}>");
                    let before = parsed(&format!(
                        "func.func @main(%x: {x}) -> {y} {{
                           %i = stablehlo.constant dense<{numbers}> : {i}
                           %0 = \"stablehlo.gather\"(%x, %i) {{dimension_numbers = #stablehlo.gather<{dimensions}>,
                             slice_sizes = array<i64: {sizes}>}} : ({x}, {i}) -> {y}
                           return %0 : {y}
                         }}"
                    ));
                    check(&format!("{dimensions} {index} {numbers}"), &before, 0.0);
                }
            }
        }
    }
}

const SCATTERS: [(&str, &str, &str, &str, &str); 5] = [
    (
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
        "5x3",
        "4x1",
        "[[0], [4], [9], [0]]",
        "4x3",
    ),
    (
        "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1",
        "5x3",
        "3x2",
        "[[0, 0], [1, 4], [1, 3]]",
        "3x2x2",
    ),
    (
        "update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0",
        "5x3",
        "2x3",
        "[[0, 3, 4], [2, 1, 0]]",
        "2x3",
    ),
    (
        "update_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [1],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
        "3x5",
        "2x3x1",
        "[[[0], [1], [2]], [[3], [4], [1]]]",
        "2x3x2",
    ),
    (
        "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
        "5x3",
        "4x2",
        "[[0, 0], [4, 2], [0, 0], [4, 7]]",
        "4",
    ),
];

#[test]
fn scatters() {
    for index in INDICES {
        for (dimensions, operand, shape, numbers, update) in SCATTERS {
            for element in ["f32", "i32", "ui8"] {
                let s = format!("tensor<{element}>");
                let bodies = [
                    format!("%r = stablehlo.add %a, %b : {s}"),
                    format!("%r = stablehlo.maximum %b, %b : {s}"),
                    format!("%p = stablehlo.multiply %a, %b : {s}\n%r = stablehlo.add %p, %b : {s}"),
                ];
                for body in bodies {
                    for numbers in
                        [numbers.to_owned(), numbers.replace('4', if index.starts_with('u') { "200" } else { "-1" })]
                    {
                        let [x, u] = [operand, update].map(|shape| format!("tensor<{shape}x{element}>"));
                        let i = format!("tensor<{shape}x{index}>");
                        let before = parsed(&format!(
                            "func.func @main(%x: {x}, %u: {u}) -> {x} {{
                               %i = stablehlo.constant dense<{numbers}> : {i}
                               %0 = \"stablehlo.scatter\"(%x, %i, %u) ({{
                                 ^bb0(%a: {s}, %b: {s}):
                                   {body}
                                   stablehlo.return %r : {s}
                               }}) {{scatter_dimension_numbers = #stablehlo.scatter<{dimensions}>}} : ({x}, {i}, {u}) -> {x}
                               return %0 : {x}
                             }}"
                        ));
                        check(&format!("{dimensions} {index} {numbers} {body}"), &before, 0.0);
                    }
                }
            }
        }
    }
}

#[test]
fn several_operands() {
    let before = parsed(
        "func.func @main(%x: tensor<6xf32>, %y: tensor<6xi32>, %i: tensor<4x1xi32>, %u: tensor<4xf32>, %v: tensor<4xi32>)
             -> (tensor<6xf32>, tensor<6xi32>) {
           %0:2 = \"stablehlo.scatter\"(%x, %y, %i, %u, %v) ({
             ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
               %1 = stablehlo.add %a, %c : tensor<f32>
               %2 = stablehlo.maximum %b, %d : tensor<i32>
               stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
           }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
               scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
             : (tensor<6xf32>, tensor<6xi32>, tensor<4x1xi32>, tensor<4xf32>, tensor<4xi32>) -> (tensor<6xf32>, tensor<6xi32>)
           return %0#0, %0#1 : tensor<6xf32>, tensor<6xi32>
         }",
    );
    check("several operands", &before, 0.0);
}

#[test]
fn programs_of_the_repository() {
    let (changed, _) = check_all(pass, 1e-5, 0);
    assert!(changed >= 4, "{changed} programs");
}
