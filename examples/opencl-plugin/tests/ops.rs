//! Compares each op and element type with the engine of the embedded CPU device, also for special numbers.

mod common;

use common::{client, compile};
use host_fallback::HostProgram;
use pjrt::{Buffer, Client, ClientOptions, Shape, Upload};

const FLOATS: &[&str] = &["f32", "f64", "f16", "bf16"];
const INTEGERS: &[&str] = &["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"];

/// Unary ops, and whether their results are exact.
const FLOAT_UNARY: &[(&str, bool)] = &[
    ("abs", true),
    ("negate", true),
    ("sign", true),
    ("ceil", true),
    ("floor", true),
    ("round_nearest_afz", true),
    ("round_nearest_even", true),
    ("sqrt", false),
    ("rsqrt", false),
    ("cbrt", false),
    ("exponential", false),
    ("exponential_minus_one", false),
    ("log", false),
    ("log_plus_one", false),
    ("logistic", false),
    ("tanh", false),
    ("sine", false),
    ("cosine", false),
    ("tan", false),
];
const FLOAT_BINARY: &[(&str, bool)] = &[
    ("add", true),
    ("subtract", true),
    ("multiply", true),
    ("divide", true),
    ("remainder", true),
    ("maximum", true),
    ("minimum", true),
    ("power", false),
    ("atan2", false),
];
const INTEGER_UNARY: &[&str] = &["negate", "not", "popcnt", "count_leading_zeros"];
const SIGNED_UNARY: &[&str] = &["abs", "sign"];
const INTEGER_BINARY: &[&str] = &[
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
    "power",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
];

/// Bit patterns of a type, whose pairs are the operands.
fn patterns(ty: &str) -> (Vec<u64>, usize) {
    let float = |numbers: &[f64], bits: &dyn Fn(f64) -> u64| numbers.iter().map(|&number| bits(number)).collect();
    let numbers =
        [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 7.0, 1e-3, -123.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    match ty {
        "f64" => (float(&numbers, &f64::to_bits), 8),
        #[allow(clippy::cast_possible_truncation, reason = "the numbers are rounded")]
        "f32" => (float(&numbers, &|number| u64::from((number as f32).to_bits())), 4),
        #[allow(clippy::cast_possible_truncation, reason = "the numbers are rounded")]
        "bf16" => (float(&numbers, &|number| u64::from((number as f32).to_bits() >> 16)), 2),
        "f16" => {
            (vec![0, 0x8000, 0x3c00, 0xbc00, 0x3800, 0xc100, 0x4300, 0x4700, 0x1419, 0xd7b4, 0x7c00, 0xfc00, 0x7e00], 2)
        }
        "i1" => (vec![0, 1], 1),
        _ => {
            let bits: u32 = ty.trim_start_matches(['u', 'i']).parse().unwrap();
            let high = 1u64 << (bits - 1);
            let mask = u64::MAX >> (64 - bits);
            let all =
                [0, 1, 2, 3, 5, 7, 100, high, high - 1, mask, mask - 1, mask - 6, u64::from(bits), u64::from(bits) + 1];
            (all.iter().map(|pattern| pattern & mask).collect(), usize::try_from(bits / 8).unwrap())
        }
    }
}

/// The distance of two numbers in units of the type's last place, or `u64::MAX` if only one of them is NaN.
fn distance(ty: &str, a: u64, b: u64) -> u64 {
    let (exponent, bits) = match ty {
        "f64" => (0x7ffu64 << 52, 64),
        "f32" => (0xffu64 << 23, 32),
        "f16" => (0x1fu64 << 10, 16),
        "bf16" => (0xffu64 << 7, 16),
        _ => return if a == b { 0 } else { u64::MAX },
    };
    let is_nan = |x: u64| x & (u64::MAX >> (65 - bits)) > exponent;
    let key = |x: u64| i128::from(x & (u64::MAX >> (65 - bits))) * if x >> (bits - 1) & 1 == 1 { -1 } else { 1 };
    match (is_nan(a), is_nan(b)) {
        (true, true) => 0,
        (false, false) => u64::try_from((key(a) - key(b)).abs()).unwrap_or(u64::MAX - 1),
        _ => u64::MAX,
    }
}

fn bytes(patterns: &[u64], size: usize) -> Vec<u8> {
    patterns.iter().flat_map(|pattern| pattern.to_le_bytes()[..size].to_vec()).collect()
}

/// Uploads the bytes of an array.
fn upload(client: &Client, shape: &Shape, bytes: &[u8]) -> Buffer {
    client.upload(Upload::of(bytes).shape(shape)).unwrap()
}

struct Comparison {
    client: Client,
    checked: usize,
    faults: Vec<String>,
}

impl Comparison {
    /// Runs the lines, which define `%y` from `%a` and `%b`, on all pairs of numbers.
    fn check(&mut self, name: &str, (from, to): (&str, &str), lines: &str, most: u64) {
        let (all, size) = patterns(from);
        let (a, b): (Vec<u64>, Vec<u64>) = all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).unzip();
        let count = a.len();
        let lines = lines
            .replace("FROM", &format!("tensor<{count}x{from}>"))
            .replace("RESULT", &format!("tensor<{count}x{to}>"));
        let text = format!(
            "func.func @main(%a: tensor<{count}x{from}>, %b: tensor<{count}x{from}>) -> tensor<{count}x{to}> {{
               {lines}
               return %y : tensor<{count}x{to}>
             }}"
        );
        let module =
            stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{e} {text}"));
        let host = HostProgram::compile(&module, "main").unwrap();
        let mut expected = vec![0; host.output_sizes()[0]];
        let inputs = [bytes(&a, size), bytes(&b, size)];
        host.run(&[&inputs[0], &inputs[1]], &mut [&mut expected]).unwrap();
        let program = compile(&self.client, &text).unwrap_or_else(|error| panic!("{name} {from} {to}: {error}"));
        let parameters = program.parameters().unwrap().to_vec();
        let buffers = [
            upload(&self.client, parameters[0].shape().unwrap(), &inputs[0]),
            upload(&self.client, parameters[1].shape().unwrap(), &inputs[1]),
        ];
        let outputs = program.execute(&[&buffers[0], &buffers[1]]).unwrap();
        let found = outputs[0].download().bytes().unwrap();
        let wide = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(wide)
        };
        let size = expected.len() / count;
        for (at, (found, expected)) in found.chunks(size).zip(expected.chunks(size)).enumerate() {
            let (found, expected) = (wide(found), wide(expected));
            self.checked += 1;
            if distance(to, found, expected) > most {
                self.faults
                    .push(format!("{name} {from} {to} of {:x}, {:x}: {found:x} instead of {expected:x}", a[at], b[at]));
                break;
            }
        }
    }
}

fn comparison(test: &str) -> Option<Comparison> {
    let client = client(test, &ClientOptions::new())?;
    Some(Comparison { client, checked: 0, faults: Vec::new() })
}

impl Comparison {
    fn end(self) {
        assert!(self.checked > 1000, "only {} results", self.checked);
        assert!(self.faults.is_empty(), "{} faults:\n{}", self.faults.len(), self.faults.join("\n"));
    }
}

#[test]
fn float_ops() {
    let Some(mut all) = comparison("float_ops") else { return };
    for ty in FLOATS {
        for (op, is_exact) in FLOAT_UNARY {
            let most = if *is_exact { 0 } else { 8 };
            all.check(op, (ty, ty), &format!("%y = stablehlo.{op} %a : FROM"), most);
        }
        for (op, is_exact) in FLOAT_BINARY {
            let most = if *is_exact { 0 } else { 32 };
            all.check(op, (ty, ty), &format!("%y = stablehlo.{op} %a, %b : FROM"), most);
        }
        all.check("is_finite", (ty, "i1"), "%y = stablehlo.is_finite %a : (FROM) -> RESULT", 0);
    }
    all.end();
}

#[test]
fn integer_ops() {
    let Some(mut all) = comparison("integer_ops") else { return };
    for ty in INTEGERS {
        for op in INTEGER_UNARY.iter().chain(SIGNED_UNARY.iter().filter(|_| ty.starts_with('i'))) {
            all.check(op, (ty, ty), &format!("%y = stablehlo.{op} %a : FROM"), 0);
        }
        for op in INTEGER_BINARY {
            all.check(op, (ty, ty), &format!("%y = stablehlo.{op} %a, %b : FROM"), 0);
        }
    }
    for op in ["add", "multiply", "and", "or", "xor", "maximum", "minimum"] {
        all.check(op, ("i1", "i1"), &format!("%y = stablehlo.{op} %a, %b : FROM"), 0);
    }
    all.check("not", ("i1", "i1"), "%y = stablehlo.not %a : FROM", 0);
    all.end();
}

#[test]
fn comparisons_and_choices() {
    let Some(mut all) = comparison("comparisons_and_choices") else { return };
    for ty in FLOATS.iter().chain(INTEGERS).chain(&["i1"]) {
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            all.check(
                "compare",
                (ty, "i1"),
                &format!("%y = stablehlo.compare {direction}, %a, %b : (FROM, FROM) -> RESULT"),
                0,
            );
            if FLOATS.contains(ty) {
                let line = format!("%y = stablehlo.compare {direction}, %a, %b, TOTALORDER : (FROM, FROM) -> RESULT");
                all.check("total order", (ty, "i1"), &line, 0);
            }
        }
        if *ty != "i1" {
            all.check("clamp", (ty, ty), "%y = stablehlo.clamp %a, %b, %a : FROM", 0);
        }
        let lines =
            "%c = stablehlo.compare EQ, %a, %b : (FROM, FROM) -> MASK\n%y = stablehlo.select %c, %a, %b : MASK, FROM";
        let count = patterns(ty).0.len().pow(2);
        all.check("select", (ty, ty), &lines.replace("MASK", &format!("tensor<{count}xi1>")), 0);
    }
    all.end();
}

#[test]
fn conversions() {
    let Some(mut all) = comparison("conversions") else { return };
    let types: Vec<&str> = FLOATS.iter().chain(INTEGERS).chain(&["i1"]).copied().collect();
    for from in &types {
        for to in &types {
            all.check("convert", (from, to), "%y = stablehlo.convert %a : (FROM) -> RESULT", 0);
        }
    }
    all.end();
}
