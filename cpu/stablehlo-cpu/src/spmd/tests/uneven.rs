//! Tests of dimensions that the mesh cannot divide evenly, so that the last parts are padded.

use super::traffic::collectives;
use super::{N, X, Y, cuts, dims, function, same};
use crate::spmd::{OpSharding, partition};

const MATRIX: &str = "tensor<5x6xf32>";
const ALL: &str = "{\"x\", \"y\"}";

#[test]
fn any_sharding_to_any_other() {
    for from in &cuts() {
        for to in &cuts() {
            for ty in [MATRIX, "tensor<1x7xf32>", "tensor<3x2xf32>"] {
                same(&function(&[(ty, from)], (ty, to), &format!("%r = stablehlo.negate %a : {ty}")));
            }
        }
    }
}

#[test]
fn contractions() {
    let body = "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<5x6xf32>, tensor<6x3xf32>) -> tensor<5x3xf32>";
    for a in &cuts() {
        for b in &cuts() {
            same(&function(&[(MATRIX, a), ("tensor<6x3xf32>", b)], ("tensor<5x3xf32>", "-"), body));
        }
    }
    for out in &cuts() {
        let args = [(MATRIX, "{}, {\"x\", \"y\"}"), ("tensor<6x3xf32>", "{\"x\", \"y\"}, {}")];
        same(&function(&args, ("tensor<5x3xf32>", out), body));
    }
}

#[test]
fn reductions() {
    let reduce = |op: &str, init: &str, dims: &str, ty: &str| {
        format!(
            "%z = stablehlo.constant dense<{init}> : tensor<f32>
            %r = stablehlo.reduce(%a init: %z) applies stablehlo.{op} across dimensions = [{dims}] : (tensor<5x6xf32>, tensor<f32>) -> {ty}"
        )
    };
    for cut in cuts() {
        for (op, init) in [("add", "0.0"), ("add", "3.0"), ("multiply", "1.0"), ("maximum", "-9.0"), ("minimum", "9.0")]
        {
            for (dims, ty) in [("0", "tensor<6xf32>"), ("1", "tensor<5xf32>"), ("0, 1", "tensor<f32>")] {
                same(&function(&[(MATRIX, &cut)], (ty, "-"), &reduce(op, init, dims, ty)));
            }
        }
    }
}

#[test]
fn shape_ops() {
    let bodies = [
        ("tensor<6x5xf32>", "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<5x6xf32>) -> tensor<6x5xf32>"),
        ("tensor<30xf32>", "%r = stablehlo.reshape %a : (tensor<5x6xf32>) -> tensor<30xf32>"),
        ("tensor<5x1x6xf32>", "%r = stablehlo.reshape %a : (tensor<5x6xf32>) -> tensor<5x1x6xf32>"),
        ("tensor<5x2x3xf32>", "%r = stablehlo.reshape %a : (tensor<5x6xf32>) -> tensor<5x2x3xf32>"),
        ("tensor<10x3xf32>", "%r = stablehlo.reshape %a : (tensor<5x6xf32>) -> tensor<10x3xf32>"),
        ("tensor<6x5xf32>", "%r = stablehlo.reshape %a : (tensor<5x6xf32>) -> tensor<6x5xf32>"),
        ("tensor<3x5x6xf32>", "%r = stablehlo.broadcast_in_dim %a, dims = [1, 2] : (tensor<5x6xf32>) -> tensor<3x5x6xf32>"),
        ("tensor<2x6xf32>", "%r = stablehlo.slice %a [1:3, 0:6] : (tensor<5x6xf32>) -> tensor<2x6xf32>"),
        ("tensor<10x6xf32>", "%r = stablehlo.concatenate %a, %a, dim = 0 : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<10x6xf32>"),
        ("tensor<5x6xf32>", "%r = stablehlo.reverse %a, dims = [0] : tensor<5x6xf32>"),
        (
            "tensor<5x10xf32>",
            "%z = stablehlo.constant dense<9.0> : tensor<f32>
            %r = stablehlo.pad %a, %z, low = [0, 1], high = [0, 3], interior = [0, 0] : (tensor<5x6xf32>, tensor<f32>) -> tensor<5x10xf32>",
        ),
        (
            MATRIX,
            "%i = stablehlo.iota dim = 0 : tensor<5x6xf32>
            %c = stablehlo.constant dense<2.0> : tensor<5x6xf32>
            %s = stablehlo.multiply %i, %c : tensor<5x6xf32>
            %r = stablehlo.add %a, %s : tensor<5x6xf32>",
        ),
        (
            "tensor<3x6xf32>",
            "%c = stablehlo.constant dense<1> : tensor<i32>
            %r = stablehlo.dynamic_slice %a, %c, %c, sizes = [3, 6] : (tensor<5x6xf32>, tensor<i32>, tensor<i32>) -> tensor<3x6xf32>",
        ),
        (
            MATRIX,
            "%c = stablehlo.constant dense<1> : tensor<i32>
            %u = stablehlo.slice %a [0:5, 0:2] : (tensor<5x6xf32>) -> tensor<5x2xf32>
            %r = stablehlo.dynamic_update_slice %a, %u, %c, %c : (tensor<5x6xf32>, tensor<5x2xf32>, tensor<i32>, tensor<i32>) -> tensor<5x6xf32>",
        ),
        (
            "tensor<4x6xf32>",
            "%c = stablehlo.constant dense<[3, 0, 1, 4]> : tensor<4xi32>
            %r = \"stablehlo.gather\"(%a, %c) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<5x6xf32>, tensor<4xi32>) -> tensor<4x6xf32>",
        ),
        (
            MATRIX,
            "%c = stablehlo.constant dense<[[3], [0], [1], [1], [4]]> : tensor<5x1xi32>
            %r = \"stablehlo.scatter\"(%a, %c, %a) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
              ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                %s = stablehlo.add %p, %q : tensor<f32>
                stablehlo.return %s : tensor<f32>
            }) : (tensor<5x6xf32>, tensor<5x1xi32>, tensor<5x6xf32>) -> tensor<5x6xf32>",
        ),
        (
            MATRIX,
            "%r = \"stablehlo.sort\"(%a) <{dimension = 0 : i64, is_stable = true}> ({
              ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                %s = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
                stablehlo.return %s : tensor<i1>
            }) : (tensor<5x6xf32>) -> tensor<5x6xf32>",
        ),
    ];
    for (ty, body) in bodies {
        for cut in cuts() {
            same(&function(&[(MATRIX, &cut)], (ty, "-"), body));
        }
    }
}

#[test]
fn inner_constraints() {
    for cut in cuts().iter().filter(|cut| *cut != "-") {
        same(&format!(
            "func.func @main(%a: tensor<5x6xf32>) -> (tensor<5x6xf32>, tensor<f32>) {{
              %zero = stablehlo.constant dense<0> : tensor<i32>
              %one = stablehlo.constant dense<1> : tensor<i32>
              %n = stablehlo.constant dense<3> : tensor<i32>
              %b = sdy.sharding_constraint %a <@mesh, [{cut}]> : tensor<5x6xf32>
              %0:2 = stablehlo.while(%i = %zero, %v = %b) : tensor<i32>, tensor<5x6xf32>
                cond {{
                  %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %c : tensor<i1>
                }} do {{
                  %w = stablehlo.add %v, %v : tensor<5x6xf32>
                  %k = sdy.sharding_constraint %w <@mesh, [{cut}]> : tensor<5x6xf32>
                  %j = stablehlo.add %i, %one : tensor<i32>
                  stablehlo.return %j, %k : tensor<i32>, tensor<5x6xf32>
                }}
              %z = stablehlo.constant dense<0.0> : tensor<f32>
              %r = stablehlo.reduce(%0#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<f32>
              return %0#1, %r : tensor<5x6xf32>, tensor<f32>
            }}"
        ));
    }
}

#[test]
fn batch_keeps_sharding() {
    let batch = dims(&[ALL, N]);
    let body = "%z = stablehlo.constant dense<0.0> : tensor<f32>
        %h = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<10x6xf32>, tensor<6x3xf32>) -> tensor<10x3xf32>
        %n = stablehlo.negate %h : tensor<10x3xf32>
        %r = stablehlo.reduce(%n init: %z) applies stablehlo.add across dimensions = [0] : (tensor<10x3xf32>, tensor<f32>) -> tensor<3xf32>";
    let args = [("tensor<10x6xf32>", &batch[..]), ("tensor<6x3xf32>", "-")];
    assert_eq!(collectives(&function(&args, ("tensor<3xf32>", "-"), body)), ["all_reduce"]);
}

#[test]
fn results_padded_on_request() {
    let body = "%r = stablehlo.negate %a : tensor<5x6xf32>";
    let output = |result: &str| {
        let text = function(&[(MATRIX, &dims(&[ALL, N]))], (MATRIX, result), body);
        same(&text);
        let split = partition(&super::module(&text), 1, 4).unwrap();
        (split.output_shardings[0].clone(), split.module.funcs[0].results[0].to_string())
    };
    assert_eq!(output("-"), (OpSharding::Replicated, MATRIX.to_owned()));
    let tiled = OpSharding::Tiled {
        tiles: vec![4, 1],
        partitions: vec![0, 1, 2, 3],
        replicated_last: false,
        unreduced_last: false,
    };
    assert_eq!(output(&dims(&[ALL, N])), (tiled, "tensor<2x6xf32>".to_owned()));
    let both = OpSharding::Tiled {
        tiles: vec![2, 2],
        partitions: vec![0, 1, 2, 3],
        replicated_last: false,
        unreduced_last: false,
    };
    assert_eq!(output(&dims(&[X, Y])), (both, "tensor<3x3xf32>".to_owned()));
}

#[test]
fn gspmd_arguments_and_results() {
    same(
        "func.func @main(%a: tensor<1x5xf32> {mhlo.sharding = \"{devices=[4,1]0,1,2,3}\"}, %b: tensor<1x5xf32> {mhlo.sharding = \"{devices=[1,4]0,1,2,3}\"}) -> (tensor<1x5xf32> {mhlo.sharding = \"{devices=[2,2]<=[4]}\"}) {
          %r = stablehlo.add %a, %b : tensor<1x5xf32>
          return %r : tensor<1x5xf32>
        }",
    );
}
