//! `expand_reduce_window`, before and after, and its values.

use stablehlo::ir::Module;
use stablehlo_passes::expand_reduce_window;

use crate::oracle::{applied, becomes, check as check_all, parsed, same_values};

fn pass(module: &Module) -> Option<Module> {
    expand_reduce_window(module).expect("a valid program")
}

#[test]
fn small_windows_become_slices() {
    becomes(
        pass,
        r#"func.func @main(%x: tensor<8xf32>, %i: tensor<f32>) -> tensor<4xf32> {
          %0 = "stablehlo.reduce_window"(%x, %i) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %1 = stablehlo.maximum %a, %b : tensor<f32>
              stablehlo.return %1 : tensor<f32>
          }) {window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }"#,
        "func.func @main(%x: tensor<8xf32>, %i: tensor<f32>) -> tensor<4xf32> {
          %0 = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<f32>) -> tensor<4xf32>
          %1 = stablehlo.slice %x [0:7:2] : (tensor<8xf32>) -> tensor<4xf32>
          %2 = stablehlo.maximum %0, %1 : tensor<4xf32>
          %3 = stablehlo.slice %x [1:8:2] : (tensor<8xf32>) -> tensor<4xf32>
          %4 = stablehlo.maximum %2, %3 : tensor<4xf32>
          return %4 : tensor<4xf32>
        }",
    );
}

/// Returns a window op over a matrix of 7 times 9 elements.
fn program(element: &str, body: &str, attributes: &str, shape: &str) -> Module {
    let (x, s, y) =
        (format!("tensor<7x9x{element}>"), format!("tensor<{element}>"), format!("tensor<{shape}x{element}>"));
    parsed(&format!(
        r#"func.func @main(%x: {x}, %i: {s}, %k: {s}) -> {y} {{
          %0 = "stablehlo.reduce_window"(%x, %i) ({{
            ^bb0(%a: {s}, %b: {s}):
              {body}
              stablehlo.return %r : {s}
          }}) {{{attributes}}} : ({x}, {s}) -> {y}
          return %0 : {y}
        }}"#
    ))
}

#[test]
fn values_stay() {
    let windows = [
        ("window_dimensions = array<i64: 2, 3>", "6x7"),
        ("window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 3>", "3x3"),
        ("window_dimensions = array<i64: 3, 3>, padding = dense<[[1, 1], [2, 0]]> : tensor<2x2xi64>", "7x9"),
        ("window_dimensions = array<i64: 2, 2>, padding = dense<[[-1, 0], [0, -2]]> : tensor<2x2xi64>", "5x6"),
        ("window_dimensions = array<i64: 2, 2>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 3, 2>", "10x7"),
        ("window_dimensions = array<i64: 1, 9>, padding = dense<[[0, 0], [8, 0]]> : tensor<2x2xi64>", "7x9"),
        ("window_dimensions = array<i64: 5, 4>", "3x6"),
        (
            "window_dimensions = array<i64: 7, 5>, window_strides = array<i64: 3, 2>, window_dilations = array<i64: 1, 2>,
             base_dilations = array<i64: 2, 2>, padding = dense<[[3, 0], [1, 2]]> : tensor<2x2xi64>",
            "4x6",
        ),
    ];
    let s = |op: &str, element: &str| format!("%r = stablehlo.{op} %a, %b : tensor<{element}>");
    let mut count = 0;
    for element in ["i32", "ui8", "f32", "bf16", "i1"] {
        let mut bodies = vec![s("maximum", element), s("add", element)];
        if element != "i1" {
            bodies.push(s("minimum", element));
            // A body of several ops, with a constant and a scalar from outside.
            bodies.push(
                format!(
                    "%one = stablehlo.constant dense<1> : tensor<{element}>
                 %p = stablehlo.compare LT, %a, %b : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
                 %q = stablehlo.select %p, %a, %b : tensor<i1>, tensor<{element}>
                 %m = stablehlo.minimum %q, %k : tensor<{element}>
                 %r = stablehlo.maximum %m, %one : tensor<{element}>"
                )
                .replace("dense<1>", if element.contains('f') { "dense<1.0>" } else { "dense<1>" }),
            );
        }
        for body in &bodies {
            for (attributes, shape) in windows {
                let before = program(element, body, attributes, shape);
                let after = applied(attributes, &before, pass).expect("it applies");
                assert!(!after.to_string().contains("reduce_window"), "{after}");
                // The order in which floats are added may differ.
                let tolerance = match element {
                    "f32" => 1e-5,
                    "bf16" => 0.1,
                    _ => 0.0,
                };
                same_values(&format!("{element} {body} {attributes}"), &before, &after, &[], tolerance);
                count += 1;
            }
        }
    }
    assert_eq!(count, 8 * 18);
}

#[test]
fn several_operands() {
    let before = parsed(
        r#"func.func @main(%x: tensor<20xf32>, %j: tensor<20xi32>, %i: tensor<f32>, %k: tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>) {
          %0:2 = "stablehlo.reduce_window"(%x, %j, %i, %k) ({
            ^bb0(%a: tensor<f32>, %c: tensor<i32>, %b: tensor<f32>, %d: tensor<i32>):
              %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %m = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
              %n = stablehlo.select %p, %c, %d : tensor<i1>, tensor<i32>
              stablehlo.return %m, %n : tensor<f32>, tensor<i32>
          }) {window_dimensions = array<i64: 18>} : (tensor<20xf32>, tensor<20xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
          return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
        }"#,
    );
    let after = applied("argmax", &before, pass).expect("it applies");
    same_values("argmax", &before, &after, &[], 0.0);
}

#[test]
fn programs_of_the_repository() {
    let (changed, _) = check_all(pass, 1e-5, 0);
    assert!(changed >= 1, "{changed} programs");
}
