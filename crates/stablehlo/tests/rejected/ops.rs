//! Tests ops, values and functions that do not match. The error names the op, the function and the position.

use crate::Messages;

const ARGUMENTS: &str = "%x: tensor<4x6xf32>, %y: tensor<6x4xf32>, %i: tensor<i32>, %p: tensor<i1>, %s: tensor<f32>, %h: tensor<4x6xf16>, %m: tensor<4x4xi32>, %v: tensor<4xf32>, %n: tensor<3xi64>";

fn reject(body: &str) -> stablehlo::Error {
    let text = format!("func.func @main({ARGUMENTS}) {{\n{body}\n  return\n}}\n");
    stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect_err(body)
}

pub(crate) fn shapes(messages: &mut Messages) {
    messages.section("Shapes");
    for op in [
        "%0 = stablehlo.add %x, %y : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x6xf32>",
        "%0 = stablehlo.add %x, %h : (tensor<4x6xf32>, tensor<4x6xf16>) -> tensor<4x6xf32>",
        "%0 = stablehlo.abs %x : (tensor<4x6xf32>) -> tensor<4x7xf32>",
        "%0 = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<5x5xf32>",
        "%0 = stablehlo.transpose %x, dims = [0, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
        "%0 = stablehlo.transpose %x, dims = [1, 2] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
        "%0 = stablehlo.slice %x [0:5, 0:6] : (tensor<4x6xf32>) -> tensor<5x6xf32>",
        "%0 = stablehlo.slice %x [0:4, 0:6:0] : (tensor<4x6xf32>) -> tensor<4x6xf32>",
        "%0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<4x6xf32>) -> tensor<4x7xf32>",
        "%0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<10x6xf32>",
        "%0 = stablehlo.iota dim = 2 : tensor<4x6xf32>",
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>",
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<6x6xf32>",
        "%0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [2] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>",
        "%0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>",
        "%0 = stablehlo.dynamic_slice %x, %i, sizes = [1, 1] : (tensor<4x6xf32>, tensor<i32>) -> tensor<1x1xf32>",
        "%0 = stablehlo.pad %x, %s, low = [-9, 0], high = [0, 0], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>",
        "%0 = stablehlo.select %p, %x, %y : (tensor<i1>, tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x6xf32>",
        "%0 = stablehlo.compare EQ, %x, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
        "%0 = stablehlo.bitcast_convert %x : (tensor<4x6xf32>) -> tensor<4x6xi8>",
        "%0 = \"stablehlo.if\"(%s) ({ stablehlo.return }, { stablehlo.return }) : (tensor<f32>) -> ()",
        "%0 = \"stablehlo.if\"(%p) ({ stablehlo.return %x : tensor<4x6xf32> }, { stablehlo.return %y : tensor<6x4xf32> }) : (tensor<i1>) -> tensor<4x6xf32>",
        "%0 = \"stablehlo.if\"(%p) ({ stablehlo.return %x : tensor<4x6xf32> }) : (tensor<i1>) -> tensor<4x6xf32>",
    ] {
        let op = op.replace("%0 = \"stablehlo.if\"(%s)", "\"stablehlo.if\"(%s)");
        let e = reject(&op);
        messages.add(&op, &e);
        assert!(e.op().is_some_and(|op| op.starts_with("stablehlo.")), "{e}");
        assert_eq!(e.func(), Some("main"));
        // An error of the reader has a byte offset. An error of the verifier has a source location, which is a line of
        // the text in this test.
        assert!(
            e.line_column().is_some_and(|p| p.0 == 2) || e.location().is_some_and(|l| l.starts_with("line 2:")),
            "{e}"
        );
    }
}

pub(crate) fn element_types(messages: &mut Messages) {
    messages.section("Element types");
    for op in [
        "%0 = stablehlo.tanh %i : tensor<i32>",
        "%0 = stablehlo.floor %i : tensor<i32>",
        "%0 = stablehlo.popcnt %s : tensor<f32>",
        "%0 = stablehlo.not %s : tensor<f32>",
        "%0 = stablehlo.subtract %p, %p : tensor<i1>",
        "%0 = stablehlo.and %s, %s : tensor<f32>",
        "%0 = stablehlo.shift_left %p, %p : tensor<i1>",
        "%0 = stablehlo.reduce_precision %i, format = e5m2 : tensor<i32>",
        "%0 = stablehlo.iota dim = 0 : tensor<4xi1>",
        "%0 = stablehlo.replica_id : tensor<i32>",
        "%0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4x6xf32>) -> tensor<i64>",
        "%0 = stablehlo.cholesky %m : tensor<4x4xi32>",
        "%0 = stablehlo.fft %x, type = FFT, length = [6] : (tensor<4x6xf32>) -> tensor<4x6xf32>",
        "%0 = stablehlo.after_all %s : (tensor<f32>) -> !stablehlo.token",
    ] {
        let e = reject(op);
        messages.add(op, &e);
        assert_eq!(e.func(), Some("main"));
        assert!(e.op().is_some_and(|op| op.starts_with("stablehlo.")), "{e}");
        assert!(e.location().is_some_and(|l| l.starts_with("line 2:")), "{e}");
    }
}

pub(crate) fn ops_without_kind(messages: &mut Messages) {
    messages.section("Ops without kind");
    let groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>";
    let add = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %1 = stablehlo.add %a, %b : tensor<f32>\n stablehlo.return %1 : tensor<f32> })";
    for op in [
            format!("%0 = \"stablehlo.all_gather\"(%x) <{{all_gather_dim = 2 : i64, {groups}}}> : (tensor<4x6xf32>) -> tensor<4x12xf32>"),
            format!("%0 = \"stablehlo.all_gather\"(%x) <{{all_gather_dim = 1 : i64, {groups}}}> : (tensor<4x6xf32>) -> tensor<4x13xf32>"),
            format!("%0 = \"stablehlo.all_reduce\"(%x) <{{{groups}}}> {add} : (tensor<4x6xf32>) -> tensor<4x5xf32>"),
            format!("%0 = \"stablehlo.all_reduce\"(%x) <{{replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>}}> {add} : (tensor<4x6xf32>) -> tensor<4x6xf32>"),
            format!("%0 = \"stablehlo.reduce_scatter\"(%x) <{{scatter_dimension = 1 : i64, {groups}}}> {add} : (tensor<4x6xf32>) -> tensor<4x4xf32>"),
            "%0 = \"stablehlo.all_to_all\"(%x) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 4 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4x6xf32>) -> tensor<16x1xf32>".to_owned(),
            "%0 = \"stablehlo.collective_permute\"(%x) <{source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>".to_owned(),
            "%0 = \"stablehlo.batch_norm_inference\"(%x, %v, %v, %v, %v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x6xf32>".to_owned(),
        "%0 = stablehlo.dynamic_reshape %x, %s : (tensor<4x6xf32>, tensor<f32>) -> tensor<?x?xf32>".to_owned(),
            "%0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0, 0] : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>".to_owned(),
            "%0 = \"stablehlo.outfeed\"(%x, %s) <{outfeed_config = \"\"}> : (tensor<4x6xf32>, tensor<f32>) -> !stablehlo.token".to_owned(),
        "%0 = stablehlo.set_dimension_size %x, %i, dim = 5 : (tensor<4x6xf32>, tensor<i32>) -> tensor<4x6xf32>".to_owned(),
    ] {
        let e = reject(&op);
        messages.add(&op, &e);
        assert!(e.op().is_some_and(|op| op.starts_with("stablehlo.")), "{e}");
        assert!(e.location().is_some_and(|l| l.starts_with("line 2:")), "{e}");
    }
}

/// Returns an op whose reducer takes tensors of the type `reducer`, such as `i16` or `4xi32`. `types` are the types of
/// the op.
fn reducing(op: &str, reducer: &str, types: &str) -> String {
    format!(
        "%0 = \"stablehlo.{op}\"(%m, %i) ({{ ^bb0(%a: tensor<{reducer}>, %b: tensor<{reducer}>): stablehlo.return %a : tensor<{reducer}> }}) {{dimensions = array<i64: 0>, window_dimensions = array<i64: 4, 4>}} : {types}"
    )
}

pub(crate) fn reductions(messages: &mut Messages) {
    messages.section("Reductions");
    let types = "(tensor<4x4xi32>, tensor<i32>) -> tensor<4xi32>";
    let collective = |op: &str, rest: &str, result: &str| {
        format!(
            "%0 = \"stablehlo.{op}\"(%m) ({{ ^bb0(%a: tensor<i32>, %b: tensor<i32>): stablehlo.return %a : tensor<i32> }}) {{{rest}}} : (tensor<4x4xi32>) -> {result}"
        )
    };
    for op in [
        reducing("reduce", "i16", types),
        reducing("reduce", "f32", types),
        reducing("reduce", "i64", types),
        reducing("reduce", "4xi32", types),
        reducing("reduce_window", "i8", "(tensor<4x4xi32>, tensor<i32>) -> tensor<1x1xi32>"),
        collective("all_reduce", "replica_groups = dense<[[0, 2]]> : tensor<1x2xi64>", "tensor<4x4xi32>"),
        collective(
            "all_reduce",
            "replica_groups = dense<0> : tensor<1x1xi64>, use_global_device_ids",
            "tensor<4x4xi32>",
        ),
        collective("all_reduce", "replica_groups = dense<0> : tensor<1x1xi64>", "tensor<4x4xi64>"),
        collective(
            "reduce_scatter",
            "replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64",
            "tensor<2x4xi32>",
        ),
        collective(
            "collective_reduce",
            "replica_groups = dense<0> : tensor<1x1xi64>, has_dynamic_root = true",
            "tensor<4x4xi32>",
        ),
    ] {
        let e = reject(&op);
        messages.add(&op, &e);
        assert!(e.op().is_some_and(|op| op.starts_with("stablehlo.")), "{e}");
        assert!(e.location().is_some_and(|l| l.starts_with("line 2:")), "{e}");
    }
}

pub(crate) fn dynamic_convolutions_and_gathers(messages: &mut Messages) {
    messages.section("Dynamic convolutions and gathers");
    let gather = |numbers: &str, sizes: &str| {
        format!(
            "%0 = \"stablehlo.dynamic_gather\"(%x, %m, %{sizes}) {{dimension_numbers = #stablehlo.gather<{numbers}>}} : (tensor<4x6xf32>, tensor<4x4xi32>, {}) -> tensor<?x?xf32>",
            if sizes == "n" { "tensor<3xi64>" } else { "tensor<2xi64>" }
        )
    };
    let conv = |numbers: &str, rest: &str| {
        format!(
            "%0 = \"stablehlo.dynamic_conv\"(%c, %k, %d) {{dimension_numbers = #stablehlo.conv<{numbers}>, batch_group_count = 1 : i64{rest}}} : (tensor<1x8x2xf32>, tensor<3x2x4xf32>, tensor<1x2xi32>) -> tensor<1x?x4xf32>"
        )
    };
    let (groups, numbers) = (", feature_group_count = 1 : i64", "[b, 0, f]x[0, i, o]->[b, 0, f]");
    let parse = |op: &str| {
        stablehlo::parse(
            format!(
                "func.func @main({ARGUMENTS}, %t: tensor<2xi64>, %c: tensor<1x8x2xf32>, %k: tensor<3x2x4xf32>, %d: tensor<1x2xi32>) {{\n{op}\n  return\n}}\n"
            ),
            stablehlo::VerifyLevel::FULL,
        )
    };
    parse(&conv(numbers, groups)).expect("the convolution is valid");
    for op in [
        conv(numbers, ", feature_group_count = 2 : i64"),
        conv(numbers, ", feature_group_count = 0 : i64"),
        conv(numbers, ", feature_group_count = 3 : i64"),
        conv("[b, f, 0]x[0, i, o]->[b, 0, f]", groups),
        conv(numbers, ", feature_group_count = 1 : i64, window_strides = array<i64: 0>"),
        conv(numbers, ", feature_group_count = 1 : i64, rhs_dilation = array<i64: 1, 1>"),
        gather("offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1", "t"),
        gather("offset_dims = [1], collapsed_slice_dims = [2], start_index_map = [0], index_vector_dim = 2", "t"),
        gather("offset_dims = [1], collapsed_slice_dims = [1, 0], start_index_map = [0], index_vector_dim = 2", "t"),
        gather("offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2", "n"),
    ] {
        let e = parse(&op).expect_err(&op);
        messages.add(&op, &e);
        assert!(e.op().is_some_and(|op| op.starts_with("stablehlo.dynamic_")), "{e}");
        assert!(e.location().is_some_and(|l| l.starts_with("line 2:")), "{e}");
    }
}

pub(crate) fn values(messages: &mut Messages) {
    messages.section("Values");
    for body in [
        "%0 = stablehlo.abs %nothing : tensor<f32>",
        "%0 = stablehlo.abs %s : tensor<f32>\n  %0 = stablehlo.abs %s : tensor<f32>",
        "\"stablehlo.if\"(%p) ({ %0 = stablehlo.abs %s : tensor<f32>\n stablehlo.return }, { stablehlo.return }) : (tensor<i1>) -> ()\n  %1 = stablehlo.abs %0 : tensor<f32>",
        "%0 = stablehlo.abs %s : (tensor<4xf32>) -> tensor<4xf32>",
        "%0:2 = stablehlo.abs %s : tensor<f32>",
    ] {
        messages.add(body, reject(body));
    }
}

pub(crate) fn calls(messages: &mut Messages) {
    messages.section("Calls and functions");
    for text in [
        "func.func @main() {\n call @missing() : () -> ()\n return }",
        "func.func @main() { call @f() : () -> ()\n return }\nfunc.func @f() { call @g() : () -> ()\n return }\nfunc.func @g() { call @f() : () -> ()\n return }",
        "func.func @main(%x: tensor<f32>) { call @f(%x) : (tensor<f32>) -> ()\n return }\nfunc.func @f() { return }",
        "func.func @f() { return }\nfunc.func @f() { return }",
        "func.func @main(%x: tensor<f32>) -> tensor<2xf32> { return %x : tensor<f32> }",
        "func.func @main() { call @f() : () -> ()\n return }\nfunc.func private @f()",
    ] {
        messages.add(text, stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect_err(text));
    }
}

pub(crate) fn files(messages: &mut Messages) {
    messages.section("Files");
    for text in ["", "not a program", "ML\u{ef}R", "module {"] {
        messages.add(format_args!("{text:?}"), stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect_err(text));
    }
}

#[test]
fn long_call_chain() {
    let mut text = String::from("func.func @main() { call @f0() : () -> ()\n return }\n");
    for i in 0..100_000 {
        text.push_str(&format!("func.func private @f{i}() {{ call @f{}() : () -> ()\n return }}\n", i + 1));
    }
    text.push_str("func.func private @f100000() { return }\n");
    let e = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap_err();
    assert_eq!(e.kind(), stablehlo::ErrorKind::Limit, "{e}");
}

#[test]
fn modules_built_by_hand() {
    let mut module = stablehlo::parse(
        "func.func @main(%x: tensor<f32>) { %0 = stablehlo.abs %x : tensor<f32>\n return }",
        stablehlo::VerifyLevel::FULL,
    )
    .unwrap();
    stablehlo::verify(&module, stablehlo::VerifyLevel::FULL).unwrap();
    module.funcs[0].body.ops[0].operands[0] = stablehlo::ir::ValueId(1);
    let error = stablehlo::verify(&module, stablehlo::VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Reference, "{error}");
    module.funcs[0].body.ops[0].operands[0] = stablehlo::ir::ValueId(77);
    assert!(stablehlo::verify(&module, stablehlo::VerifyLevel::FULL).is_err());
    module.funcs[0].body.ops.clear();
    let error = stablehlo::verify(&module, stablehlo::VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Structure, "{error}");
}
