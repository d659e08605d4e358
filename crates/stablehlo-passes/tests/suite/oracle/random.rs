//! Random programs and numbers.

use std::fmt::Write as _;

use stablehlo_cpu::DType;

/// A generator of random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).expect("64 bits")).expect("below the limit")
    }

    fn pick<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.below(list.len())]
    }

    /// Returns the bytes of an element. Some floats are special.
    pub(crate) fn element(&mut self, dtype: DType) -> Vec<u8> {
        let special = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5];
        let number = match self.below(12) {
            0 => special[self.below(special.len())],
            _ => f64::from(u32::try_from(self.below(4000)).expect("small")) / 500.0 - 4.0,
        };
        let small = u8::try_from(self.below(5)).expect("small");
        let half = |element: stablehlo::ir::ElementType| {
            let bits = stablehlo::FloatFormat::of(element).and_then(|format| format.encode(number));
            bits.expect("a float").to_le_bytes()[..2].to_vec()
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounds")]
        let single = (number as f32).to_le_bytes().to_vec();
        match dtype {
            DType::F64 => number.to_le_bytes().to_vec(),
            DType::F32 => single,
            DType::F16 => half(stablehlo::ir::ElementType::F16),
            DType::Bf16 => half(stablehlo::ir::ElementType::Bf16),
            DType::Bool => vec![small & 1],
            DType::C64 => [self.element(DType::F32), self.element(DType::F32)].concat(),
            DType::C128 => [self.element(DType::F64), self.element(DType::F64)].concat(),
            DType::I2 | DType::U2 => vec![small & 1],
            _ => {
                let mut bytes = vec![0; dtype.size()];
                bytes[0] = small;
                bytes
            }
        }
    }
}

/// A value of a random program.
#[derive(Clone, PartialEq)]
struct Value {
    name: String,
    shape: Vec<i64>,
    element: &'static str,
}

impl Value {
    fn ty(&self) -> String {
        ty(&self.shape, self.element)
    }
}

fn ty(shape: &[i64], element: &str) -> String {
    let extents: String = shape.iter().map(|extent| format!("{extent}x")).collect();
    format!("tensor<{extents}{element}>")
}

const ELEMENTS: [&str; 12] = ["f32", "f64", "bf16", "f16", "i1", "i4", "i8", "i32", "i64", "ui8", "ui32", "ui64"];
const SHAPES: [&[i64]; 7] = [&[], &[4], &[1], &[2, 3], &[1, 4], &[3, 2], &[2, 1]];

fn is_float(element: &str) -> bool {
    element.contains('f')
}

struct Builder {
    random: Random,
    text: String,
    values: Vec<Value>,
    next: usize,
    depth: usize,
}

/// Returns the text of a program of integer, boolean and floating-point ops, with control flow.
pub(crate) fn program(seed: u64) -> String {
    let mut builder =
        Builder { random: Random(seed * 7919 + 1), text: String::new(), values: Vec::new(), next: 0, depth: 0 };
    let mut arguments = Vec::new();
    for (index, element) in ELEMENTS.iter().enumerate() {
        for shape in [&SHAPES[index % SHAPES.len()], &SHAPES[(index + 3) % SHAPES.len()]] {
            let value = Value { name: format!("%a{}", arguments.len()), shape: shape.to_vec(), element };
            arguments.push(format!("{}: {}", value.name, value.ty()));
            builder.values.push(value);
        }
    }
    let count = 12 + builder.random.below(30);
    let inputs = builder.values.len();
    (0..count).for_each(|_| builder.op());
    let returned: Vec<Value> = builder.values[inputs..].to_vec();
    let names: Vec<&str> = returned.iter().map(|value| &*value.name).collect();
    let types: Vec<String> = returned.iter().map(Value::ty).collect();
    format!(
        "func.func @main({}) -> ({types}) {{\n{}return {} : {types}\n}}",
        arguments.join(", "),
        builder.text,
        names.join(", "),
        types = types.join(", "),
    )
}

impl Builder {
    fn fresh(&mut self, shape: &[i64], element: &'static str) -> Value {
        self.next += 1;
        Value { name: format!("%{}", self.next), shape: shape.to_vec(), element }
    }

    fn line(&mut self, result: Value, text: &str) {
        writeln!(self.text, "{} = {text}", result.name).expect("a string");
        self.values.push(result);
    }

    /// Returns a visible value, often one of the last ones.
    fn any(&mut self) -> Value {
        let count = self.values.len();
        let back = if self.random.below(3) > 0 { self.random.below(count.min(8)) } else { self.random.below(count) };
        self.values[count - 1 - back].clone()
    }

    /// Returns a value of this type. Adds a constant if none exists, or sometimes also if one exists.
    fn of(&mut self, shape: &[i64], element: &'static str) -> Value {
        let found: Vec<Value> =
            self.values.iter().filter(|value| value.shape == shape && value.element == element).cloned().collect();
        if found.is_empty() || self.random.below(3) == 0 {
            return self.constant(shape, element);
        }
        found[self.random.below(found.len())].clone()
    }

    fn constant(&mut self, shape: &[i64], element: &'static str) -> Value {
        let number = |random: &mut Random| match element {
            "i1" => random.pick(&["true", "false"]),
            "i4" => random.pick(&["0", "1", "-1", "7", "-8", "3"]),
            "i8" => random.pick(&["0", "1", "-1", "127", "-128", "5"]),
            "i32" => random.pick(&["0", "1", "-1", "2147483647", "-2147483648", "40", "2"]),
            "i64" => random.pick(&["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "63"]),
            "ui8" => random.pick(&["0", "1", "255", "8", "100"]),
            "ui32" => random.pick(&["0", "1", "4294967295", "31", "32"]),
            "ui64" => random.pick(&["0", "1", "18446744073709551615", "33"]),
            "f32" => random.pick(&["0.0", "-0.0", "1.0", "0x7FC00000", "0x7F800000", "1.1", "-1.0e-39", "3.0e38"]),
            "f64" => {
                random.pick(&["0.0", "-0.0", "1.0", "0x7FF8000000000000", "0xFFF0000000000000", "1.1", "1.0e-310"])
            }
            _ => random.pick(&["0.0", "-0.0", "1.0", "1.1", "-2.5", "60000.0", "1.0e-7"]),
        };
        let result = self.fresh(shape, element);
        let count = usize::try_from(shape.iter().product::<i64>()).expect("small");
        let text = if self.random.below(2) == 0 || count == 1 || shape.len() > 2 {
            number(&mut self.random).to_owned()
        } else {
            // The elements of a tensor, row by row.
            let elements: Vec<&str> = (0..count).map(|_| number(&mut self.random)).collect();
            let row = usize::try_from(*shape.last().expect("a dimension")).expect("small");
            let rows: Vec<String> = elements.chunks(row).map(|row| format!("[{}]", row.join(", "))).collect();
            if shape.len() == 1 { rows.concat() } else { format!("[{}]", rows.join(", ")) }
        };
        self.line(result.clone(), &format!("stablehlo.constant dense<{text}> : {}", result.ty()));
        result
    }

    fn op(&mut self) {
        match self.random.below(12) {
            0..=3 => self.elementwise(),
            4 => self.compare_or_select(),
            5 => self.convert(),
            6..=8 => self.shape(),
            9 if self.depth < 2 => self.branches(),
            10 if self.depth < 2 => self.counted_loop(),
            _ => {
                let shape = SHAPES[self.random.below(SHAPES.len())];
                let element = ELEMENTS[self.random.below(ELEMENTS.len())];
                self.constant(shape, element);
            }
        }
    }

    fn elementwise(&mut self) {
        let a = self.any();
        let result = self.fresh(&a.shape, a.element);
        let (one, two): (&[&str], &[&str]) = match a.element {
            "i1" => (&["not"], &["and", "or", "xor", "add", "multiply", "maximum"]),
            element if is_float(element) => (
                &["negate", "abs", "floor", "ceil", "sign", "sqrt", "round_nearest_even", "round_nearest_afz"],
                &["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"],
            ),
            element => (
                if element.starts_with('u') {
                    &["not", "popcnt", "count_leading_zeros"]
                } else {
                    &["not", "negate", "sign"]
                },
                &[
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
                    "shift_left",
                    "shift_right_logical",
                    "shift_right_arithmetic",
                ],
            ),
        };
        if self.random.below(4) == 0 {
            let op = self.random.pick(one);
            self.line(result, &format!("stablehlo.{op} {} : {}", a.name, a.ty()));
            return;
        }
        let op = self.random.pick(two);
        let b = if self.random.below(6) == 0 { a.clone() } else { self.of(&a.shape, a.element) };
        let (a, b) = if self.random.below(2) == 0 { (a, b) } else { (b, a) };
        self.line(result, &format!("stablehlo.{op} {}, {} : {}", a.name, b.name, a.ty()));
    }

    fn compare_or_select(&mut self) {
        let a = self.any();
        let b = if self.random.below(5) == 0 { a.clone() } else { self.of(&a.shape, a.element) };
        if self.random.below(2) == 0 {
            let direction = self.random.pick(&["EQ", "NE", "LT", "LE", "GT", "GE"]);
            let order = if is_float(a.element) && self.random.below(3) == 0 { ", TOTALORDER" } else { "" };
            let result = self.fresh(&a.shape, "i1");
            let ty = a.ty();
            let text = format!(
                "stablehlo.compare {direction}, {}, {}{order} : ({ty}, {ty}) -> {}",
                a.name,
                b.name,
                result.ty()
            );
            self.line(result, &text);
            return;
        }
        let shape = if self.random.below(2) == 0 { a.shape.clone() } else { Vec::new() };
        let on = self.of(&shape, "i1");
        let result = self.fresh(&a.shape, a.element);
        let text = format!("stablehlo.select {}, {}, {} : {}, {}", on.name, a.name, b.name, on.ty(), a.ty());
        self.line(result, &text);
    }

    /// Converts an integer or a boolean to another type, and sometimes back. Conversions of floats to integers depend
    /// on the device if the numbers are out of range.
    fn convert(&mut self) {
        let a = self.any();
        let targets: Vec<&'static str> =
            ELEMENTS.into_iter().filter(|element| !is_float(a.element) || is_float(element)).collect();
        let element = targets[self.random.below(targets.len())];
        let result = self.fresh(&a.shape, element);
        self.line(result.clone(), &format!("stablehlo.convert {} : ({}) -> {}", a.name, a.ty(), result.ty()));
        if self.random.below(2) == 0 && (is_float(a.element) || !is_float(element)) {
            let back = self.fresh(&a.shape, a.element);
            self.line(back, &format!("stablehlo.convert {} : ({}) -> {}", result.name, result.ty(), a.ty()));
        }
    }

    fn shape(&mut self) {
        let a = self.any();
        let count: i64 = a.shape.iter().product();
        let rank = a.shape.len();
        let (shape, text): (Vec<i64>, String) = match self.random.below(9) {
            0 => {
                let fitting: Vec<&[i64]> =
                    SHAPES.into_iter().filter(|shape| shape.iter().product::<i64>() == count).collect();
                let shape =
                    fitting.get(self.random.below(fitting.len())).map_or(a.shape.clone(), |shape| shape.to_vec());
                (shape, "reshape".to_owned())
            }
            1 if rank == 2 => (vec![a.shape[1], a.shape[0]], "transpose dims = [1, 0]".to_owned()),
            2 if rank == 1 => {
                let (dimension, extent) = (self.random.below(2), if a.shape[0] == 1 { 3 } else { a.shape[0] });
                let shape = if dimension == 0 { vec![extent, 2] } else { vec![1, extent] };
                (shape, format!("broadcast_in_dim dims = [{dimension}]"))
            }
            2 if rank == 0 => (vec![2, 3], "broadcast_in_dim dims = []".to_owned()),
            2 if rank == 2 => (vec![2, a.shape[0], a.shape[1]], "broadcast_in_dim dims = [1, 2]".to_owned()),
            3 if rank > 0 => {
                let start = i64::from(a.shape[0] > 1);
                let mut shape = a.shape.clone();
                shape[0] -= start;
                let ranges: Vec<String> = a
                    .shape
                    .iter()
                    .enumerate()
                    .map(|(d, extent)| format!("{}:{extent}", if d == 0 { start } else { 0 }))
                    .collect();
                let result = self.fresh(&shape, a.element);
                let text =
                    format!("stablehlo.slice {} [{}] : ({}) -> {}", a.name, ranges.join(", "), a.ty(), result.ty());
                return self.line(result, &text);
            }
            4 if rank > 0 => (a.shape.clone(), format!("reverse dims = [{}]", rank - 1)),
            5 if rank > 0 => {
                let b = self.of(&a.shape.clone(), a.element);
                let mut shape = a.shape.clone();
                shape[0] *= 2;
                let result = self.fresh(&shape, a.element);
                let text = format!(
                    "stablehlo.concatenate {}, {}, dim = 0 : ({ty}, {ty}) -> {}",
                    a.name,
                    b.name,
                    result.ty(),
                    ty = a.ty()
                );
                return self.line(result, &text);
            }
            6 if rank == 1 => {
                let value = self.of(&[], a.element);
                let interior = i64::try_from(self.random.below(2)).expect("small");
                let shape = [a.shape[0] + (a.shape[0] - 1) * interior + 1];
                let result = self.fresh(&shape, a.element);
                let text = format!(
                    "stablehlo.pad {}, {}, low = [2], high = [-1], interior = [{interior}] : ({}, {}) -> {}",
                    a.name,
                    value.name,
                    a.ty(),
                    value.ty(),
                    result.ty()
                );
                return self.line(result, &text);
            }
            7 if rank == 1 => {
                let start = self.of(&[], "i32");
                if self.random.below(2) == 0 {
                    let result = self.fresh(&[1], a.element);
                    let text = format!(
                        "stablehlo.dynamic_slice {}, {}, sizes = [1] : ({}, tensor<i32>) -> {}",
                        a.name,
                        start.name,
                        a.ty(),
                        result.ty()
                    );
                    return self.line(result, &text);
                }
                let update = self.of(&[1], a.element);
                let result = self.fresh(&a.shape, a.element);
                let text = format!(
                    "stablehlo.dynamic_update_slice {}, {}, {} : ({}, {}, tensor<i32>) -> {}",
                    a.name,
                    update.name,
                    start.name,
                    a.ty(),
                    update.ty(),
                    result.ty()
                );
                return self.line(result, &text);
            }
            8 if rank > 0 && a.element != "i1" => {
                let result = self.fresh(&a.shape, a.element);
                let dimension = self.random.below(rank);
                let text = format!("stablehlo.iota dim = {dimension} : {}", result.ty());
                return self.line(result, &text);
            }
            _ => (a.shape.clone(), "reshape".to_owned()),
        };
        let (op, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let result = self.fresh(&shape, a.element);
        let rest = if rest.is_empty() { String::new() } else { format!(", {rest}") };
        let text = format!("stablehlo.{op} {}{rest} : ({}) -> {}", a.name, a.ty(), result.ty());
        // The form of `reverse` has one type.
        let text = if op == "reverse" { format!("stablehlo.reverse {}{rest} : {}", a.name, a.ty()) } else { text };
        self.line(result, &text);
    }

    /// Adds ops, and returns one of their results or another value. The ops are not visible afterwards.
    fn region(&mut self, like: &Value) -> String {
        let (outer, visible) = (std::mem::take(&mut self.text), self.values.len());
        self.depth += 1;
        let count = 1 + self.random.below(4);
        (0..count).for_each(|_| self.op());
        let returned = self.of(&like.shape, like.element);
        self.depth -= 1;
        self.values.truncate(visible);
        let ops = std::mem::replace(&mut self.text, outer);
        format!("{ops}stablehlo.return {} : {}\n", returned.name, returned.ty())
    }

    fn branches(&mut self) {
        let like = self.any();
        let result = self.fresh(&like.shape, like.element);
        let (op, predicate, count) = if self.random.below(2) == 0 {
            ("if", self.of(&[], "i1"), 2)
        } else {
            ("case", self.of(&[], "i32"), 1 + self.random.below(3))
        };
        let regions: Vec<String> = (0..count).map(|_| format!("{{\n{}}}", self.region(&like))).collect();
        let text = format!(
            "\"stablehlo.{op}\"({}) ({}) : ({}) -> {}",
            predicate.name,
            regions.join(", "),
            predicate.ty(),
            result.ty()
        );
        self.line(result, &text);
    }

    /// Adds a loop that runs at most three times.
    fn counted_loop(&mut self) {
        let like = self.any();
        let init = self.of(&like.shape.clone(), like.element);
        let zero = self.constant(&[], "i32");
        let result = self.fresh(&like.shape, like.element);
        let (i, x) = (format!("%i{}", self.next), format!("%x{}", self.next));
        let ty = like.ty();
        let visible = self.values.len();
        self.values.push(Value { name: i.clone(), shape: Vec::new(), element: "i32" });
        self.values.push(Value { name: x.clone(), ..like.clone() });
        let body = self.region(&like);
        self.values.truncate(visible);
        let returned = body.lines().last().and_then(|line| line.split(' ').nth(1)).expect("a return").to_owned();
        let body = &body[..body.rfind("stablehlo.return").expect("a return")];
        let limit = self.random.pick(&["3", "0", "-2147483648"]);
        let counter = result.name.replace('%', "%r");
        let text = format!(
            "\"stablehlo.while\"({zero}, {init}) ({{
^bb0({i}: tensor<i32>, {x}: {ty}):
%c{n} = stablehlo.constant dense<{limit}> : tensor<i32>
%d{n} = stablehlo.constant dense<0> : tensor<i32>
%e{n} = stablehlo.compare LT, {i}, %c{n} : (tensor<i32>, tensor<i32>) -> tensor<i1>
%f{n} = stablehlo.compare GE, {i}, %d{n} : (tensor<i32>, tensor<i32>) -> tensor<i1>
%g{n} = stablehlo.and %e{n}, %f{n} : tensor<i1>
stablehlo.return %g{n} : tensor<i1>
}}, {{
^bb0({i}: tensor<i32>, {x}: {ty}):
{body}%h{n} = stablehlo.constant dense<1> : tensor<i32>
%j{n} = stablehlo.add %h{n}, {i} : tensor<i32>
stablehlo.return %j{n}, {returned} : tensor<i32>, {ty}
}}) : (tensor<i32>, {ty}) -> (tensor<i32>, {ty})",
            zero = zero.name,
            init = init.name,
            n = self.next,
        );
        writeln!(self.text, "{counter}:2 = {text}").expect("a string");
        let barrier = format!("stablehlo.reshape {counter}#1 : ({ty}) -> {ty}");
        self.line(result, &barrier);
    }
}
