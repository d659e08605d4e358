//! Compiles each program twice: from MLIR text, and from the HLO that the crate `stablehlo` writes for this text.
//! Compares the outputs of the two executables.

use crate::real::{compile, everywhere};
use pjrt::{Client, CompileOptions, Program};

/// The parameters of every program: `%x`, `%y` and `%i`.
const ARGUMENTS: &str = "%x: tensor<4x6xf32>, %y: tensor<6x3xf32>, %i: tensor<i32>";

/// Name, ops and output types of each program. A program with one output returns `%r`, and a program with two outputs
/// returns `%r#0` and `%r#1`.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "elementwise",
        "%0 = stablehlo.tanh %x : tensor<4x6xf32>
         %1 = stablehlo.exponential %0 : tensor<4x6xf32>
         %c = stablehlo.constant dense<0.5> : tensor<4x6xf32>
         %2 = stablehlo.compare GT, %1, %c : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
         %3 = stablehlo.select %2, %0, %1 : tensor<4x6xi1>, tensor<4x6xf32>
         %lo = stablehlo.constant dense<-0.25> : tensor<f32>
         %hi = stablehlo.constant dense<0.75> : tensor<f32>
         %4 = stablehlo.clamp %lo, %3, %hi : (tensor<f32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
         %5 = stablehlo.convert %4 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
         %r = stablehlo.convert %5 : (tensor<4x6xbf16>) -> tensor<4x6xf32>",
        "tensor<4x6xf32>",
    ),
    (
        "dot",
        "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>",
        "tensor<4x3xf32>",
    ),
    (
        "shapes",
        "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
         %1 = stablehlo.slice %0 [1:6:2, 0:4] : (tensor<6x4xf32>) -> tensor<3x4xf32>
         %2 = stablehlo.reshape %1 : (tensor<3x4xf32>) -> tensor<1x12xf32>
         %3 = stablehlo.broadcast_in_dim %2, dims = [2, 0] : (tensor<1x12xf32>) -> tensor<12x2x5xf32>
         %z = stablehlo.constant dense<7.0> : tensor<f32>
         %4 = stablehlo.pad %3, %z, low = [1, 0, -1], high = [0, 1, 0], interior = [0, 1, 0] : (tensor<12x2x5xf32>, tensor<f32>) -> tensor<13x4x4xf32>
         %5 = stablehlo.reverse %4, dims = [1] : tensor<13x4x4xf32>
         %6 = stablehlo.iota dim = 2 : tensor<13x4x4xf32>
         %7 = stablehlo.concatenate %5, %6, dim = 0 : (tensor<13x4x4xf32>, tensor<13x4x4xf32>) -> tensor<26x4x4xf32>
         %r = stablehlo.dynamic_slice %7, %i, %i, %i, sizes = [20, 2, 2] : (tensor<26x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<20x2x2xf32>",
        "tensor<20x2x2xf32>",
    ),
    (
        "reductions",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>
         %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
         %1 = \"stablehlo.reduce_window\"(%x, %z) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
           %m = stablehlo.maximum %a, %b : tensor<f32>
           stablehlo.return %m : tensor<f32>
         }) {window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x3xf32>
         %2:2 = \"stablehlo.reduce\"(%x, %x, %z, %z) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
           %m = stablehlo.maximum %a, %c : tensor<f32>
           %n = stablehlo.minimum %b, %d : tensor<f32>
           stablehlo.return %m, %n : tensor<f32>, tensor<f32>
         }) {dimensions = array<i64: 0, 1>} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
         %3 = stablehlo.subtract %2#0, %2#1 : tensor<f32>
         %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
         %5 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x3xf32>
         %6 = stablehlo.add %4, %5 : tensor<4x3xf32>
         %r = stablehlo.add %6, %1 : tensor<4x3xf32>",
        "tensor<4x3xf32>",
    ),
    (
        "sort",
        "%r:2 = \"stablehlo.sort\"(%x, %x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
           %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %1 : tensor<i1>
         }) {dimension = 1 : i64, is_stable = true} : (tensor<4x6xf32>, tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)",
        "tensor<4x6xf32>, tensor<4x6xf32>",
    ),
    (
        "loop",
        "%zero = stablehlo.constant dense<0> : tensor<i32>
         %one = stablehlo.constant dense<1> : tensor<i32>
         %limit = stablehlo.add %i, %one : tensor<i32>
         %r:2 = stablehlo.while(%n = %zero, %a = %x) : tensor<i32>, tensor<4x6xf32>
           cond {
             %c = stablehlo.compare LT, %n, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %c : tensor<i1>
           } do {
             %b = stablehlo.add %a, %x : tensor<4x6xf32>
             %m = stablehlo.add %n, %one : tensor<i32>
             stablehlo.return %m, %b : tensor<i32>, tensor<4x6xf32>
           }",
        "tensor<i32>, tensor<4x6xf32>",
    ),
    (
        "branches",
        "%one = stablehlo.constant dense<1> : tensor<i32>
         %c = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
         %0 = \"stablehlo.if\"(%c) ({
           %2 = stablehlo.negate %x : tensor<4x6xf32>
           stablehlo.return %2 : tensor<4x6xf32>
         }, {
           stablehlo.return %x : tensor<4x6xf32>
         }) : (tensor<i1>) -> tensor<4x6xf32>
         %r:2 = \"stablehlo.case\"(%i) ({
           stablehlo.return %0, %x : tensor<4x6xf32>, tensor<4x6xf32>
         }, {
           stablehlo.return %x, %0 : tensor<4x6xf32>, tensor<4x6xf32>
         }) : (tensor<i32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)",
        "tensor<4x6xf32>, tensor<4x6xf32>",
    ),
    (
        "indexing",
        "%s = stablehlo.constant dense<[[0], [2]]> : tensor<2x1xi32>
         %0 = \"stablehlo.gather\"(%x, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>} : (tensor<4x6xf32>, tensor<2x1xi32>) -> tensor<2x6xf32>
         %r = \"stablehlo.scatter\"(%x, %s, %0) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
           %1 = stablehlo.add %a, %b : tensor<f32>
           stablehlo.return %1 : tensor<f32>
         }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<4x6xf32>, tensor<2x1xi32>, tensor<2x6xf32>) -> tensor<4x6xf32>",
        "tensor<4x6xf32>",
    ),
    (
        "convolution",
        "%0 = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<1x4x6x1xf32>
         %k = stablehlo.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[-1.0]]]]> : tensor<2x2x1x1xf32>
         %r = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 2], pad = [[1, 0], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x6x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x3x1xf32>",
        "tensor<1x4x3x1xf32>",
    ),
    (
        "linear_algebra",
        "%t = stablehlo.transpose %y, dims = [1, 0] : (tensor<6x3xf32>) -> tensor<3x6xf32>
         %0 = stablehlo.dot_general %t, %y, contracting_dims = [1] x [0] : (tensor<3x6xf32>, tensor<6x3xf32>) -> tensor<3x3xf32>
         %e = stablehlo.constant dense<[[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]]> : tensor<3x3xf32>
         %1 = stablehlo.add %0, %e : tensor<3x3xf32>
         %2 = stablehlo.cholesky %1, lower = true : tensor<3x3xf32>
         %r = \"stablehlo.triangular_solve\"(%2, %t) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x3xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>",
        "tensor<3x6xf32>",
    ),
    (
        "call",
        "%r = func.call @twice(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
        "tensor<4x6xf32>",
    ),
];

fn text(ops: &str, results: &str) -> String {
    let count = results.matches("tensor").count();
    let values =
        if count == 1 { "%r".to_owned() } else { (0..count).map(|n| format!("%r#{n}")).collect::<Vec<_>>().join(", ") };
    format!(
        "func.func private @twice(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{
           %0 = stablehlo.add %x, %x : tensor<4x6xf32>
           return %0 : tensor<4x6xf32>
         }}
         func.func @main({ARGUMENTS}) -> ({results}) {{
           {ops}
           return {values} : {results}
         }}"
    )
}

fn run(client: &Client, executable: &pjrt::LoadedExecutable) -> Vec<Vec<u8>> {
    let numbers = |count: u16| (0..count).map(|n| f32::from(n * 37 % 23) / 8.0 - 1.25).collect::<Vec<_>>();
    let x = client.buffer_from_host(&numbers(24), &[4, 6]).unwrap();
    let y = client.buffer_from_host(&numbers(18), &[6, 3]).unwrap();
    let i = client.buffer_from_host(&[1i32], &[]).unwrap();
    let outputs = executable.execute(&[&x, &y, &i]).unwrap();
    outputs.iter().map(|output| output.download().bytes().unwrap()).collect()
}

#[test]
fn computes_the_same() {
    everywhere("written_hlo", |client| {
        for (name, ops, results) in PROGRAMS {
            let text = text(ops, results);
            let module = stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL);
            let module = module.unwrap_or_else(|error| panic!("{name}: {error}"));
            let hlo = stablehlo::write_hlo(&module).unwrap_or_else(|error| panic!("{name}: {error}"));
            let hlo = match client.compile(&Program::hlo(hlo), &CompileOptions::default()) {
                // Builds of the embedded device without this feature have no solvers.
                Err(error) if error.message().contains("needs the feature `math`") => {
                    println!("SKIPPED written_hlo, {name}: {}", error.message());
                    continue;
                }
                hlo => hlo.unwrap_or_else(|error| panic!("{name}: {error}")),
            };
            assert_eq!(run(client, &hlo), run(client, &compile(client, &text)), "{name}");
        }
    });
}
