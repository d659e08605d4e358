//! Generates `docs/ops.md`, a table of the element types that the engine supports for each op. Compiles a program for
//! each pair of op and type.
//!
//! The test fails if the file is out of date. Set `STABLEHLO_CPU_WRITE_OP_TABLE=1` to update the file.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use stablehlo_cpu::{compile, supports};

/// Element types, grouped by column.
const GROUPS: &[(&str, &[&str])] = &[
    ("bool", &["i1"]),
    ("i2, i4", &["i2", "i4"]),
    ("i8 .. i64", &["i8", "i16", "i32", "i64"]),
    ("ui2, ui4", &["ui2", "ui4"]),
    ("ui8 .. ui64", &["ui8", "ui16", "ui32", "ui64"]),
    (
        "f4, f6, f8",
        &[
            "f4E2M1FN",
            "f6E2M3FN",
            "f6E3M2FN",
            "f8E3M4",
            "f8E4M3",
            "f8E4M3FN",
            "f8E4M3FNUZ",
            "f8E4M3B11FNUZ",
            "f8E5M2",
            "f8E5M2FNUZ",
            "f8E8M0FNU",
        ],
    ),
    ("bf16, f16", &["bf16", "f16"]),
    ("f32", &["f32"]),
    ("f64", &["f64"]),
    ("complex", &["complex<f32>", "complex<f64>"]),
];

/// Returns the kind of an element type in the specification: Bool, Integer, Float or Complex.
fn kind(group: &str) -> char {
    match group {
        "bool" => 'B',
        "complex" => 'C',
        _ if group.contains('i') => 'I',
        _ => 'F',
    }
}

/// Returns the name of each op, the kinds of types that the specification allows for the op, and the body of a program
/// with the op on elements of type `t`.
fn programs() -> Vec<(&'static str, &'static str, String)> {
    let mut all = Vec::new();
    // T is a vector of four elements, S a scalar, M a matrix, and P a vector of predicates.
    let mut op = |name: &'static str, kinds: &'static str, body: &str| {
        all.push((name, kinds, body.to_owned()));
    };
    for (name, kinds) in [
        ("abs", "IFC"),
        ("cbrt", "FC"),
        ("ceil", "F"),
        ("cosine", "FC"),
        ("count_leading_zeros", "I"),
        ("exp2", "FC"),
        ("exponential", "FC"),
        ("exponential_minus_one", "FC"),
        ("floor", "F"),
        ("imag", "FC"),
        ("is_finite", "F"),
        ("log", "FC"),
        ("log2", "FC"),
        ("log_plus_one", "FC"),
        ("logistic", "FC"),
        ("negate", "IFC"),
        ("not", "BI"),
        ("popcnt", "I"),
        ("real", "FC"),
        ("round_nearest_afz", "F"),
        ("round_nearest_even", "F"),
        ("rsqrt", "FC"),
        ("sign", "IFC"),
        ("sine", "FC"),
        ("sqrt", "FC"),
        ("tan", "FC"),
        ("tanh", "FC"),
    ] {
        let result = match name {
            "is_finite" => "P",
            "abs" | "imag" | "real" => "R",
            _ => "T",
        };
        op(name, kinds, &format!("%0 = stablehlo.{name} %t : (T) -> {result}"));
    }
    for (name, kinds) in [
        ("add", "BIFC"),
        ("and", "BI"),
        ("atan2", "FC"),
        ("divide", "IFC"),
        ("maximum", "BIFC"),
        ("minimum", "BIFC"),
        ("multiply", "BIFC"),
        ("or", "BI"),
        ("power", "IFC"),
        // The specification does not define `remainder` for complex numbers.
        ("remainder", "IF"),
        ("shift_left", "I"),
        ("shift_right_arithmetic", "I"),
        ("shift_right_logical", "I"),
        ("subtract", "IFC"),
        ("xor", "BI"),
    ] {
        op(name, kinds, &format!("%0 = stablehlo.{name} %t, %t : T"));
    }
    op("bitcast_convert", "BIFC", "%0 = stablehlo.bitcast_convert %t : (T) -> T");
    op("broadcast_in_dim", "BIFC", "%0 = stablehlo.broadcast_in_dim %s, dims = [] : (S) -> T");
    op("clamp", "BIFC", "%0 = stablehlo.clamp %s, %t, %s : (S, T, S) -> T");
    op("compare", "BIFC", "%0 = stablehlo.compare EQ, %t, %t : (T, T) -> P");
    op("concatenate", "BIFC", "%0 = stablehlo.concatenate %t, dim = 0 : (T) -> T");
    op("convert from i32", "BIFC", "%0 = stablehlo.convert %i : (tensor<4xi32>) -> T");
    op("convert to f32", "BIFC", "%0 = stablehlo.convert %t : (T) -> tensor<4xf32>");
    op(
        "convolution",
        "BIFC",
        "%k = stablehlo.reshape %m : (M) -> tensor<2x2x1xt>\n%x = stablehlo.reshape %t : (T) -> tensor<1x4x1xt>\n\
         %y = stablehlo.concatenate %x, %x, dim = 2 : (tensor<1x4x1xt>, tensor<1x4x1xt>) -> tensor<1x4x2xt>\n\
         %0 = stablehlo.convolution(%y, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} \
         {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x2xt>, tensor<2x2x1xt>) -> tensor<1x3x1xt>",
    );
    op("cholesky", "FC", "%0 = stablehlo.cholesky %m, lower = true : M");
    op("dot_general", "BIFC", "%0 = stablehlo.dot_general %m, %m, contracting_dims = [1] x [0] : (M, M) -> M");
    op("dynamic_slice", "BIFC", "%0 = stablehlo.dynamic_slice %t, %j, sizes = [4] : (T, tensor<i32>) -> T");
    op("dynamic_update_slice", "BIFC", "%0 = stablehlo.dynamic_update_slice %t, %t, %j : (T, T, tensor<i32>) -> T");
    op("fft", "C", "%0 = stablehlo.fft %t, type = FFT, length = [4] : (T) -> T");
    op("fma", "F", "%0 = stablehlo.fma %t, %t, %t : T");
    op(
        "gather",
        "BIFC",
        "%n = stablehlo.reshape %i : (tensor<4xi32>) -> tensor<4x1xi32>\n\
         %0 = \"stablehlo.gather\"(%t, %n) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], \
         start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (T, tensor<4x1xi32>) -> T",
    );
    op("iota", "IFC", "%0 = stablehlo.iota dim = 0 : T");
    op(
        "map",
        "BIFC",
        "%0 = \"stablehlo.map\"(%t) <{dimensions = array<i64: 0>}> ({\n^bb0(%a: S):\n\"stablehlo.return\"(%a) : (S) -> ()\n}) : (T) -> T",
    );
    op("pad", "BIFC", "%0 = stablehlo.pad %t, %s, low = [1], high = [0], interior = [0] : (T, S) -> tensor<5xt>");
    let add = "({\n^bb0(%a: S, %b: S):\n%c = stablehlo.add %a, %b : S\n\"stablehlo.return\"(%c) : (S) -> ()\n})";
    op(
        "reduce (add)",
        "BIFC",
        &format!("%0 = \"stablehlo.reduce\"(%t, %s) <{{dimensions = array<i64: 0>}}> {add} : (T, S) -> S"),
    );
    op(
        "reduce (another body)",
        "BIFC",
        "%0 = \"stablehlo.reduce\"(%t, %s) <{dimensions = array<i64: 0>}> ({\n^bb0(%a: S, %b: S):\n\
         %q = stablehlo.compare NE, %a, %b : (S, S) -> tensor<i1>\n%c = stablehlo.select %q, %a, %b : tensor<i1>, S\n\
         \"stablehlo.return\"(%c) : (S) -> ()\n}) : (T, S) -> S",
    );
    op("reduce_precision", "F", "%0 = stablehlo.reduce_precision %t, format = e5m2 : T");
    op(
        "reduce_window",
        "BIFC",
        &format!(
            "%0 = \"stablehlo.reduce_window\"(%t, %s) <{{window_dimensions = array<i64: 2>}}> {add} : (T, S) -> tensor<3xt>"
        ),
    );
    op("reshape", "BIFC", "%0 = stablehlo.reshape %t : (T) -> M");
    op("reverse", "BIFC", "%0 = stablehlo.reverse %t, dims = [0] : T");
    op(
        "rng (uniform)",
        "BIF",
        "%n = stablehlo.constant dense<[4]> : tensor<1xi64>\n\
         %0 = stablehlo.rng %s, %s, %n, distribution = UNIFORM : (S, S, tensor<1xi64>) -> T",
    );
    op(
        "rng_bit_generator",
        "I",
        "%0, %1 = stablehlo.rng_bit_generator %u, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, T)",
    );
    op(
        "scatter",
        "BIFC",
        &format!(
            "%n = stablehlo.reshape %i : (tensor<4xi32>) -> tensor<4x1xi32>\n\
             %0 = \"stablehlo.scatter\"(%t, %n, %t) <{{scatter_dimension_numbers = #stablehlo.scatter<\
             inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {add} : \
             (T, tensor<4x1xi32>, T) -> T"
        ),
    );
    op("select", "BIFC", "%0 = stablehlo.select %p, %t, %t : P, T");
    op(
        "select_and_scatter",
        "BIFC",
        &format!(
            "%x = stablehlo.slice %t [0:2] : (T) -> tensor<2xt>\n\
             %0 = \"stablehlo.select_and_scatter\"(%t, %x, %s) <{{window_dimensions = array<i64: 2>, window_strides = \
             array<i64: 2>}}> ({{\n^bb0(%a: S, %b: S):\n%c = stablehlo.compare NE, %a, %b : (S, S) -> tensor<i1>\n\
             \"stablehlo.return\"(%c) : (tensor<i1>) -> ()\n}}, {add_body}) : (T, tensor<2xt>, S) -> T",
            add_body = add.trim_start_matches('(').trim_end_matches(')'),
        ),
    );
    op("slice", "BIFC", "%0 = stablehlo.slice %t [0:4:2] : (T) -> tensor<2xt>");
    op(
        "sort",
        "BIFC",
        "%0 = \"stablehlo.sort\"(%t) <{dimension = 0 : i64}> ({\n^bb0(%a: S, %b: S):\n\
         %c = stablehlo.compare LT, %a, %b : (S, S) -> tensor<i1>\n\"stablehlo.return\"(%c) : (tensor<i1>) -> ()\n}) : (T) -> T",
    );
    op("transpose", "BIFC", "%0 = stablehlo.transpose %m, dims = [1, 0] : (M) -> M");
    op(
        "triangular_solve",
        "FC",
        "%0 = \"stablehlo.triangular_solve\"(%m, %m) <{left_side = true, lower = true, transpose_a = \
         #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (M, M) -> M",
    );
    for name in ["batch_norm_inference", "batch_norm_training", "batch_norm_grad"] {
        let (operands, types, results) = match name {
            "batch_norm_inference" => ("%m, %f, %f, %f, %f", "M, F, F, F, F", "M"),
            "batch_norm_training" => ("%m, %f, %f", "M, F, F", "(M, F, F)"),
            _ => ("%m, %f, %f, %f, %m", "M, F, F, F, M", "(M, F, F)"),
        };
        let names = if name == "batch_norm_inference" { "%0" } else { "%0:3" };
        op(
            name,
            "F",
            &format!(
                "%f = stablehlo.slice %t [0:2] : (T) -> F\n{names} = \"stablehlo.{name}\"({operands}) \
                 <{{epsilon = 0.001 : f32, feature_index = 1 : i64}}> : ({types}) -> {results}"
            ),
        );
    }
    op("einsum", "BIFC", "%0 = stablehlo.einsum %m, %m, config = \"ab,bc->ac\" : (M, M) -> M");
    op(
        "torch_index_select",
        "BIFC",
        "%0 = \"stablehlo.torch_index_select\"(%t, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (T, tensor<4xi32>) -> T",
    );
    for (name, kinds, body) in [
        ("chlo.erf, erf_inv, erfc", "F", "%0 = chlo.erf %t : T -> T"),
        ("chlo.lgamma, digamma, bessel_i1e", "F", "%0 = chlo.lgamma %t : T -> T"),
        ("chlo.asin, asinh, acos, acosh, atan, atanh, cosh, sinh, tan", "FC", "%0 = chlo.asin %t : T -> T"),
        ("chlo.polygamma, zeta", "F", "%0 = chlo.zeta %t, %t : T, T -> T"),
        ("chlo.next_after", "F", "%0 = chlo.next_after %t, %t : T, T -> T"),
        ("chlo.mulhi", "I", "%0 = \"chlo.mulhi\"(%t, %t) : (T, T) -> T"),
        ("chlo.square", "IFC", "%0 = chlo.square %t : T -> T"),
        ("chlo.top_k", "IF", "%0:2 = chlo.top_k(%t, k = 2) : T -> (F, tensor<2xi32>)"),
    ] {
        op(name, kinds, body);
    }
    all.push(("custom_call @Qr", "FC", "%0:2 = stablehlo.custom_call @Qr(%m) : (M) -> (M, F)".to_owned()));
    all.push((
        "custom_call @mhlo.topk",
        "BIF",
        "%0:2 = stablehlo.custom_call @mhlo.topk(%t) {mhlo.attributes = {k = 2 : i64, largest = true}} : (T) -> (F, tensor<2xi32>)"
            .to_owned(),
    ));
    all.push(("custom_call @mhlo.erf", "F", "%0 = stablehlo.custom_call @mhlo.erf(%t) : (T) -> T".to_owned()));
    all
}

/// Returns whether the engine compiles the program for elements of type `t`. A syntax error for a common type means
/// that the template is broken.
fn compiles(name: &str, body: &str, t: &str) -> bool {
    let real = t.strip_prefix("complex<").and_then(|part| part.strip_suffix('>')).unwrap_or(t);
    let mut text = String::new();
    // In a body, types are single capital letters, or `t` directly before `>`.
    let names: HashMap<char, String> = [
        ('T', format!("tensor<4x{t}>")),
        ('R', format!("tensor<4x{real}>")),
        ('P', "tensor<4xi1>".to_owned()),
        ('S', format!("tensor<{t}>")),
        ('M', format!("tensor<2x2x{t}>")),
        ('F', format!("tensor<2x{t}>")),
    ]
    .into();
    let chars: Vec<char> = body.chars().collect();
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map_or(' ', |i| chars[i]);
        let after = chars.get(i + 1).copied().unwrap_or('\n');
        let alone = matches!(before, ' ' | '(' | ',') && matches!(after, ' ' | ')' | ',' | '\n');
        match names.get(&c) {
            Some(name) if alone => text += name,
            _ if c == 't' && before == 'x' && after == '>' => text += t,
            _ => text.push(c),
        }
    }
    let program = format!(
        "func.func @main(%t: tensor<4x{t}>, %s: tensor<{t}>, %m: tensor<2x2x{t}>, %p: tensor<4xi1>, %i: tensor<4xi32>, \
         %j: tensor<i32>, %u: tensor<2xui64>) -> tensor<4xi1> {{\n{text}\nreturn %p : tensor<4xi1>\n}}"
    );
    match stablehlo::parse(program.clone(), stablehlo::VerifyLevel::FULL) {
        Ok(module) => {
            let compiled = compile(&module).is_ok();
            let main = &module.funcs[0];
            let are_supported = main.body.ops.iter().all(|op| supports(&module, main, op).is_ok());
            assert_eq!(are_supported, compiled, "{name} {t}: `supports` and `compile` disagree");
            compiled
        }
        // The parser also enforces the specification's rules.
        Err(error) => {
            assert!(
                t != "f32" && t != "i32" && t != "complex<f32>" && t != "i1"
                    || error.kind() != stablehlo::ErrorKind::Syntax,
                "{name} {t}: {error}\n{program}"
            );
            false
        }
    }
}

fn table() -> String {
    let mut out = String::from(
        "# Ops and element types of the CPU device\n\n\
         Generated by `cpu/stablehlo-cpu/tests/engine/op_table.rs`, which compiles a program for every pair. Do not edit.\n\n\
         `yes` means that the op runs on all types of the group. `-` means that the op does not accept the type. `not`\n\
         is followed by the types that the specification defines and this device does not support; `no` means all of them.\n\n\
         Integers narrower than a byte are computed in bytes and wrapped. Floats of at most one byte are computed in `f32`\n\
         and rounded. Sums and contractions of them, of `bf16` and of `f16` are accumulated in `f32`.\n\n| op |",
    );
    for (group, _) in GROUPS {
        write!(out, " {group} |").expect("writing to a string");
    }
    out += "\n|---|";
    out += &"---|".repeat(GROUPS.len());
    out.push('\n');
    for (name, kinds, body) in programs() {
        write!(out, "| {name} |").expect("writing to a string");
        for (group, types) in GROUPS {
            let missing: Vec<&str> = types.iter().copied().filter(|t| !compiles(name, &body, t)).collect();
            let cell = match (missing.len(), kinds.contains(kind(group))) {
                (0, _) => "yes".to_owned(),
                (_, false) => "-".to_owned(),
                (n, true) if n == types.len() => "no".to_owned(),
                _ => format!("not {}", missing.join(", ")),
            };
            write!(out, " {cell} |").expect("writing to a string");
        }
        out.push('\n');
    }
    out += "\n\
        These ops have no row because they compute no elements: `call`, `case`, `composite`, `constant`, `if`, `while`,\n\
        `optimization_barrier`, `tuple`, `get_tuple_element`, `create_token`, `after_all`. `dynamic_*`, `real_dynamic_slice` and\n\
        `set_dimension_size` run if their shape operands are constants or the result's type is known. An array of bounded size,\n\
        such as `tensor<?x2xf32, #stablehlo.bounds<10, ?>>`, may be an argument or a result of the program, of a function and of\n\
        control flow. Elementwise ops, `broadcast_in_dim`, `reshape`, `transpose`, `slice`, `pad`, `concatenate`, `reverse`,\n\
        `reduce`, `reduce_window`, `sort`, `dot_general`, `gather`, `scatter`, `dynamic_slice` and `dynamic_update_slice` accept\n\
        such arrays. `cholesky`, `triangular_solve` and `fft` accept them if only batch dimensions have a bound. Other ops are\n\
        errors that name the op, as are such arguments and results in a program that is split into several partitions. CHLO's\n\
        `conj`, `is_inf`, `constant`, `constant_like`, `ragged_dot`, `scan` and `broadcast_*` run, too.\n\n\
        The device implements the custom calls with a row, `ProductOfElementaryHouseholderReflectors`, `Eigh`,\n\
        `LuDecomposition`, `ApproxTopK`, `TopK`, `mhlo.` followed by the name of an inverse or hyperbolic function,\n\
        `Sharding` and the placement annotations. Other custom calls run handlers that the embedding program registers\n\
        (`stablehlo_cpu::custom_calls`).\n\n\
        On quantized tensors, every op that accepts them dequantizes its operands, computes, and quantizes its results,\n\
        as in the specification.\n\
        A collective between `async_start` and `async_done` runs at its start op. `infeed`, `outfeed`, `send` and `recv` are\n\
        rejected; the error names an alternative.\n";
    out
}

#[test]
fn up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ops.md");
    let table = table();
    if std::env::var_os("STABLEHLO_CPU_WRITE_OP_TABLE").is_some() {
        std::fs::write(&path, &table).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == table,
        "docs/ops.md is out of date; run STABLEHLO_CPU_WRITE_OP_TABLE=1 cargo test -p stablehlo-cpu op_table\n{table}"
    );
    // An empty table would also be consistent, so check one row.
    assert!(table.contains("| add | yes | yes | yes | yes | yes | yes | yes | yes | yes | yes |"), "{table}");
}
