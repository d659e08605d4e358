//! Tests programs that violate rules that do not concern shapes: quantized types, constant shape operands, custom
//! calls, string attributes, CHLO ops and asynchronous ops. Each test also checks a valid variant of the program, so
//! that the program is not rejected for another reason.

use crate::Messages;

/// Reads a function with these arguments and one op.
fn read(arguments: &str, op: &str) -> Result<stablehlo::ir::Module, stablehlo::Error> {
    stablehlo::parse(format!("func.func @main({arguments}) {{\n{op}\n  return\n}}\n"), stablehlo::VerifyLevel::FULL)
}

impl Messages {
    /// Checks that the op is accepted. Checks for each change that the op with `from` replaced by `to` is rejected, and
    /// adds the error.
    fn refused(&mut self, arguments: &str, op: &str, changes: &[(&str, &str)]) {
        read(arguments, op).unwrap_or_else(|e| panic!("{op}\n{e}"));
        for (from, to) in changes {
            assert!(arguments.contains(from) || op.contains(from), "{from} is nowhere in {op}");
            let (arguments, op) = (arguments.replace(from, to), op.replace(from, to));
            let error = read(&arguments, &op).expect_err(&op);
            assert_eq!(error.func(), Some("main"), "{error}");
            assert!(
                error.line_column().is_some() || error.location().is_some_and(|l| l.starts_with("line ")),
                "{error}"
            );
            self.add(format_args!("{arguments} | {op}"), error);
        }
    }
}

pub(crate) fn quantized_types(messages: &mut Messages) {
    messages.section("Quantized types");
    let per_tensor = "%x: tensor<1x2x!quant.uniform<i8:f32, 1.0:17>>";
    messages.refused(
        per_tensor,
        "%0 = stablehlo.negate %x : tensor<1x2x!quant.uniform<i8:f32, 1.0:17>>",
        &[
            (":17", ":128"),
            ("i8:", "si8:"),
            ("i8:", "i7:"),
            ("i8:f32, 1.0:17", "i8:f32:0, {1.0:17}"),
            ("stablehlo.negate", "stablehlo.popcnt"),
        ],
    );
    let per_axis = "%x: tensor<1x2x!quant.uniform<i8:f32:1, {1.0:1, 2.0}>>";
    messages.refused(
        per_axis,
        "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<1x2x!quant.uniform<i8:f32:1, {1.0:1, 2.0}>>) -> tensor<2x1x!quant.uniform<i8:f32:0, {1.0:1, 2.0:0}>>",
        &[
            ("{1.0:1, 2.0}", "{1.0:1}"),
            ("f32:1", "f32:7"),
            ("f32:1", "f32:-1"),
            ("2.0:0", "4.0:0"),
        ],
    );
    messages.refused(
        "%x: tensor<2x!quant.uniform<i8:f32, 1.0>>, %y: tensor<2x!quant.uniform<i8:f32, 1.0>>",
        "%0 = stablehlo.add %x, %y : (tensor<2x!quant.uniform<i8:f32, 1.0>>, tensor<2x!quant.uniform<i8:f32, 1.0>>) -> tensor<2x!quant.uniform<i8:f32, 3.0:2>>",
        &[
            ("i8:f32, 3.0:2", "u8:f32, 3.0:2"),
            ("i8:f32, 3.0:2", "i8:bf16, 3.0:2"),
            ("i8:f32, 3.0:2", "i8:f32:0, {3.0, 2.0}"),
        ],
    );
    messages.refused(
        "%x: tensor<2x3xf32>, %y: tensor<3x4x!quant.uniform<i8:f32:1, {1.0, 1.0, 2.0, 2.0}>>",
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4x!quant.uniform<i8:f32:1, {1.0, 1.0, 2.0, 2.0}>>) -> tensor<2x4xf32>",
        &[
            ("2.0, 2.0}", "2.0, 2.0:1}"),
            ("f32:1, {1.0, 1.0, 2.0, 2.0}", "f32:0, {1.0, 1.0, 2.0}"),
            ("i8:f32", "i8:f16"),
            ("tensor<2x4xf32>", "tensor<2x4x!quant.uniform<i8:f32, 1.0>>"),
        ],
    );
    messages.refused(
        "%x: tensor<4x!quant.uniform<i8:f32, 1.0>>, %i: tensor<!quant.uniform<i8:f32, 1.0>>",
        "%0 = \"stablehlo.reduce\"(%x, %i) <{dimensions = array<i64: 0>}> ({
         ^bb0(%a: tensor<!quant.uniform<i16:f32, 1.0>>, %b: tensor<!quant.uniform<i16:f32, 1.0>>):
           %1 = stablehlo.add %a, %b : tensor<!quant.uniform<i16:f32, 1.0>>
           stablehlo.return %1 : tensor<!quant.uniform<i16:f32, 1.0>>
         }) : (tensor<4x!quant.uniform<i8:f32, 1.0>>, tensor<!quant.uniform<i8:f32, 1.0>>) -> tensor<!quant.uniform<i16:f32, 1.0>>",
        &[("i16:f32", "i4:f32")],
    );
    messages.refused(
        "",
        "%0 = \"stablehlo.constant\"() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 1.0>>",
        &[("tensor<2xi8>", "tensor<2xui8>")],
    );
    messages.refused(
        "%x: tensor<2xf32>",
        "%0 = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 1.0>>",
        &[("i8:f32", "i8:f64")],
    );
}

pub(crate) fn bounds_of_dynamic_extents(messages: &mut Messages) {
    messages.section("Bounds of dynamic extents");
    messages.refused(
        "%x: tensor<?x2xf32, #stablehlo.bounds<4, ?>>",
        "%0 = stablehlo.negate %x : tensor<?x2xf32, #stablehlo.bounds<4, ?>>",
        &[("<4, ?>", "<4>"), ("<4, ?>", "<4, 2>")],
    );
}

pub(crate) fn constant_shapes(messages: &mut Messages) {
    messages.section("Constant shapes");
    let shape = "%s = stablehlo.constant dense<[2, 6]> : tensor<2xi64>\n";
    messages.refused(
        "%x: tensor<3x4xf32>",
        &format!("{shape}%0 = stablehlo.dynamic_reshape %x, %s : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<?x6xf32>"),
        &[("[2, 6]", "[2, 7]"), ("[2, 6]", "[3, 6]")],
    );
    messages.refused(
        "%x: tensor<1x6xf32>",
        &format!(
            "{shape}%0 = \"stablehlo.dynamic_broadcast_in_dim\"(%x, %s) <{{broadcast_dimensions = array<i64: 0, 1>, known_expanding_dimensions = array<i64: 0>}}> : (tensor<1x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>"
        ),
        &[
            ("[2, 6]", "[2, 5]"),
            ("[2, 6]", "[-1, 6]"),
            ("dimensions = array<i64: 0>", "dimensions = array<i64: 0, 0>"),
            ("dimensions = array<i64: 0>", "dimensions = array<i64: 2>"),
        ],
    );
    messages.refused(
        "%x: tensor<4xf32>, %v: tensor<f32>",
        "%p = stablehlo.constant dense<1> : tensor<1xi32>
         %0 = stablehlo.dynamic_pad %x, %v, %p, %p, %p : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<9xf32>",
        &[("dense<1>", "dense<-1>"), ("tensor<9xf32>", "tensor<8xf32>")],
    );
    messages.refused(
        "",
        &format!("{shape}%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<2x?xi32>"),
        &[("tensor<2x?xi32>", "tensor<3x?xi32>")],
    );
}

pub(crate) fn custom_calls(messages: &mut Messages) {
    messages.section("Custom calls");
    messages.refused(
        "%x: tensor<2x3xf32>",
        "%0 = \"stablehlo.custom_call\"(%x) <{call_target_name = \"f\", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}> : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        &[
            ("dense<[0, 1]>", "dense<[0, 2]>"),
            ("[dense<[0, 1]> : tensor<2xindex>]", "[]"),
            (", result_layouts = [dense<[1, 0]> : tensor<2xindex>]", ""),
        ],
    );
    messages.refused(
        "%x: tuple<tensor<2xf32>, tensor<3xf32>>",
        "%0 = \"stablehlo.custom_call\"(%x) <{call_target_name = \"f\", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = [1]>]}> : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<3xf32>",
        &[
            ("operand_index = 0", "operand_index = 1"),
            ("operand_tuple_indices = [1]", "operand_tuple_indices = [2]"),
            ("output_tuple_indices = []", "output_tuple_indices = [4]"),
            ("operand_tuple_indices = [1]", "operand_tuple_indices = [0]"),
        ],
    );
    messages.refused(
        "",
        "stablehlo.custom_call @f() {api_version = 4 : i32, backend_config = {a = 1 : i64}} : () -> ()",
        &[("{a = 1 : i64}", "\"a\""), ("4 : i32", "2 : i32")],
    );
    messages.refused(
        "%x: memref<2xf32>",
        "%0 = \"stablehlo.custom_call\"(%x) <{call_target_name = \"f\", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}> : (memref<2xf32>) -> memref<2xf32>",
        &[("output_operand_aliases", "my_aliases")],
    );
    messages.refused(
        "%x: tensor<2xf32>",
        "%0 = stablehlo.custom_call @Pin(%x) {api_version = 4 : i32} : (tensor<2xf32>) -> memref<2xf32>",
        &[("memref<2xf32>", "memref<3xf32>"), ("memref<2xf32>", "tensor<2xf32>")],
    );
}

pub(crate) fn attributes(messages: &mut Messages) {
    messages.section("Attributes");
    messages.refused(
        "%x: tensor<2xf32>",
        "%0 = stablehlo.tanh %x {result_accuracy = #stablehlo.result_accuracy<atol = 0.5, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2xf32>",
        &[("TOLERANCE", "HIGHEST"), ("0.5", "-0.5")],
    );
    messages.refused(
        "%x: tensor<2x2xf32>",
        "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 6, allow_imprecise_accumulation = false> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
        &[
            ("operations = 6", "operations = 5"),
            ("operations = 6", "operations = 0"),
            ("accumulation_type = f32", "accumulation_type = f64"),
            (", algorithm", ", precision = [HIGH, HIGH], algorithm"),
        ],
    );
}

#[test]
fn composite_names() {
    for (name, good) in
        [("a.b", true), ("a_1.b.c$", true), ("a", false), (".a", false), ("a.", false), ("1.a", false), ("a.%", false)]
    {
        let text = format!(
            "func.func @f() {{ return }}\nfunc.func public @main() {{ stablehlo.composite \"{name}\" {{decomposition = @f}} : () -> ()\n return }}"
        );
        assert_eq!(stablehlo::parse(text, stablehlo::VerifyLevel::FULL).is_ok(), good, "{name}");
    }
}

pub(crate) fn channels_maps_and_slices(messages: &mut Messages) {
    messages.section("Channels maps and slices");
    let send = "%0 = \"stablehlo.send\"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token";
    messages.refused("%x: tensor<2xf32>, %t: !stablehlo.token", send, &[("type = 1", "type = 2")]);
    messages.refused(
        "%t: !stablehlo.token",
        "%0:2 = \"stablehlo.infeed\"(%t) <{infeed_config = \"\", layout = [[0]]}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)",
        &[
            ("[[0]]", "[[0], [0]]"),
            ("[[0]]", "[0]"),
            ("-> (tensor<2xf32>,", "-> (!stablehlo.token,"),
        ],
    );
    messages.refused(
        "%x: tensor<2x2xf32>",
        "%0 = \"stablehlo.map\"(%x) <{dimensions = array<i64: 0, 1>}> ({ ^bb0(%a: tensor<f32>): stablehlo.return %a : tensor<f32> }) : (tensor<2x2xf32>) -> tensor<2x2xf32>",
        &[("0, 1", "1, 0")],
    );
    messages.refused(
        "%x: tensor<2x2xf32>, %i: tensor<i32>, %j: tensor<i32>",
        "%0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [1, 1] : (tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>",
        &[("%j: tensor<i32>", "%j: tensor<i64>")],
    );
}

pub(crate) fn scans_and_ragged_products(messages: &mut Messages) {
    messages.section("Scans and ragged products");
    messages.refused(
        "%x: tensor<4x3xf32>, %c: tensor<3xf32>",
        "%0:2 = chlo.scan(%x) inits (%c) dimension = 0 attributes {scan_dim_size = 4 : i64} {
         ^bb0(%i: tensor<3xf32>, %r: tensor<3xf32>):
           %1 = stablehlo.add %i, %r : tensor<3xf32>
           stablehlo.return %1, %1 : tensor<3xf32>, tensor<3xf32>
         } : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)",
        &[
            ("scan_dim_size = 4", "scan_dim_size = 5"),
            ("dimension = 0", "dimension = 2"),
            ("-> (tensor<4x3xf32>", "-> (tensor<4x2xf32>"),
            ("dimension = 0", "dimension = 1"),
        ],
    );
    messages.refused(
        "%x: tensor<11x5xf32>, %y: tensor<3x5x7xf32>, %g: tensor<3xi64>",
        "%0 = \"chlo.ragged_dot\"(%x, %y, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<11x5xf32>, tensor<3x5x7xf32>, tensor<3xi64>) -> tensor<11x7xf32>",
        &[
            ("tensor<3xi64>", "tensor<2xi64>"),
            ("tensor<3xi64>", "tensor<2x3xi64>"),
            ("ragged_dimensions = [0]", "ragged_dimensions = [0, 1]"),
            ("ragged_dimensions = [0]", "ragged_dimensions = [1]"),
            ("group_dimensions = [0]", "group_dimensions = [1]"),
            ("tensor<3x5x7xf32>", "tensor<3x4x7xf32>"),
            ("tensor<11x7xf32>", "tensor<11x6xf32>"),
        ],
    );
    messages.refused(
        "%x: tensor<4xf32>",
        "%0:2 = chlo.top_k(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)",
        &[("k = 2", "k = 5")],
    );
    messages.refused(
        "%x: tensor<4xi8>",
        "%0 = chlo.mulhi %x, %x : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>",
        &[("xi8", "xf32")],
    );
}

pub(crate) fn asynchronous_ops(messages: &mut Messages) {
    messages.section("Asynchronous ops");
    messages.refused(
        "%x: tensor<4xf32>",
        "%0 = \"stablehlo.async_start\"(%x) ({
         ^bb0(%a: tensor<4xf32>):
           %2 = \"stablehlo.collective_permute\"(%a) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
           stablehlo.return %2 : tensor<4xf32>
         }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
         %1 = \"stablehlo.async_done\"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>",
        &[
            ("^bb0(%a: tensor<4xf32>)", "^bb0(%a: tensor<4xf32>, %b: tensor<f32>)"),
            ("future<tensor<4xf32>>", "future<tensor<4xi32>>"),
            ("(!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>", "(!stablehlo.future<tensor<4xf32>>) -> tensor<4xi32>"),
            ("stablehlo.return %2", "%3 = stablehlo.negate %2 : tensor<4xf32>\nstablehlo.return %3"),
        ],
    );
    assert!(
        stablehlo::parse("func.func private @f() -> !stablehlo.future<f32>", stablehlo::VerifyLevel::FULL).is_err()
    );
    assert!(stablehlo::parse("func.func private @f() -> !stablehlo.nothing", stablehlo::VerifyLevel::FULL).is_err());
}

#[test]
fn module_attributes() {
    for (text, good) in [
        ("#stablehlo.dot<lhs_contracting_dimensions = [1]>", true),
        ("#stablehlo.dot<lhs_contracting_dimensions = [1], lhs_contracting_dimensions = [1]>", false),
        ("#stablehlo.dot<foo = [1]>", false),
        ("#stablehlo.scatter<>", true),
        ("#stablehlo.conv<[b, f, 0]x[0, i, o]->[b, f, 0]>", true),
        ("#stablehlo.conv<[b, c, 0]x[0, i, o]->[b, f, 0]>", false),
    ] {
        assert_eq!(
            stablehlo::parse(format!("module attributes {{a.b = {text}}} {{}}"), stablehlo::VerifyLevel::FULL).is_ok(),
            good,
            "{text}"
        );
    }
}

#[test]
fn every_op() {
    // All ops except the last are valid. They have the same kind and type as the last op, but the verifier must still
    // check the last op.
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.exponential %x : tensor<4xf32>
  %1 = stablehlo.exponential %0 : tensor<4xf32>
  %2 = \"stablehlo.exponential\"(%1) <{result_accuracy = #stablehlo.result_accuracy<atol = -1.0, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}";
    let error = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect_err("a negative tolerance");
    assert_eq!(error.op(), Some("stablehlo.exponential"), "{error}");
    let two = "func.func @main(%x: tensor<4xi1>, %y: tensor<4xi32>) -> tensor<4xi1> {
  %0 = stablehlo.add %x, %x : tensor<4xi1>
  %1 = stablehlo.add %y, %y : tensor<4xi32>
  %2 = stablehlo.subtract %y, %y : tensor<4xi32>
  %3 = stablehlo.subtract %x, %x : tensor<4xi1>
  return %3 : tensor<4xi1>
}";
    let error = stablehlo::parse(two, stablehlo::VerifyLevel::FULL).expect_err("a difference of booleans");
    assert!(error.op() == Some("stablehlo.subtract"), "{error}");
}
