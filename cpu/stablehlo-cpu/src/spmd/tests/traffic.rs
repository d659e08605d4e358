//! Checks the collectives of partitioned programs, because a program that gathers everything is correct but useless.

use stablehlo::ir::Region;

use super::{N, X, Y, dims, function, module, same};
use crate::spmd::partition;

pub(super) fn count(region: &Region, found: &mut Vec<String>) {
    for op in &region.ops {
        if op.kind.channel().is_some() {
            found.push(op.kind.name().replace("stablehlo.", ""));
        }
        op.regions.iter().for_each(|r| count(r, found));
    }
}

/// Returns the collectives of the partitioned program, in order. Also checks the results of the program.
pub(super) fn collectives(text: &str) -> Vec<String> {
    same(text);
    let split = partition(&module(text), 1, 4).expect("the test's program is split");
    let mut found = Vec::new();
    count(&split.module.funcs[0].body, &mut found);
    found
}

pub(super) fn none() -> Vec<String> {
    Vec::new()
}

const MATRIX: &str = "tensor<8x8xf32>";

#[test]
fn elementwise_needs_no_exchange() {
    let cut = dims(&[X, Y]);
    let body = "%t = stablehlo.tanh %a : tensor<8x8xf32>
        %c = stablehlo.constant dense<2.0> : tensor<8x8xf32>
        %u = stablehlo.multiply %t, %c : tensor<8x8xf32>
        %e = stablehlo.exp2 %u : tensor<8x8xf32>
        %r = stablehlo.fma %e, %u, %b : tensor<8x8xf32>";
    assert_eq!(collectives(&function(&[(MATRIX, &cut), (MATRIX, &cut)], (MATRIX, &cut), body)), none());
    assert_eq!(collectives(&function(&[(MATRIX, &cut), (MATRIX, &cut)], (MATRIX, "-"), body)), none());
}

#[test]
fn unsharded_ops_keep_sharding() {
    let cut = dims(&[X, Y]);
    for target in ["LayoutConstraint", "annotate_device_placement", "MoveToHost", "MoveToDevice"] {
        let body = format!(
            "%t = stablehlo.tanh %a : tensor<8x8xf32>
            %r = stablehlo.custom_call @{target}(%t) {{backend_config = \"\"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>"
        );
        let text = function(&[(MATRIX, &cut)], (MATRIX, "-"), &body);
        assert_eq!(collectives(&text), none(), "{target}");
        let split = partition(&module(&text), 1, 4).unwrap();
        assert_eq!(split.output_shardings, split.parameter_shardings, "{target}");
    }
}

#[test]
fn reverse_permutes_parts() {
    for (cut, reversed) in [([X, Y], "0"), ([X, Y], "0, 1"), (["{\"y\", \"x\"}", N], "0")] {
        let body = format!("%r = stablehlo.reverse %a, dims = [{reversed}] : {MATRIX}");
        let text = function(&[(MATRIX, &dims(&cut))], (MATRIX, "-"), &body);
        assert_eq!(collectives(&text), ["collective_permute"], "{cut:?}");
        let split = partition(&module(&text), 1, 4).unwrap();
        assert_eq!(split.output_shardings, split.parameter_shardings, "{cut:?}");
    }
    // Padding at the end of a dimension must not move to its beginning.
    let uneven = "tensor<5x8xf32>";
    let body = format!("%r = stablehlo.reverse %a, dims = [0] : {uneven}");
    same(&function(&[(uneven, &dims(&[X, Y]))], (uneven, &dims(&[X, N])), &body));
}

#[test]
fn tensor_parallel_layers_sum_once() {
    let body = "%h = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
        %t = stablehlo.tanh %h : tensor<8x8xf32>
        %r = stablehlo.dot_general %t, %c, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>";
    let args = [(MATRIX, dims(&[X, N])), (MATRIX, dims(&[N, Y])), (MATRIX, dims(&[Y, N]))];
    let args: Vec<(&str, &str)> = args.iter().map(|(ty, cut)| (*ty, &cut[..])).collect();
    // `tanh` is not exact, so sums in another order would change its results. Use another function.
    let body = body.replace("stablehlo.tanh", "stablehlo.negate");
    assert_eq!(collectives(&function(&args, (MATRIX, "-"), &body)), ["all_reduce"]);
    assert_eq!(collectives(&function(&args, (MATRIX, &dims(&[X, Y])), &body)), ["reduce_scatter"]);
}

#[test]
fn weight_gradient_sums_over_batch() {
    let body = "%r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>";
    let batch = dims(&["{\"x\", \"y\"}", N]);
    let args = [(MATRIX, &batch[..]), (MATRIX, &batch[..])];
    assert_eq!(collectives(&function(&args, (MATRIX, &dims(&[N, N])), body)), ["all_reduce"]);
    assert_eq!(collectives(&function(&args, (MATRIX, &batch), body)), ["reduce_scatter"]);
}

#[test]
fn moved_axis_needs_no_gather() {
    let body = "%r = stablehlo.negate %a : tensor<8x8xf32>";
    let moved =
        |from: &[&str], to: &[&str]| collectives(&function(&[(MATRIX, &dims(from))], (MATRIX, &dims(to)), body));
    assert_eq!(moved(&[X, N], &[N, X]), ["all_to_all"]);
    assert_eq!(moved(&["{\"x\", \"y\"}", N], &[X, Y]), ["all_to_all"]);
    assert_eq!(moved(&[X, Y], &[X, N]), ["all_gather"]);
    assert_eq!(moved(&[N, N], &[X, Y]), none());
}

#[test]
fn layer_loop_keeps_sharding() {
    let text = format!(
        "func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{X}, {N}]>}},
                        %w: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{N}, {Y}]>}}) -> tensor<8x8xf32> {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %n = stablehlo.constant dense<2> : tensor<i32>
          %0:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<8x8xf32>
            cond {{
              %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            }} do {{
              %d = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
              %j = stablehlo.add %i, %one : tensor<i32>
              stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
            }}
          return %0#1 : tensor<8x8xf32>
        }}"
    );
    // The rows stay in place. Only the columns of the carried value are exchanged.
    assert_eq!(collectives(&text), ["all_gather"]);
}
