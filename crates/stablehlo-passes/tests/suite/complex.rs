//! `expand_complex`, before and after, and its values.

use std::f32::consts::{FRAC_PI_2, FRAC_PI_4};

use stablehlo::ir::{Binary, Module, OpKind, Type, Unary};
use stablehlo_cpu::{DType, Tensor, compile};
use stablehlo_passes::expand_complex;

use crate::oracle::{applied, becomes, check as check_all, parsed, same_values};

fn pass(module: &Module) -> Option<Module> {
    expand_complex(module).expect("a valid program")
}

#[test]
fn parts_are_computed_separately() {
    becomes(
        pass,
        "func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
           %c = stablehlo.constant dense<(1.0, 2.0)> : tensor<4xcomplex<f32>>
           %0 = stablehlo.multiply %x, %c : tensor<4xcomplex<f32>>
           return %0 : tensor<4xcomplex<f32>>
         }",
        "func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
           %re = stablehlo.real %x : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
           %im = stablehlo.imag %x : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
           %one = stablehlo.constant dense<1.0> : tensor<4xf32>
           %two = stablehlo.constant dense<2.0> : tensor<4xf32>
           %0 = stablehlo.multiply %re, %one : tensor<4xf32>
           %1 = stablehlo.multiply %im, %two : tensor<4xf32>
           %2 = stablehlo.multiply %re, %two : tensor<4xf32>
           %3 = stablehlo.multiply %im, %one : tensor<4xf32>
           %4 = stablehlo.subtract %0, %1 : tensor<4xf32>
           %5 = stablehlo.add %2, %3 : tensor<4xf32>
           %6 = stablehlo.complex %4, %5 : tensor<4xcomplex<f32>>
           return %6 : tensor<4xcomplex<f32>>
         }",
    );
}

/// Replaces `C` by a complex type, `S` by a complex scalar, and `F` by the type of the parts.
fn program(ops: &str, result: &str, element: &str) -> Module {
    let part = element.trim_start_matches("complex<").trim_end_matches('>');
    let (c, s, f) = (format!("tensor<3x4x{element}>"), format!("tensor<{element}>"), format!("tensor<3x4x{part}>"));
    let text = format!(
        "func.func @main(%x: $C, %y: $C, %s: $S, %r: $F, %p: tensor<3x4xi1>, %q: tensor<i1>, %i: tensor<i32>) -> {result} {{
           {ops}
           return %0 : {result}
         }}
         func.func private @twice(%a: $C) -> $C {{
           %0 = stablehlo.add %a, %a : $C
           return %0 : $C
         }}"
    );
    parsed(&text.replace("$C", &c).replace("$S", &s).replace("$F", &f).replace("$E", element))
}

const OPS: [(&str, &str); 32] = [
    ("%0 = stablehlo.add %x, %y : $C", "$C"),
    ("%0 = stablehlo.subtract %x, %y : $C", "$C"),
    ("%0 = stablehlo.multiply %x, %y : $C", "$C"),
    ("%0 = stablehlo.divide %x, %y : $C", "$C"),
    ("%0 = stablehlo.negate %x : $C", "$C"),
    ("%0 = stablehlo.exponential %x : $C", "$C"),
    ("%0 = stablehlo.log %x : $C", "$C"),
    ("%0 = stablehlo.sqrt %x : $C", "$C"),
    ("%0 = stablehlo.sine %x : $C", "$C"),
    ("%0 = stablehlo.cosine %x : $C", "$C"),
    ("%0 = stablehlo.tanh %x : $C", "$C"),
    ("%1 = stablehlo.add %x, %y : $C\n%0 = stablehlo.abs %1 : ($C) -> $F", "$F"),
    ("%1 = stablehlo.add %x, %y : $C\n%0 = stablehlo.real %1 : ($C) -> $F", "$F"),
    ("%1 = stablehlo.add %x, %y : $C\n%0 = stablehlo.imag %1 : ($C) -> $F", "$F"),
    ("%1 = stablehlo.complex %r, %r : $C\n%0 = stablehlo.add %1, %x : $C", "$C"),
    ("%0 = stablehlo.convert %r : ($F) -> $C", "$C"),
    ("%1 = stablehlo.complex %r, %r : $C\n%0 = stablehlo.convert %1 : $C", "$C"),
    ("%0 = stablehlo.convert %x : ($C) -> $F", "$F"),
    ("%0 = stablehlo.compare EQ, %x, %x : ($C, $C) -> tensor<3x4xi1>", "tensor<3x4xi1>"),
    ("%0 = stablehlo.compare NE, %x, %y : ($C, $C) -> tensor<3x4xi1>", "tensor<3x4xi1>"),
    ("%0 = stablehlo.select %p, %x, %y : tensor<3x4xi1>, $C", "$C"),
    ("%1 = stablehlo.iota dim = 1 : $C\n%0 = stablehlo.add %1, %x : $C", "$C"),
    (
        "%1 = stablehlo.transpose %y, dims = [1, 0] : ($C) -> tensor<4x3x$E>
         %2 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : ($C, tensor<4x3x$E>) -> tensor<3x3x$E>
         %3 = stablehlo.slice %2 [0:3, 1:3] : (tensor<3x3x$E>) -> tensor<3x2x$E>
         %4 = stablehlo.pad %3, %s, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<3x2x$E>, $S) -> $C
         %5 = stablehlo.concatenate %4, %x, dim = 0 : ($C, $C) -> tensor<6x4x$E>
         %6 = stablehlo.dynamic_slice %5, %i, %i, sizes = [3, 4] : (tensor<6x4x$E>, tensor<i32>, tensor<i32>) -> $C
         %7 = stablehlo.dynamic_update_slice %6, %3, %i, %i : ($C, tensor<3x2x$E>, tensor<i32>, tensor<i32>) -> $C
         %8 = stablehlo.reverse %7, dims = [1] : $C
         %9 = stablehlo.reshape %8 : ($C) -> tensor<12x$E>
         %0 = stablehlo.reshape %9 : (tensor<12x$E>) -> $C",
        "$C",
    ),
    (
        "%z = stablehlo.constant dense<(0.0, 0.0)> : $S
         %1 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : ($C, $S) -> tensor<3x$E>
         %0 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<3x$E>) -> $C",
        "$C",
    ),
    (
        "%o = stablehlo.constant dense<(1.0, 0.0)> : $S
         %1 = stablehlo.reduce(%x init: %o) applies stablehlo.multiply across dimensions = [0] : ($C, $S) -> tensor<4x$E>
         %0 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<4x$E>) -> $C",
        "$C",
    ),
    (
        "%z = stablehlo.constant dense<(0.0, 0.0)> : $S
         %0 = \"stablehlo.reduce_window\"(%x, %z) ({
           ^bb0(%a: $S, %b: $S):
             %1 = stablehlo.add %a, %b : $S
             stablehlo.return %1 : $S
         }) {window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [0, 1]]> : tensor<2x2xi64>} : ($C, $S) -> $C",
        "$C",
    ),
    (
        "%0:2 = \"stablehlo.sort\"(%x, %r) ({
           ^bb0(%a: $S, %b: $S, %c: tensor<f32>, %d: tensor<f32>):
             %1 = stablehlo.real %a : ($S) -> tensor<f32>
             %2 = stablehlo.real %b : ($S) -> tensor<f32>
             %3 = stablehlo.compare LT, %1, %2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
             stablehlo.return %3 : tensor<i1>
         }) {dimension = 1 : i64, is_stable = true} : ($C, $F) -> ($C, $F)
         %4 = stablehlo.convert %0#1 : ($F) -> $C
         %5 = stablehlo.add %0#0, %4 : $C",
        "$C5",
    ),
    (
        "%n = stablehlo.constant dense<2> : tensor<1xi32>
         %t = stablehlo.slice %y [0:3, 0:1] : ($C) -> tensor<3x1x$E>
         %u = stablehlo.reshape %t : (tensor<3x1x$E>) -> tensor<3x$E>
         %0 = \"stablehlo.scatter\"(%x, %n, %u) ({
           ^bb0(%a: $S, %b: $S):
             %1 = stablehlo.add %a, %b : $S
             stablehlo.return %1 : $S
         }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1],
             scatter_dims_to_operand_dims = [1], index_vector_dim = 0>} : ($C, tensor<1xi32>, tensor<3x$E>) -> $C",
        "$C",
    ),
    (
        "%0 = \"stablehlo.if\"(%q) ({
           %1 = stablehlo.add %x, %y : $C
           stablehlo.return %1 : $C
         }, {
           stablehlo.return %x : $C
         }) : (tensor<i1>) -> $C",
        "$C",
    ),
    (
        "%n = stablehlo.constant dense<3> : tensor<i32>
         %one = stablehlo.constant dense<1> : tensor<i32>
         %zero = stablehlo.constant dense<0> : tensor<i32>
         %0:2 = stablehlo.while(%k = %zero, %v = %x) : tensor<i32>, $C
           cond { %1 = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %1 : tensor<i1> }
           do { %2 = stablehlo.add %k, %one : tensor<i32>
                %3 = \"stablehlo.case\"(%k) ({
                  %4 = stablehlo.multiply %v, %y : $C
                  stablehlo.return %4 : $C
                }, {
                  stablehlo.return %v : $C
                }) : (tensor<i32>) -> $C
                stablehlo.return %2, %3 : tensor<i32>, $C }
         %5 = stablehlo.negate %0#1 : $C",
        "$C5",
    ),
    ("%1 = func.call @twice(%x) : ($C) -> $C\n%0 = stablehlo.add %1, %y : $C", "$C"),
    (
        "%1 = stablehlo.multiply %x, %y : $C
         %0 = \"stablehlo.map\"(%1) ({
           ^bb0(%a: $S):
             %2 = stablehlo.add %a, %s : $S
             stablehlo.return %2 : $S
         }) {dimensions = array<i64: 0, 1>} : ($C) -> $C",
        "$C",
    ),
];

#[test]
fn values_stay() {
    let mut count = 0;
    for (ops, result) in OPS {
        for element in ["complex<f32>", "complex<f64>"] {
            let ops = if element == "complex<f64>" { ops.replace("f32", "f64") } else { ops.to_owned() };
            // `$C5` returns `%5`.
            let (ops, result) = match result.strip_suffix('5') {
                Some(result) => (ops.replace("%0", "%many").replace("%5 = ", "%0 = "), result),
                None => (ops, result),
            };
            let before = program(&ops, result, element);
            let after = applied(&ops, &before, pass).expect("it applies to one of the functions");
            let tolerance = if element == "complex<f64>" { 1e-13 } else { 1e-5 };
            same_values(&ops, &before, &after, &[], tolerance);
            count += 1;
            // Only calls, unsupported functions and the border still have complex numbers.
            let main = after.entry().expect("main");
            for op in main.body.all_ops() {
                let is_complex = |value: &stablehlo::ir::ValueId| match &main.values[*value] {
                    Type::Tensor(ty) => ty.element.is_complex(),
                    _ => false,
                };
                let is_border = matches!(
                    op.kind,
                    OpKind::Return
                        | OpKind::Call { .. }
                        | OpKind::Map { .. }
                        | OpKind::Unary(Unary::Real | Unary::Imag | Unary::Tanh)
                        | OpKind::Binary(Binary::Complex)
                );
                assert!(is_border || !op.operands.iter().chain(&op.results).any(is_complex), "{after}");
            }
        }
    }
    assert_eq!(count, 2 * OPS.len());
}

/// Computes an op on the parts of complex numbers without complex arithmetic, in `f64` or `f32`.
fn of_parts(op: &str, part: &str, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = operands[0].len();
    let (t, c) = (format!("tensor<{n}x{part}>"), format!("tensor<{n}xcomplex<{part}>>"));
    let count = operands.len() / 2;
    let names: Vec<String> = (0..operands.len()).map(|i| format!("%p{i}: {t}")).collect();
    let joined: String =
        (0..count).map(|i| format!("%z{i} = stablehlo.complex %p{}, %p{} : {c}\n", 2 * i, 2 * i + 1)).collect();
    let values: Vec<String> = (0..count).map(|i| format!("%z{i}")).collect();
    let module = parsed(&format!(
        "func.func @main({}) -> ({t}, {t}) {{
           {joined} %0 = stablehlo.{op} {} : {c}
           %1 = stablehlo.real %0 : ({c}) -> {t}
           %2 = stablehlo.imag %0 : ({c}) -> {t}
           return %1, %2 : {t}, {t}
         }}",
        names.join(", "),
        values.join(", ")
    ));
    let after = applied(op, &module, pass).expect("it applies");
    let is_complex = |ty: &Type| matches!(ty, Type::Tensor(ty) if ty.element.is_complex());
    let main = after.entry().expect("main");
    assert!(!main.body.all_ops().any(|op| op.results.iter().any(|&value| is_complex(main.ty(value)))), "{after}");
    let program = compile(&after).unwrap_or_else(|error| panic!("{error}"));
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
    let tensor = |numbers: &Vec<f64>| match part {
        "f64" => Tensor::from_slice(DType::F64, &[n], numbers),
        _ => Tensor::from_slice(DType::F32, &[n], &numbers.iter().map(|&x| x as f32).collect::<Vec<_>>()),
    };
    let results = program.run(operands.iter().map(|x| tensor(x).expect("numbers")).collect()).expect("results");
    let numbers = |result: &Tensor| match part {
        "f64" => result.as_slice::<f64>().expect("numbers").to_vec(),
        _ => result.as_slice::<f32>().expect("numbers").iter().map(|&x| f64::from(x)).collect(),
    };
    results.iter().map(numbers).collect()
}

/// The table of the CPU device's tests. A '?' before a part means that its sign is not specified.
#[test]
fn special_points_of_annex_g() {
    let table = include_str!("../../../../cpu/stablehlo-cpu/src/engine/tests/annex_g.txt");
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect()).collect();
    let mut failures = Vec::new();
    let mut count = 0;
    for op in ["cosine", "exponential", "log", "sine", "sqrt"] {
        let rows: Vec<&Vec<&str>> = rows.iter().filter(|row| row[0] == op).collect();
        let column = |at: usize| rows.iter().map(|row| row[at].parse::<f64>().unwrap()).collect::<Vec<_>>();
        let operands = [column(1), column(2)];
        for (part, tolerance) in [("f64", 2e-15), ("f32", 1e-6)] {
            let results = of_parts(op, part, &operands);
            for (at, row) in rows.iter().enumerate() {
                let agrees = |got: f64, want: &str| {
                    let number: f64 = want.trim_start_matches('?').parse().unwrap();
                    let near = got == number || (got - number).abs() <= tolerance * number.abs();
                    let same_sign = want.starts_with('?') || got.is_sign_negative() == number.is_sign_negative();
                    let near = if want.starts_with('?') { got.abs() == number.abs() } else { near };
                    if number.is_nan() { got.is_nan() } else { near && same_sign }
                };
                let got = [results[0][at], results[1][at]];
                if !agrees(got[0], row[3]) || !agrees(got[1], row[4]) {
                    failures.push(format!("{row:?}, but the result of {part} is {got:?}"));
                }
                count += 1;
            }
        }
    }
    assert!(count == 2 * 5 * 45 && failures.is_empty(), "{count} rows, failures:\n{}", failures.join("\n"));
}

/// Numbers whose squares or quotients overflow or underflow, zeros, infinities and NaN. `complex` of the CPU device
/// computes them in `f64`.
#[test]
fn extreme_numbers_of_the_cpu_device() {
    let parts: [f32; 13] =
        [0.0, -0.0, 1.0, -3.0, 0.1, 1e-30, -2e-36, 7e-20, 3e38, -f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let numbers: Vec<[f32; 2]> = parts.iter().flat_map(|&re| parts.map(|im| [re, im])).collect();
    let pairs: Vec<[[f32; 2]; 2]> = numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| [a, b])).collect();
    let column =
        |operand: usize, part: usize| pairs.iter().map(|pair| f64::from(pair[operand][part])).collect::<Vec<_>>();
    for op in ["divide", "multiply", "log", "sqrt"] {
        let count = if matches!(op, "divide" | "multiply") { 2 } else { 1 };
        let operands: Vec<Vec<f64>> = (0..count).flat_map(|operand| [column(operand, 0), column(operand, 1)]).collect();
        let got = of_parts(op, "f32", &operands);
        let c = format!("tensor<{}xcomplex<f32>>", pairs.len());
        let (parameters, names) =
            if count == 2 { (format!("%a: {c}, %b: {c}"), "%a, %b") } else { (format!("%a: {c}"), "%a") };
        let text =
            format!("func.func @main({parameters}) -> {c} {{ %0 = stablehlo.{op} {names} : {c}\n return %0 : {c} }}");
        let program = compile(&parsed(&text)).unwrap();
        let arguments = (0..count).map(|operand| {
            let bytes: Vec<u8> = pairs.iter().flat_map(|pair| pair[operand]).flat_map(f32::to_ne_bytes).collect();
            Tensor::from_bytes(stablehlo_cpu::Pool::global(), DType::C64, &[pairs.len()], &bytes).expect("numbers")
        });
        let results = program.run(arguments.collect()).unwrap();
        let want: Vec<f64> = results[0]
            .bytes()
            .chunks(4)
            .map(|bytes| f64::from(f32::from_ne_bytes(bytes.try_into().expect("four bytes"))))
            .collect();
        for (at, want) in want.chunks(2).enumerate() {
            // The error is relative to the larger part, and as large as a denormal number.
            let size = want[0].abs().max(want[1].abs()).min(f64::from(f32::MAX));
            for (&want, &got) in want.iter().zip([&got[0][at], &got[1][at]]) {
                let is_near = (got - want).abs() <= 1e-6 * size + f64::from(f32::from_bits(2));
                let is_same = got == want || got.is_nan() && want.is_nan() || is_near;
                assert!(is_same, "{op} {:?}: {got}, not {want}", pairs[at]);
            }
        }
    }
}

/// The hyperbolic functions of some numbers overflow, although their products with a sine or cosine are finite. Their
/// magnitude is half of the exponential, so that the logarithms of the products are sums.
#[test]
fn products_near_the_largest_number() {
    let angles: [f32; 7] = [FRAC_PI_4, -0.001, 1e-20, 3.0, -FRAC_PI_2, 0.0, 100.0];
    let mut count = 0;
    for (part, largest, first, tolerance) in [("f32", f64::from(f32::MAX), 85.0, 2e-6), ("f64", f64::MAX, 705.0, 1e-12)]
    {
        let sizes = (0..=16).map(|i| first + f64::from(i) / 2.0).chain([20.5, 60.0]);
        let ims = sizes.flat_map(|size| [size, -size]);
        let all: Vec<[f64; 2]> = ims.flat_map(|im| angles.map(|re| [f64::from(re), im])).collect();
        let operands = [0, 1].map(|at| all.iter().map(|pair| pair[at]).collect::<Vec<f64>>());
        for op in ["sine", "cosine"] {
            let got = of_parts(op, part, &operands);
            for (at, &[re, im]) in all.iter().enumerate() {
                let sign = 1f64.copysign(im);
                let circular = if op == "sine" { [re.sin(), re.cos() * sign] } else { [re.cos(), -re.sin() * sign] };
                for (circular, got) in circular.into_iter().zip([got[0][at], got[1][at]]) {
                    let (want, limit) = (circular.abs().ln() + im.abs() - std::f64::consts::LN_2, largest.ln());
                    let log = got.abs().ln();
                    let is_near = log == want || (log - want).abs() <= tolerance;
                    let is_infinite = want > limit - tolerance && got.is_infinite();
                    let same_sign = got.is_sign_negative() == circular.is_sign_negative();
                    assert!(same_sign && (is_near || is_infinite), "{op} of {re} + {im} i in {part}: {got:e}");
                    count += usize::from((limit - 1.0..limit).contains(&want));
                }
            }
        }
    }
    assert!(count > 20, "{count} large results");
}

#[test]
fn programs_of_the_repository() {
    let (changed, _) = check_all(pass, 1e-5, 0);
    assert!(changed >= 1, "{changed} programs");
}
