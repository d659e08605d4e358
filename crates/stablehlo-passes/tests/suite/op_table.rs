//! Every op on every element type, on constants and on arguments, before and after simplification.

use stablehlo_passes::fold_constants;

use crate::oracle::{applied, parsed, same_values};
use crate::values::simplified;

/// The element types, and their special numbers.
const TYPES: [(&str, &str); 17] = [
    ("i1", "true, false, true, false, true, true"),
    ("i2", "0, 1, -1, -2, 1, 0"),
    ("i4", "0, 1, -1, 7, -8, 3"),
    ("i8", "0, 1, -1, 127, -128, 5"),
    ("i16", "0, 1, -1, 32767, -32768, 15"),
    ("i32", "0, 1, -1, 2147483647, -2147483648, 31"),
    ("i64", "0, 1, -1, 9223372036854775807, -9223372036854775808, 63"),
    ("ui2", "0, 1, 2, 3, 1, 0"),
    ("ui4", "0, 1, 15, 8, 3, 7"),
    ("ui8", "0, 1, 255, 128, 7, 8"),
    ("ui16", "0, 1, 65535, 32768, 15, 16"),
    ("ui32", "0, 1, 4294967295, 2147483648, 31, 32"),
    ("ui64", "0, 1, 18446744073709551615, 9223372036854775808, 63, 64"),
    ("bf16", "0.0, -0.0, 1.0, -2.5, 3.0e38, 1.0e-40"),
    ("f16", "0.0, -0.0, 1.0, -2.5, 65504.0, 6.0e-8"),
    ("f32", "0.0, -0.0, 1.5, 0x7F800000, 0xFF800000, 0x7FC00000"),
    ("f64", "0.0, -0.0, 1.5, 0x7FF0000000000000, 2.5, 0x7FF8000000000000"),
];

const UNARY: [&str; 27] = [
    "abs",
    "cbrt",
    "ceil",
    "count_leading_zeros",
    "cosine",
    "exp2",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log2",
    "log_plus_one",
    "logistic",
    "negate",
    "not",
    "popcnt",
    "real",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
];

const BINARY: [&str; 15] = [
    "add",
    "and",
    "atan2",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
    "xor",
];

/// The ops on vectors `%x` and `%y` of six elements and a scalar `%s`, and the type of the result.
pub(crate) fn ops(element: &str) -> Vec<(String, String)> {
    let t = format!("tensor<6x{element}>");
    let mut ops = Vec::new();
    for op in UNARY {
        let result = if op == "is_finite" { "tensor<6xi1>" } else { &t };
        ops.push((format!("%0 = stablehlo.{op} %x : ({t}) -> {result}"), result.to_owned()));
    }
    for op in BINARY {
        ops.push((format!("%0 = stablehlo.{op} %x, %y : {t}"), t.clone()));
        ops.push((format!("%0 = stablehlo.{op} %x, %x : {t}"), t.clone()));
    }
    for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
        for order in ["", ", TOTALORDER"] {
            let op = format!("%0 = stablehlo.compare {direction}, %x, %y{order} : ({t}, {t}) -> tensor<6xi1>");
            ops.push((op, "tensor<6xi1>".to_owned()));
        }
    }
    for (to, _) in TYPES {
        let result = format!("tensor<6x{to}>");
        ops.push((format!("%0 = stablehlo.convert %x : ({t}) -> {result}"), result.clone()));
        ops.push((
            format!(
                "%1 = stablehlo.convert %x : ({t}) -> {result}
                 %0 = stablehlo.convert %1 : ({result}) -> {t}"
            ),
            t.clone(),
        ));
    }
    let m = format!("tensor<2x3x{element}>");
    ops.push((format!("%0 = stablehlo.clamp %s, %x, %y : (tensor<{element}>, {t}, {t}) -> {t}"), t.clone()));
    for (op, result) in [
        (format!("%0 = stablehlo.reshape %x : ({t}) -> {m}"), m.clone()),
        (format!("%0 = stablehlo.reverse %x, dims = [0] : {t}"), t.clone()),
        (format!("%0 = stablehlo.slice %x [1:6:2] : ({t}) -> tensor<3x{element}>"), format!("tensor<3x{element}>")),
        (
            format!("%0 = stablehlo.broadcast_in_dim %x, dims = [1] : ({t}) -> tensor<3x6x{element}>"),
            format!("tensor<3x6x{element}>"),
        ),
        (
            format!("%0 = stablehlo.concatenate %x, %y, %x, dim = 0 : ({t}, {t}, {t}) -> tensor<18x{element}>"),
            format!("tensor<18x{element}>"),
        ),
        (
            format!(
                "%0 = stablehlo.pad %x, %s, low = [-1], high = [2], interior = [1] : ({t}, tensor<{element}>) -> tensor<12x{element}>"
            ),
            format!("tensor<12x{element}>"),
        ),
        (
            format!(
                "%1 = stablehlo.reshape %x : ({t}) -> {m}
                 %0 = stablehlo.transpose %1, dims = [1, 0] : ({m}) -> tensor<3x2x{element}>"
            ),
            format!("tensor<3x2x{element}>"),
        ),
        (
            format!(
                "%c = stablehlo.constant dense<4> : tensor<ui8>
                 %1 = stablehlo.dynamic_slice %x, %c, sizes = [3] : ({t}, tensor<ui8>) -> tensor<3x{element}>
                 %0 = stablehlo.dynamic_update_slice %y, %1, %c : ({t}, tensor<3x{element}>, tensor<ui8>) -> {t}"
            ),
            t.clone(),
        ),
        (
            format!(
                "%p = stablehlo.constant dense<[true, false, true, true, false, false]> : tensor<6xi1>
                 %0 = stablehlo.select %p, %x, %y : tensor<6xi1>, {t}"
            ),
            t.clone(),
        ),
        (format!("%1 = stablehlo.iota dim = 0 : {t}\n%0 = stablehlo.maximum %1, %x : {t}"), t.clone()),
    ] {
        ops.push((op, result));
    }
    ops
}

#[test]
fn constants_and_arguments() {
    let (mut programs, mut folded) = (0, 0);
    for (element, numbers) in TYPES {
        let t = format!("tensor<6x{element}>");
        let mut turned: Vec<&str> = numbers.split(", ").collect();
        turned.rotate_left(2);
        for (ops, result) in ops(element) {
            // Each variant of the operands: arguments, constants of different elements, and constants of equal
            // elements.
            let dense = format!("dense<[{numbers}]>|dense<[{}]>", turned.join(", "));
            let equal =
                |at: usize| format!("dense<{}>|dense<{}>", numbers.split(", ").nth(at).expect("six"), turned[at]);
            for constants in [String::new(), dense, equal(1), equal(2), equal(3), equal(4)] {
                let defined = match constants.split_once('|') {
                    Some((x, y)) => format!(
                        "%x = stablehlo.constant {x} : {t}
                         %y = stablehlo.constant {y} : {t}
                         %s = stablehlo.constant dense<{}> : tensor<{element}>",
                        turned[0]
                    ),
                    None => String::new(),
                };
                let arguments =
                    if defined.is_empty() { format!("%x: {t}, %y: {t}, %s: tensor<{element}>") } else { String::new() };
                let text =
                    format!("func.func @main({arguments}) -> {result} {{\n{defined}\n{ops}\nreturn %0 : {result}\n}}");
                // The specification does not allow every op on every type, and the device does not support all.
                let Ok(before) = stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL) else { continue };
                if stablehlo_cpu::compile(&before).is_err() {
                    continue;
                }
                programs += 1;
                if let Some(after) = applied(&text, &before, simplified) {
                    same_values(&text, &before, &after, &[], 0.0);
                    folded += usize::from(!constants.is_empty());
                }
            }
        }
    }
    assert!(programs > 5000 && folded > 3000, "{programs} programs, of which {folded} were folded");
}

/// Exact results that the device computes in the same way could be wrong in the same way, so some are stated here.
#[test]
fn known_results() {
    for (ops, wanted) in [
        (
            "%0 = stablehlo.constant dense<-128> : tensor<i8>\n%1 = stablehlo.convert %0 : (tensor<i8>) -> tensor<ui8>",
            "dense<128> : tensor<ui8>",
        ),
        (
            "%0 = stablehlo.constant dense<300> : tensor<i32>\n%1 = stablehlo.convert %0 : (tensor<i32>) -> tensor<i4>",
            "dense<-4> : tensor<i4>",
        ),
        (
            "%0 = stablehlo.constant dense<2> : tensor<i32>\n%1 = stablehlo.convert %0 : (tensor<i32>) -> tensor<i1>",
            "dense<true> : tensor<i1>",
        ),
        (
            "%0 = stablehlo.constant dense<-0.0> : tensor<f32>\n%1 = stablehlo.convert %0 : (tensor<f32>) -> tensor<i1>",
            "dense<false> : tensor<i1>",
        ),
        (
            "%0 = stablehlo.constant dense<9007199254740993> : tensor<i64>\n%1 = stablehlo.convert %0 : (tensor<i64>) -> tensor<f64>",
            "dense<9007199254740992.0> : tensor<f64>",
        ),
        (
            "%0 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>\n%1 = stablehlo.convert %0 : (tensor<ui64>) -> tensor<f32>",
            "dense<0x5F800000> : tensor<f32>",
        ),
        (
            "%0 = stablehlo.constant dense<-2.5> : tensor<f32>\n%1 = stablehlo.round_nearest_even %0 : tensor<f32>",
            "dense<-2.0> : tensor<f32>",
        ),
        (
            "%0 = stablehlo.constant dense<-2.5> : tensor<f32>\n%1 = stablehlo.round_nearest_afz %0 : tensor<f32>",
            "dense<-3.0> : tensor<f32>",
        ),
        (
            "%0 = stablehlo.constant dense<-2.5> : tensor<f32>\n%1 = stablehlo.convert %0 : (tensor<f32>) -> tensor<i8>",
            "dense<-2> : tensor<i8>",
        ),
        (
            "%0 = stablehlo.constant dense<128> : tensor<ui8>\n%1 = stablehlo.shift_right_arithmetic %0, %0 : tensor<ui8>",
            "",
        ),
    ] {
        let ty = ops.rsplit(['>', ' ']).find(|part| part.contains('<')).map_or("", |part| part);
        let ty = format!("{ty}>");
        let before = parsed(&format!("func.func @main() -> {ty} {{\n{ops}\nreturn %1 : {ty}\n}}"));
        let after = fold_constants(&before).expect("a valid program").map(|after| after.to_string());
        match after {
            Some(after) => assert!(!wanted.is_empty() && after.contains(&parsed_constant(wanted)), "{after}"),
            None => assert!(wanted.is_empty(), "{ops}"),
        }
    }
}

/// Returns a constant as the printer writes it.
fn parsed_constant(text: &str) -> String {
    let ty = text.rsplit(" : ").next().expect("a type");
    let module = parsed(&format!("func.func @main() -> {ty} {{\n%0 = stablehlo.constant {text}\nreturn %0 : {ty}\n}}"));
    let text = module.to_string();
    let line = text.lines().find(|line| line.contains("constant")).expect("a constant");
    line.split(" = ").nth(1).expect("a value").to_owned()
}
