//! Compares compiled loops with interpreted loops.

mod pause;
mod products;
mod registers;

use std::thread;
use std::time::Duration;

use super::{program, run, tensor};
use crate::engine::program::{Block, Step};
use crate::{CompileSettings, DType, Pool, Program, RunError, Stop, Tensor, compile_with};

fn compiled(text: &str, compile_loops: bool) -> Program {
    let module = stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL);
    let module = module.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let settings = CompileSettings { compile_loops, ..CompileSettings::default() };
    compile_with(&module, &settings, Pool::global()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns the number of interpreted loops.
fn interpreted(block: &Block) -> usize {
    let of = |step: &Step| match step {
        Step::While { cond, body, .. } => 1 + interpreted(cond) + interpreted(body),
        Step::Case { branches, .. } => branches.iter().map(interpreted).sum(),
        _ => 0,
    };
    block.steps.iter().map(of).sum()
}

/// Returns whether the tensors have the same bits, except that all NaNs are equal.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let equal = match a.dtype() {
        DType::F32 => a
            .as_slice::<f32>()
            .zip(b.as_slice::<f32>())
            .map(|(a, b)| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())),
        DType::F64 => a
            .as_slice::<f64>()
            .zip(b.as_slice::<f64>())
            .map(|(a, b)| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())),
        _ => Some(a.bytes() == b.bytes()),
    };
    a.ty() == b.ty() && equal == Some(true)
}

/// Compiles a program with and without compiled loops, checks that both return the same outputs, and returns them. If
/// the compiled program can pause, also checks runs that pause.
pub(super) fn both(text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let (code, steps) = (compiled(text, true), compiled(text, false));
    assert_eq!(interpreted(&code.block), 0, "not compiled: {text}");
    assert!(interpreted(&steps.block) > 0);
    let (got, want) = (code.run(inputs.to_vec()).unwrap(), steps.run(inputs.to_vec()).unwrap());
    for (got, want) in got.iter().zip(&want) {
        assert!(same(got, want), "{text}\ncompiled    {:?}\ninterpreted {:?}", got.bytes(), want.bytes());
    }
    if code.can_pause() {
        for operations in [0, 100] {
            let resumed = pause::in_two_parts(&code, inputs.to_vec(), operations);
            assert!(
                resumed.iter().zip(&got).all(|(resumed, got)| same(resumed, got)),
                "{operations} operations\n{text}"
            );
        }
    }
    got
}

/// Returns a program with a loop that runs `%n` times. `%i` is the counter. `body` computes the next values `%next…` of
/// the carried values `%c…`. The carried values have the types `types`, and the parameters are their initial values.
pub(super) fn counted(types: &[&str], body: &str) -> String {
    let list = |f: &dyn Fn(usize, &str) -> String| {
        types.iter().enumerate().map(|(k, ty)| f(k, ty)).collect::<Vec<_>>().join(", ")
    };
    let (parameters, results) = (list(&|k, ty| format!("%x{k}: {ty}")), list(&|_, ty| ty.to_owned()));
    let initial = list(&|k, _| format!("%c{k} = %x{k}"));
    let returned = list(&|k, _| format!("%w#{}", k + 1));
    let next = list(&|k, _| format!("%next{k}"));
    format!(
        "func.func @main(%n: tensor<i32>, {parameters}) -> ({results}) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %w:{} = stablehlo.while(%i = %zero, {initial}) : tensor<i32>, {results}
            cond {{
             %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %more : tensor<i1>
           }} do {{
             %one = stablehlo.constant dense<1> : tensor<i32>
             {body}
             %after = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %after, {next} : tensor<i32>, {results}
           }}
           return {returned} : {results}
         }}",
        types.len() + 1
    )
}

pub(super) fn times(n: i32) -> Tensor {
    tensor(DType::I32, &[], &[n])
}

#[test]
fn scalar_loop() {
    let text = counted(
        &["tensor<f32>", "tensor<i64>"],
        "%half = stablehlo.constant dense<0.5> : tensor<f32>
         %y = stablehlo.multiply %c0, %half : tensor<f32>
         %s = stablehlo.sine %y : tensor<f32>
         %next0 = stablehlo.add %s, %half : tensor<f32>
         %k = stablehlo.convert %i : (tensor<i32>) -> tensor<i64>
         %next1 = stablehlo.add %c1, %k : tensor<i64>",
    );
    for n in [0, 1, 2, 1000] {
        let outputs = both(&text, &[times(n), tensor(DType::F32, &[], &[0.25f32]), tensor(DType::I64, &[], &[7i64])]);
        let sum = i64::from(n) * (i64::from(n) - 1) / 2 + 7;
        assert_eq!(outputs[1].as_slice::<i64>(), Some(&[if n == 0 { 7 } else { sum }][..]));
    }
}

#[test]
fn branches_in_a_loop() {
    let text = counted(
        &["tensor<i32>", "tensor<f64>"],
        "%two = stablehlo.constant dense<2> : tensor<i32>
         %r = stablehlo.remainder %i, %two : tensor<i32>
         %odd = stablehlo.compare EQ, %r, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
         %next0 = \"stablehlo.if\"(%odd) ({
           %a = stablehlo.add %c0, %i : tensor<i32>
           stablehlo.return %a : tensor<i32>
         }, {
           %b = stablehlo.subtract %c0, %one : tensor<i32>
           stablehlo.return %b : tensor<i32>
         }) : (tensor<i1>) -> tensor<i32>
         %three = stablehlo.constant dense<3> : tensor<i32>
         %k0 = stablehlo.subtract %i, %three : tensor<i32>
         %next1 = \"stablehlo.case\"(%k0) ({
           %a = stablehlo.sqrt %c1 : tensor<f64>
           stablehlo.return %a : tensor<f64>
         }, {
           %b = stablehlo.add %c1, %c1 : tensor<f64>
           stablehlo.return %b : tensor<f64>
         }, {
           stablehlo.return %c1 : tensor<f64>
         }) : (tensor<i32>) -> tensor<f64>",
    );
    let outputs = both(&text, &[times(9), times(100), tensor(DType::F64, &[], &[2.0f64])]);
    assert_eq!(outputs[0].as_slice::<i32>(), Some(&[100 + 1 + 3 + 5 + 7 - 5][..]));
}

#[test]
fn nested_loops() {
    let text = counted(
        &["tensor<i32>", "tensor<4xi32>"],
        "%inner:2 = stablehlo.while(%j = %i, %s = %c1) : tensor<i32>, tensor<4xi32>
          cond {
           %z = stablehlo.constant dense<0> : tensor<i32>
           %q = stablehlo.compare GT, %j, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %q : tensor<i1>
         } do {
           %o = stablehlo.constant dense<1> : tensor<i32>
           %j1 = stablehlo.subtract %j, %o : tensor<i32>
           %b = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<4xi32>
           %t = stablehlo.add %s, %b : tensor<4xi32>
           stablehlo.return %j1, %t : tensor<i32>, tensor<4xi32>
         }
         %next1 = stablehlo.subtract %inner#1, %c1 : tensor<4xi32>
         %next0 = stablehlo.add %c0, %i : tensor<i32>",
    );
    for n in [0, 1, 5, 20] {
        both(&text, &[times(n), times(3), tensor(DType::I32, &[4], &[1, 2, 3, 4])]);
    }
}

#[test]
fn updates_of_a_large_array_in_place() {
    let text = counted(
        &["tensor<100000xf32>"],
        "%x = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
         %u = stablehlo.reshape %x : (tensor<f32>) -> tensor<1xf32>
         %d = stablehlo.dynamic_update_slice %c0, %u, %i : (tensor<100000xf32>, tensor<1xf32>, tensor<i32>) -> tensor<100000xf32>
         %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
         %next0 = \"stablehlo.scatter\"(%d, %at, %x) ({
         ^bb0(%old: tensor<f32>, %new: tensor<f32>):
           %s = stablehlo.add %old, %new : tensor<f32>
           stablehlo.return %s : tensor<f32>
         }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
             index_vector_dim = 0>} : (tensor<100000xf32>, tensor<1xi32>, tensor<f32>) -> tensor<100000xf32>",
    );
    let input = tensor(DType::F32, &[100_000], &vec![1f32; 100_000]);
    let outputs = both(&text, &[times(1000), input]);
    assert_eq!(outputs[0].as_slice::<f32>().map(|x| (x[7], x[999], x[1000])), Some((14.0, 1998.0, 1.0)));
}

#[test]
fn old_arrays_are_kept_if_they_are_read() {
    let update = |array: &str, result: &str| {
        format!(
            "{result} = stablehlo.dynamic_update_slice {array}, %u, %i : (tensor<8xi32>, tensor<1xi32>, tensor<i32>) -> tensor<8xi32>"
        )
    };
    let u = "%u = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>";
    let (a, b) = (update("%c0", "%d"), update("%d", "%e"));
    let (plain, swapped) = (tensor(DType::I32, &[8], &[5; 8]), tensor(DType::I32, &[8], &[1, 2, 3, 4, 5, 6, 7, 8]));
    let bodies = [
        // The old array is read after the update.
        format!(
            "{u}\n{a}\n%next0 = stablehlo.add %c0, %d : tensor<8xi32>\n%next1 = stablehlo.subtract %c1, %d : tensor<8xi32>"
        ),
        // The arrays are swapped, with an update in place.
        format!(
            "{u}\n{a}\n%next1 = stablehlo.reshape %d : (tensor<8xi32>) -> tensor<8xi32>\n%next0 = stablehlo.reshape %c1 : (tensor<8xi32>) -> tensor<8xi32>"
        ),
        // Both results are the same array after an update.
        format!(
            "{u}\n{a}\n{b}\n%next1 = stablehlo.reshape %e : (tensor<8xi32>) -> tensor<8xi32>\n%next0 = stablehlo.reshape %e : (tensor<8xi32>) -> tensor<8xi32>"
        ),
        // One result is an old array.
        format!(
            "{u}\n{a}\n%next1 = stablehlo.reshape %c0 : (tensor<8xi32>) -> tensor<8xi32>\n%next0 = stablehlo.reshape %d : (tensor<8xi32>) -> tensor<8xi32>"
        ),
        // One branch updates the array in place, and the other branch does not.
        format!(
            "%two = stablehlo.constant dense<2> : tensor<i32>
             %r = stablehlo.remainder %i, %two : tensor<i32>
             %odd = stablehlo.compare EQ, %r, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
             %next0 = \"stablehlo.if\"(%odd) ({{
               {u}\n{a}
               stablehlo.return %d : tensor<8xi32>
             }}, {{
               stablehlo.return %c1 : tensor<8xi32>
             }}) : (tensor<i1>) -> tensor<8xi32>
             %next1 = stablehlo.negate %c1 : tensor<8xi32>"
        ),
    ];
    for body in bodies {
        let text = counted(&["tensor<8xi32>", "tensor<8xi32>"], &body);
        for n in [0, 1, 2, 3, 12] {
            both(&text, &[times(n), plain.clone(), swapped.clone()]);
        }
    }
}

#[test]
fn slices_clamp_and_scatters_skip_outside_positions() {
    let text = counted(
        &["tensor<5xi64>", "tensor<i64>", "tensor<2xi64>"],
        "%two = stablehlo.constant dense<-3> : tensor<i32>
         %k = stablehlo.add %i, %two : tensor<i32>
         %s = stablehlo.dynamic_slice %c0, %k, sizes = [2] : (tensor<5xi64>, tensor<i32>) -> tensor<2xi64>
         %next2 = stablehlo.add %c2, %s : tensor<2xi64>
         %e = stablehlo.dynamic_slice %c0, %k, sizes = [1] : (tensor<5xi64>, tensor<i32>) -> tensor<1xi64>
         %f = stablehlo.reshape %e : (tensor<1xi64>) -> tensor<i64>
         %next1 = stablehlo.subtract %f, %c1 : tensor<i64>
         %at = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
         %g = \"stablehlo.gather\"(%c0, %at) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
             start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 1>}
             : (tensor<5xi64>, tensor<1xi32>) -> tensor<i64>
         %h = stablehlo.add %g, %next1 : tensor<i64>
         %next0 = \"stablehlo.scatter\"(%c0, %at, %h) ({
         ^bb0(%old: tensor<i64>, %new: tensor<i64>):
           stablehlo.return %new : tensor<i64>
         }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
             index_vector_dim = 0>} : (tensor<5xi64>, tensor<1xi32>, tensor<i64>) -> tensor<5xi64>",
    );
    let inputs = [
        times(12),
        tensor(DType::I64, &[5], &[10i64, 20, 30, 40, 50]),
        tensor(DType::I64, &[], &[1i64]),
        tensor(DType::I64, &[2], &[0i64, 0]),
    ];
    both(&text, &inputs);
}

#[test]
fn compiled_loops_can_be_stopped() {
    let text = counted(
        &["tensor<i32>"],
        "%forever:1 = stablehlo.while(%j = %c0) : tensor<i32>
          cond {
           %yes = stablehlo.compare EQ, %j, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %yes : tensor<i1>
         } do {
           %o = stablehlo.constant dense<1> : tensor<i32>
           %j1 = stablehlo.add %j, %o : tensor<i32>
           stablehlo.return %j1 : tensor<i32>
         }
         %next0 = stablehlo.add %forever, %one : tensor<i32>",
    );
    let program = compiled(&text, true);
    assert_eq!(interpreted(&program.block), 0);
    let stop = Stop::new();
    let result = thread::scope(|scope| {
        let run = scope.spawn(|| program.run_in(vec![times(1), times(0)], Pool::global(), None, Some(&stop)));
        thread::sleep(Duration::from_millis(50));
        assert!(!run.is_finished());
        stop.request();
        run.join().unwrap()
    });
    assert_eq!(result.map(drop), Err(RunError::Stopped));
}

#[test]
fn steps_of_the_interpreter_in_a_loop() {
    let text = counted(
        &["tensor<4x4xf32>", "tensor<4xf32>", "tensor<bf16>", "tensor<300xf32>", "tensor<6xi32>"],
        "%p = stablehlo.dot_general %c0, %c1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
         %low = stablehlo.constant dense<0.0> : tensor<f32>
         %sum = stablehlo.reduce(%p init: %low) applies stablehlo.add across dimensions = [0]
           : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
         %all = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<4xf32>
         %scale = stablehlo.constant dense<0.01> : tensor<4xf32>
         %small = stablehlo.multiply %all, %scale : tensor<4xf32>
         %next1 = stablehlo.add %p, %small : tensor<4xf32>
         %next0 = stablehlo.transpose %c0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
         %b = stablehlo.convert %sum : (tensor<f32>) -> tensor<bf16>
         %next2 = stablehlo.add %c2, %b : tensor<bf16>
         %e = chlo.erf %sum : tensor<f32> -> tensor<f32>
         %wide = stablehlo.broadcast_in_dim %e, dims = [] : (tensor<f32>) -> tensor<300xf32>
         %exp = stablehlo.exponential %wide : tensor<300xf32>
         %next3 = stablehlo.maximum %c3, %exp : tensor<300xf32>
         %next4 = \"stablehlo.sort\"(%c4) ({
         ^bb0(%l: tensor<i32>, %r: tensor<i32>):
           %lt = stablehlo.compare LT, %l, %r : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %lt : tensor<i1>
         }) {dimension = 0 : i64} : (tensor<6xi32>) -> tensor<6xi32>",
    );
    let matrix: Vec<f32> = (0..16).map(|i| (i as f32).sin() * 0.4).collect();
    for n in [0, 1, 2, 9] {
        let inputs = [
            times(n),
            tensor(DType::F32, &[4, 4], &matrix),
            tensor(DType::F32, &[4], &[1f32, -2.0, 3.0, 0.5]),
            tensor(DType::Bf16, &[], &[half::bf16::from_f32(0.25)]),
            tensor(DType::F32, &[300], &[0.5f32; 300]),
            tensor(DType::I32, &[6], &[3, 1, 4, 1, 5, 9]),
        ];
        both(&text, &inputs);
    }
}

/// Generates random bodies of loops.
struct Generator {
    state: u64,
    lines: Vec<String>,
    /// The name and the element type of each value that later lines may use. Arrays have [`N`] elements.
    scalars: Vec<(String, DType)>,
    arrays: Vec<(String, DType)>,
    names: usize,
}

const N: usize = 5;
const TYPES: [DType; 12] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F32,
    DType::F64,
    DType::Bf16,
];

impl Generator {
    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state % n as u64).unwrap_or(0)
    }

    fn ty(dtype: DType, array: bool) -> String {
        if array { format!("tensor<{N}x{}>", dtype.name()) } else { format!("tensor<{}>", dtype.name()) }
    }

    fn pick(&mut self, dtype: DType, array: bool) -> String {
        let values = if array { &self.arrays } else { &self.scalars };
        let fits: Vec<String> = values.iter().filter(|(_, d)| *d == dtype).map(|(name, _)| name.clone()).collect();
        let at = self.below(fits.len());
        fits[at].clone()
    }

    /// Adds a line that computes a new value, and returns the name of the value.
    fn add(&mut self, dtype: DType, array: bool, text: String) -> String {
        let name = format!("%g{}", self.names);
        self.names += 1;
        self.lines.push(format!("{name} = {text}"));
        let values = if array { &mut self.arrays } else { &mut self.scalars };
        values.push((name.clone(), dtype));
        name
    }

    fn op(&mut self, nested: usize) {
        let dtype = TYPES[self.below(TYPES.len())];
        let array = self.below(2) == 0;
        let ty = Self::ty(dtype, array);
        let of = |list: &[&'static str], this: &mut Self| list[this.below(list.len())];
        let real = dtype.is_float();
        match self.below(14) {
            0..3 => {
                let name = if dtype == DType::Bool {
                    of(&["and", "or", "xor", "add", "multiply", "maximum", "minimum"], self)
                } else if real {
                    of(
                        &["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"],
                        self,
                    )
                } else {
                    let all = [
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
                        "power",
                    ];
                    of(&all, self)
                };
                let (a, b) = (self.pick(dtype, array), self.pick(dtype, array));
                self.add(dtype, array, format!("stablehlo.{name} {a}, {b} : {ty}"));
            }
            3 | 4 => {
                let name = if dtype == DType::Bool {
                    "not"
                } else if real {
                    let all = [
                        "abs",
                        "negate",
                        "sign",
                        "ceil",
                        "floor",
                        "round_nearest_even",
                        "round_nearest_afz",
                        "sqrt",
                        "rsqrt",
                        "exponential",
                        "exponential_minus_one",
                        "exp2",
                        "log",
                        "log2",
                        "log_plus_one",
                        "logistic",
                        "tanh",
                        "sine",
                        "cosine",
                        "tan",
                        "cbrt",
                    ];
                    of(&all, self)
                } else {
                    of(&["negate", "abs", "sign", "not", "popcnt", "count_leading_zeros"], self)
                };
                let is_odd = matches!(name, "abs" | "negate" | "sign") && !real && dtype.name().starts_with("ui");
                let name = if is_odd { "not" } else { name };
                let a = self.pick(dtype, array);
                self.add(dtype, array, format!("stablehlo.{name} {a} : {ty}"));
            }
            5 => {
                let direction = of(&["EQ", "NE", "LT", "LE", "GT", "GE"], self);
                let kind = if real { of(&["FLOAT", "TOTALORDER"], self) } else { "" };
                let kind = if kind.is_empty() { String::new() } else { format!(", {kind}") };
                let (a, b) = (self.pick(dtype, array), self.pick(dtype, array));
                let to = Self::ty(DType::Bool, array);
                self.add(
                    DType::Bool,
                    array,
                    format!("stablehlo.compare {direction}, {a}, {b}{kind} : ({ty}, {ty}) -> {to}"),
                );
            }
            6 => {
                let by_element = array && self.below(2) == 0;
                let (p, a, b) = (self.pick(DType::Bool, by_element), self.pick(dtype, array), self.pick(dtype, array));
                let pred = Self::ty(DType::Bool, by_element);
                self.add(dtype, array, format!("stablehlo.select {p}, {a}, {b} : {pred}, {ty}"));
            }
            7 => {
                let from = TYPES[self.below(TYPES.len())];
                let a = self.pick(from, array);
                self.add(dtype, array, format!("stablehlo.convert {a} : ({}) -> {ty}", Self::ty(from, array)));
            }
            8 => {
                let (a, many, one) = (self.pick(dtype, false), Self::ty(dtype, true), Self::ty(dtype, false));
                self.add(dtype, true, format!("stablehlo.broadcast_in_dim {a}, dims = [] : ({one}) -> {many}"));
            }
            9 => {
                let (a, at) = (self.pick(dtype, true), self.pick(DType::I32, false));
                let (many, one) = (Self::ty(dtype, true), format!("tensor<1x{}>", dtype.name()));
                let part = format!("%g{}", self.names);
                self.names += 1;
                self.lines.push(format!(
                    "{part} = stablehlo.dynamic_slice {a}, {at}, sizes = [1] : ({many}, tensor<i32>) -> {one}"
                ));
                self.add(dtype, false, format!("stablehlo.reshape {part} : ({one}) -> {}", Self::ty(dtype, false)));
            }
            10 => {
                let (a, x, at) = (self.pick(dtype, true), self.pick(dtype, false), self.pick(DType::I32, false));
                let (many, one) = (Self::ty(dtype, true), format!("tensor<1x{}>", dtype.name()));
                let part = format!("%g{}", self.names);
                self.names += 1;
                self.lines.push(format!("{part} = stablehlo.reshape {x} : ({}) -> {one}", Self::ty(dtype, false)));
                let text = format!(
                    "stablehlo.dynamic_update_slice {a}, {part}, {at} : ({many}, {one}, tensor<i32>) -> {many}"
                );
                self.add(dtype, true, text);
            }
            11 => {
                let (a, many) = (self.pick(dtype, true), Self::ty(dtype, true));
                self.add(dtype, true, format!("stablehlo.reverse {a}, dims = [0] : {many}"));
            }
            12 if !matches!(dtype, DType::Bool) => {
                let (a, x, one) = (self.pick(dtype, true), self.pick(dtype, false), Self::ty(dtype, false));
                let name = of(&["add", "maximum", "minimum"], self);
                let many = Self::ty(dtype, true);
                self.add(
                    dtype,
                    false,
                    format!(
                        "stablehlo.reduce({a} init: {x}) applies stablehlo.{name} across dimensions = [0] : ({many}, {one}) -> {one}"
                    ),
                );
            }
            _ if nested > 0 => self.branch(dtype, array, nested - 1),
            _ => {}
        }
    }

    /// Adds an `if` whose branches compute their own values.
    fn branch(&mut self, dtype: DType, array: bool, nested: usize) {
        let pred = self.pick(DType::Bool, false);
        let mut branches = Vec::new();
        for _ in 0..2 {
            let outer = (std::mem::take(&mut self.lines), self.scalars.len(), self.arrays.len());
            for _ in 0..self.below(6) {
                self.op(nested);
            }
            let result = self.pick(dtype, array);
            let lines = std::mem::replace(&mut self.lines, outer.0);
            self.scalars.truncate(outer.1);
            self.arrays.truncate(outer.2);
            branches.push(format!("{}\nstablehlo.return {result} : {}", lines.join("\n"), Self::ty(dtype, array)));
        }
        let text = format!(
            "\"stablehlo.if\"({pred}) ({{\n{}\n}}, {{\n{}\n}}) : (tensor<i1>) -> {}",
            branches[0],
            branches[1],
            Self::ty(dtype, array)
        );
        self.add(dtype, array, text);
    }
}

#[test]
fn random_bodies_compute_the_same() {
    let names: Vec<String> = TYPES.iter().map(|d| Generator::ty(*d, false)).collect();
    let arrays: Vec<String> = TYPES.iter().map(|d| Generator::ty(*d, true)).collect();
    let types: Vec<&str> = names.iter().chain(&arrays).map(String::as_str).collect();
    for seed in 1..=24u64 {
        let carried = |offset: usize| TYPES.iter().enumerate().map(move |(k, d)| (format!("%c{}", k + offset), *d));
        let mut generator = Generator {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            lines: Vec::new(),
            scalars: carried(0).chain([("%i".to_owned(), DType::I32)]).collect(),
            arrays: carried(TYPES.len()).collect(),
            names: 0,
        };
        for _ in 0..40 {
            generator.op(2);
        }
        for (k, ty) in types.iter().enumerate() {
            let (dtype, array) = (TYPES[k % TYPES.len()], k >= TYPES.len());
            let from = generator.pick(dtype, array);
            generator.lines.push(format!("%next{k} = stablehlo.reshape {from} : ({ty}) -> {ty}"));
        }
        let text = counted(&types, &generator.lines.join("\n"));
        let mut inputs = vec![times([0, 1, 3, 17][generator.below(4)])];
        for k in 0..types.len() {
            let (dtype, count) = (TYPES[k % TYPES.len()], if k < TYPES.len() { 1 } else { N });
            let bytes: Vec<u8> = match dtype {
                DType::Bool => (0..count).map(|_| u8::from(generator.below(2) == 0)).collect(),
                DType::F32 => (0..count).flat_map(|_| (generator.below(64) as f32 / 8.0 - 4.0).to_ne_bytes()).collect(),
                DType::F64 => (0..count).flat_map(|_| (generator.below(64) as f64 / 8.0 - 4.0).to_ne_bytes()).collect(),
                DType::Bf16 => {
                    let x = |n: usize| half::bf16::from_f32(n as f32 / 8.0 - 4.0).to_bits().to_ne_bytes();
                    (0..count).flat_map(|_| x(generator.below(64))).collect()
                }
                _ => (0..count * dtype.size()).map(|_| u8::try_from(generator.below(256)).unwrap_or(0)).collect(),
            };
            let dims = if count == 1 { &[][..] } else { &[N] };
            inputs.push(Tensor::from_bytes(Pool::global(), dtype, dims, &bytes).unwrap());
        }
        both(&text, &inputs);
    }
}

/// The time of the translation is proportional to the number of branches.
#[test]
fn thousands_of_branches() {
    const BRANCHES: usize = 3000;
    let branch = |k: usize| {
        format!(
            "%q{k} = stablehlo.compare LT, %v{k}, %h : (tensor<f32>, tensor<f32>) -> tensor<i1>
             %v{} = \"stablehlo.if\"(%q{k}) ({{
               %t{k} = stablehlo.add %v{k}, %h : tensor<f32>
               stablehlo.return %t{k} : tensor<f32>
             }}, {{
               %u{k} = stablehlo.subtract %v{k}, %h : tensor<f32>
               stablehlo.return %u{k} : tensor<f32>
             }}) : (tensor<i1>) -> tensor<f32>\n",
            k + 1
        )
    };
    let body = format!(
        "%h = stablehlo.constant dense<2.0> : tensor<f32>
         %z = stablehlo.constant dense<0> : tensor<i32>
         %one = stablehlo.constant dense<1> : tensor<i32>
         %n = stablehlo.constant dense<3> : tensor<i32>
         %r:2 = stablehlo.while(%i = %z, %v0 = %x) : tensor<i32>, tensor<f32>
           cond {{ %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                   stablehlo.return %p : tensor<i1> }}
           do {{ {}
                 %j = stablehlo.add %i, %one : tensor<i32>
                 stablehlo.return %j, %v{BRANCHES} : tensor<i32>, tensor<f32> }}
         return %r#1 : tensor<f32>",
        (0..BRANCHES).map(branch).collect::<String>()
    );
    let program = program("%x: tensor<f32>", "tensor<f32>", &body);
    // The values alternate between 1 and 3, and between 2 and 0.
    assert_eq!(run::<f32>(&program, vec![tensor(DType::F32, &[], &[1f32])]), [1.0]);
    assert_eq!(run::<f32>(&program, vec![tensor(DType::F32, &[], &[4f32])]), [0.0]);
}
