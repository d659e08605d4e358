//! Tests of unreduced values. Each device holds a summand of such a value.

use super::traffic::{collectives, none};
use super::{N, X, Y, dims, function, module, same};
use crate::spmd::{OpSharding, partition};

const MATRIX: &str = "tensor<8x8xf32>";

/// Returns an op that defines `%to` as `%from`, annotated as unreduced along the given axes.
fn sum(to: &str, from: &str, dims: &str, axes: &str, ty: &str) -> String {
    format!("%{to} = sdy.sharding_constraint %{from} <@mesh, [{dims}], unreduced={{{axes}}}> : {ty}\n")
}

fn dot(to: &str, a: &str, b: &str) -> String {
    format!(
        "%{to} = stablehlo.dot_general %{a}, %{b}, contracting_dims = [1] x [0] : ({MATRIX}, {MATRIX}) -> {MATRIX}\n"
    )
}

#[test]
fn partial_products_are_added_first() {
    let (left, right, whole) = (dims(&[N, X]), dims(&[X, N]), dims(&[N, N]));
    let sums = [
        dot("c", "a", "b"),
        sum("d", "c", &whole, "\"x\"", MATRIX),
        dot("e", "b", "a"),
        sum("f", "e", &whole, "\"x\"", MATRIX),
        format!("%g = stablehlo.add %d, %d : {MATRIX}\n%h = stablehlo.negate %g : {MATRIX}\n"),
        format!("%t = stablehlo.transpose %h, dims = [1, 0] : ({MATRIX}) -> {MATRIX}\n"),
    ]
    .concat();
    let body = |end: &str| format!("{sums}{end}");
    let args = [(MATRIX, &left[..]), (MATRIX, &right[..])];
    let unused_e = "%r = stablehlo.add %t, %t : tensor<8x8xf32>";
    let found = collectives(&function(&args, (MATRIX, &whole), &body(unused_e)));
    assert_eq!(found.iter().filter(|name| *name == "all_reduce").count(), 1, "{found:?}");
    let rows = dims(&[X, N]);
    let found = collectives(&function(&args, (MATRIX, &rows), &body(unused_e)));
    assert_eq!(found.iter().filter(|name| *name == "reduce_scatter").count(), 1, "{found:?}");
}

#[test]
fn independent_sums_are_joined() {
    let (left, right, whole) = (dims(&[N, X]), dims(&[X, N]), dims(&[N, N]));
    let body = [
        dot("c", "a", "b"),
        format!("%t = stablehlo.tanh %c : {MATRIX}\n%n = stablehlo.negate %b : {MATRIX}\n"),
        dot("d", "a", "n"),
        format!("%u = stablehlo.tanh %d : {MATRIX}\n%r = stablehlo.add %t, %u : {MATRIX}"),
    ];
    let program = same(&function(&[(MATRIX, &left), (MATRIX, &right)], (MATRIX, &whole), &body.concat()));
    let text = String::from_utf8(program.readable_program().unwrap().to_vec()).unwrap();
    assert_eq!(text.matches("stablehlo.all_reduce").count(), 1, "{text}");
}

#[test]
fn to_unreduced_and_back() {
    for from in ["-", &dims(&[N, N]), &dims(&[X, N]), &dims(&[N, X]), &dims(&[Y, X]), "{\"x\", \"y\"}, {}"] {
        for (cut, axes) in [(dims(&[N, N]), "\"x\""), (dims(&[Y, N]), "\"x\""), (dims(&[N, N]), "\"x\", \"y\"")] {
            for to in [dims(&[N, N]), dims(&[X, N]), dims(&[Y, X])] {
                let body = [
                    sum("s", "a", &cut, axes, MATRIX),
                    format!("%r = sdy.sharding_constraint %s <@mesh, [{to}]> : {MATRIX}"),
                ]
                .concat();
                collectives(&function(&[(MATRIX, from)], (MATRIX, &to), &body));
            }
        }
    }
}

#[test]
fn sharded_to_unreduced_needs_no_exchange() {
    let body = [
        sum("s", "a", &dims(&[N, N]), "\"x\"", MATRIX),
        format!("%r = sdy.sharding_constraint %s <@mesh, [{}]> : {MATRIX}", dims(&[X, N])),
    ]
    .concat();
    let cut = dims(&[X, N]);
    assert_eq!(collectives(&function(&[(MATRIX, &cut)], (MATRIX, &cut), &body)), ["reduce_scatter"]);
}

#[test]
fn nonlinear_ops_reduce_first() {
    let ops = [
        "%u = stablehlo.abs %s : tensor<8x8xf32>",
        "%u = stablehlo.multiply %s, %s : tensor<8x8xf32>",
        "%u = stablehlo.add %s, %a : tensor<8x8xf32>",
        "%c = stablehlo.constant dense<1.0> : tensor<8x8xf32>\n%u = stablehlo.divide %c, %s : tensor<8x8xf32>",
        "%c = stablehlo.compare GT, %s, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xi1>
        %u = stablehlo.select %c, %s, %a : tensor<8x8xi1>, tensor<8x8xf32>",
        "%z = stablehlo.constant dense<-9.0> : tensor<f32>
        %m = stablehlo.reduce(%s init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
        %u = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>",
    ];
    for op in ops {
        for cut in ["-", &dims(&[X, N]), &dims(&[N, Y])] {
            let body = [
                sum("s", "a", &dims(&[N, N]), "\"x\"", MATRIX),
                format!("{op}\n"),
                sum("v", "u", &dims(&[N, N]), "\"x\"", MATRIX),
                format!("%r = stablehlo.negate %v : {MATRIX}"),
            ]
            .concat();
            if !op.contains("divide") {
                collectives(&function(&[(MATRIX, cut)], (MATRIX, "-"), &body));
            }
        }
    }
}

#[test]
fn local_updates() {
    let scatter = "%z = stablehlo.constant dense<0.0> : tensor<8xf32>
        %q = \"stablehlo.scatter\"(%z, %b, %a) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
          ^bb0(%m: tensor<f32>, %n: tensor<f32>):
            %s = stablehlo.add %m, %n : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) : (tensor<8xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<8xf32>\n";
    let body = [
        scatter.to_owned(),
        sum("t", "q", N, "\"x\"", "tensor<8xf32>"),
        format!("%r = sdy.sharding_constraint %t <@mesh, [{N}]> : tensor<8xf32>"),
    ]
    .concat();
    let args = [("tensor<4xf32>", X), ("tensor<4x1xi32>", &dims(&[X, N]))];
    assert_eq!(collectives(&function(&args, ("tensor<8xf32>", N), &body)), ["all_reduce"]);
}

#[test]
fn unreduced_arguments_and_results() {
    let text = "func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={\"x\"}>},
                               %b: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={\"x\", \"y\"}>})
        -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={\"x\"}>}) {
          %r = stablehlo.negate %a : tensor<4xf32>
          return %r : tensor<4xf32>
        }";
    let split = partition(&module(text), 1, 4).unwrap();
    let sum = OpSharding::Tiled {
        tiles: vec![1, 2, 2],
        partitions: vec![0, 2, 1, 3],
        replicated_last: true,
        unreduced_last: true,
    };
    assert_eq!(split.parameter_shardings, [sum.clone(), OpSharding::Unreduced]);
    assert_eq!(split.output_shardings, [sum]);
    let mut found = Vec::new();
    super::traffic::count(&split.module.funcs[0].body, &mut found);
    assert_eq!(found, none());
    let twice = text.replace("[{}], unreduced={\"x\"}", "[{\"x\"}], unreduced={\"x\"}");
    assert_eq!(partition(&module(&twice), 1, 4).unwrap_err().kind(), crate::CompileErrorKind::Invalid);
}

#[test]
fn sharding_without_results() {
    let text =
        format!("func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{X}]>}}) {{ return }}");
    let split = partition(&module(&text), 1, 4).unwrap();
    let said = split.module.attributes.iter().find(|(name, _)| name == "mhlo.spmd_output_sharding");
    assert_eq!(said.and_then(|(_, value)| value.as_str()), Some("{replicated}"));
}
