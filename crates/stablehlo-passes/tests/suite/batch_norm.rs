//! `expand_batch_norm`: values of the specification's definitions.

use stablehlo::ir::Module;
use stablehlo_passes::expand_batch_norm;

use crate::oracle::{applied, near, parsed, run, same_values};

fn pass(module: &Module) -> Option<Module> {
    expand_batch_norm(module).expect("a valid program")
}

fn program(name: &str, operands: &str, types: &str, results: &str, element: &str) -> Module {
    let [x, f] = [format!("tensor<2x3x2x{element}>"), format!("tensor<3x{element}>")];
    let names = if results.len() > 1 { "%0#0, %0#1, %0#2" } else { "%0" };
    let list = |types: &str| -> String {
        let each = |c: char| match c {
            'X' => x.clone(),
            'F' => f.clone(),
            other => other.to_string(),
        };
        types.chars().map(each).collect::<Vec<_>>().join(", ")
    };
    parsed(&format!(
        r#"func.func @main(%x: {x}, %g: {x}, %a: {f}, %b: {f}, %m: {f}, %v: {f}) -> ({results}) {{
          %0{count} = "stablehlo.{name}"({operands}) {{epsilon = 0.25 : f32, feature_index = 1 : i64}} : ({types}) -> ({results})
          return {names} : {results}
        }}"#,
        count = if results.len() > 1 { ":3" } else { "" },
        types = list(types),
        results = list(results),
    ))
}

fn all(element: &str) -> [Module; 3] {
    [
        program("batch_norm_inference", "%x, %a, %b, %m, %v", "XFFFF", "X", element),
        program("batch_norm_training", "%x, %a, %b", "XFF", "XFF", element),
        program("batch_norm_grad", "%x, %a, %m, %v, %g", "XFFFX", "XFF", element),
    ]
}

#[test]
fn values_are_those_of_the_specification() {
    let x: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7) - 2.5).collect();
    let g: Vec<f64> = (0..12).map(|i| f64::from(i * 5 % 11) - 4.0).collect();
    let [a, b, m, v] = [[1.5, -2.0, 0.5], [0.25, 1.0, -3.0], [0.5, -1.0, 2.0], [1.0, 4.0, 0.5]];
    let arguments: [&[f64]; 6] = [&x, &g, &a, &b, &m, &v];
    let feature = |i: usize| i / 2 % 3;
    let mean = |x: &[f64]| -> Vec<f64> {
        (0..3)
            .map(|f| x.iter().enumerate().filter(|(i, _)| feature(*i) == f).map(|(_, x)| x).sum::<f64>() / 4.0)
            .collect()
    };
    let normal = |m: &[f64], v: &[f64]| -> Vec<f64> {
        (0..12).map(|i| (x[i] - m[feature(i)]) / (v[feature(i)] + 0.25).sqrt()).collect()
    };
    let scaled = |n: &[f64]| -> Vec<f64> { (0..12).map(|i| n[i] * a[feature(i)] + b[feature(i)]).collect() };
    let [inference, training, gradient] = all("f64").map(|module| run(&pass(&module).expect("it applies"), &arguments));
    near(&inference[0], &scaled(&normal(&m, &v)), 1e-14);
    let means = mean(&x);
    let squares: Vec<f64> = (0..12).map(|i| (x[i] - means[feature(i)]).powi(2)).collect();
    let variances = mean(&squares);
    near(&training[0], &scaled(&normal(&means, &variances)), 1e-14);
    near(&training[1], &means, 1e-14);
    near(&training[2], &variances, 1e-14);
    let normals = normal(&m, &v);
    let weighted: Vec<f64> = g.iter().zip(&normals).map(|(g, n)| g * n).collect();
    let (of_g, of_weighted) = (mean(&g), mean(&weighted));
    let along = |i: usize| g[i] - of_g[feature(i)] - normals[i] * of_weighted[feature(i)];
    let wanted: Vec<f64> = (0..12).map(|i| a[feature(i)] / (v[feature(i)] + 0.25).sqrt() * along(i)).collect();
    near(&gradient[0], &wanted, 1e-14);
    near(&gradient[1], &of_weighted.iter().map(|mean| mean * 4.0).collect::<Vec<_>>(), 1e-14);
    near(&gradient[2], &of_g.iter().map(|mean| mean * 4.0).collect::<Vec<_>>(), 1e-14);
}

#[test]
fn all_types() {
    for element in ["f32", "f64", "bf16", "f16", "f8E5M2"] {
        for module in all(element) {
            let after = applied(element, &module, pass).expect("it applies");
            same_values(element, &module, &after, &[], 0.0);
        }
    }
}

/// The ops on arguments of which some sizes are `?`. Sizes of operands and of results may be known in different places.
#[test]
fn unknown_sizes() {
    for [x, g, f, y, r] in [
        ["?x?x?", "?x?x?", "?", "?x?x?", "?"],
        ["?x3x2", "2x3x2", "3", "?x3x2", "3"],
        ["2x3x2", "?x?x2", "?", "?x3x?", "?"],
        ["2x?x2", "2x?x2", "3", "2x3x2", "3"],
        ["?x?x2", "2x3x2", "?", "2x3x2", "3"],
    ] {
        let [x, g, f, y, r] = [x, g, f, y, r].map(|sizes| format!("tensor<{sizes}xf32>"));
        let text = format!(
            r#"func.func @main(%x: {x}, %g: {g}, %a: {f}, %b: {f}, %m: {f}, %v: {f}) -> ({y}, {y}, {r}, {r}, {y}, {r}, {r}) {{
              %0 = "stablehlo.batch_norm_inference"(%x, %a, %b, %m, %v) {{epsilon = 0.25 : f32, feature_index = 1 : i64}}
                : ({x}, {f}, {f}, {f}, {f}) -> {y}
              %1:3 = "stablehlo.batch_norm_training"(%x, %a, %b) {{epsilon = 0.25 : f32, feature_index = 1 : i64}}
                : ({x}, {f}, {f}) -> ({y}, {r}, {r})
              %2:3 = "stablehlo.batch_norm_grad"(%x, %a, %m, %v, %g) {{epsilon = 0.25 : f32, feature_index = 1 : i64}}
                : ({x}, {f}, {f}, {f}, {g}) -> ({y}, {r}, {r})
              return %0, %1#0, %1#1, %1#2, %2#0, %2#1, %2#2 : {y}, {y}, {r}, {r}, {y}, {r}, {r}
            }}"#
        );
        applied(&x, &parsed(&text), pass).expect("it applies");
    }
}
