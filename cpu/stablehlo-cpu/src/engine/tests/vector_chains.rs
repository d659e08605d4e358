//! Tests of chains of `f32` functions. A fused program must compute the same bits as its operations one by one.

use super::{DType, Tensor, program, tensor};
use crate::engine::elementwise::num::{Num, Real};

/// Pseudo-random generator that returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn float(&mut self) -> f32 {
        const ODD: [f32; 7] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-41, -3e38];
        match self.below(40) {
            i if i < ODD.len() => ODD[i],
            _ => f32::from(u16::try_from(self.below(1 << 16)).unwrap()) / 8192.0 - 4.0,
        }
    }

    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

type Function = fn(f32, f32) -> f32;

const TWO: [(&str, Function); 6] = [
    ("add", |a, b| a + b),
    ("subtract", |a, b| a - b),
    ("multiply", |a, b| a * b),
    ("divide", |a, b| a / b),
    ("maximum", Num::max),
    ("minimum", Num::min),
];
const ONE: [(&str, Function); 11] = [
    ("negate", |a, _| -a),
    ("abs", |a, _| a.abs()),
    ("sqrt", |a, _| a.sqrt()),
    ("exponential", |a, _| Real::exp(a)),
    ("tanh", |a, _| Real::tanh(a)),
    ("log", |a, _| Real::ln(a)),
    ("logistic", |a, _| Real::logistic(a)),
    ("sine", |a, _| Real::sin(a)),
    ("cosine", |a, _| Real::cos(a)),
    // The following functions end a chain.
    ("floor", |a, _| a.floor()),
    ("tan", |a, _| a.tan()),
];

/// Checks a random program of `length` operations on `rows x columns` elements.
fn random_program(rows: usize, columns: usize, length: usize, random: &mut Random) {
    let full = format!("tensor<{rows}x{columns}xf32>");
    let inputs =
        [random.floats(rows * columns), random.floats(columns), random.floats(rows), random.floats(1), vec![0.75]];
    let spread = |at: fn(usize, usize) -> usize, from: &[f32]| -> Vec<f32> {
        (0..rows * columns).map(|i| from[at(i / columns, i % columns)]).collect()
    };
    let mut values = vec![
        inputs[0].clone(),
        spread(|_, column| column, &inputs[1]),
        spread(|row, _| row, &inputs[2]),
        spread(|_, _| 0, &inputs[3]),
        spread(|_, _| 0, &inputs[4]),
    ];
    let mut text = format!(
        "%v0 = stablehlo.reshape %a : ({full}) -> {full}
         %v1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<{columns}xf32>) -> {full}
         %v2 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<{rows}xf32>) -> {full}
         %v3 = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> {full}
         %v4 = stablehlo.constant dense<0.75> : {full}\n"
    );
    for at in values.len()..values.len() + length {
        // Mostly choose the most recent value, so that chains become long.
        let mut pick = || if random.below(3) > 0 { at - 1 } else { random.below(at) };
        let (a, b) = (pick(), pick());
        let made = |function: Function| -> Vec<f32> {
            values[a].iter().zip(&values[b]).map(|(&a, &b)| function(a, b)).collect()
        };
        let made = if random.below(3) > 0 {
            let (name, function) = TWO[random.below(TWO.len())];
            text += &format!("%v{at} = stablehlo.{name} %v{a}, %v{b} : {full}\n");
            made(function)
        } else {
            let (name, function) = ONE[random.below(ONE.len())];
            text += &format!("%v{at} = stablehlo.{name} %v{a} : {full}\n");
            made(function)
        };
        values.push(made);
    }
    let last = values.len() - 1;
    let results = [last, random.below(values.len()), last - 1];
    text += &format!("return %v{}, %v{}, %v{} : {full}, {full}, {full}", results[0], results[1], results[2]);
    let parameters = format!("%a: {full}, %b: tensor<{columns}xf32>, %c: tensor<{rows}xf32>, %d: tensor<f32>");
    let program = program(&parameters, &format!("{full}, {full}, {full}"), &text);
    let dims: [&[usize]; 4] = [&[rows, columns], &[columns], &[rows], &[]];
    let tensors: Vec<Tensor> = dims.iter().zip(&inputs).map(|(dims, data)| tensor(DType::F32, dims, data)).collect();
    let outputs = program.run(tensors).unwrap();
    for (output, at) in outputs.iter().zip(results) {
        for (i, (got, want)) in output.as_slice::<f32>().unwrap().iter().zip(&values[at]).enumerate() {
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "element {i} of %v{at} is {got:e}, not {want:e}, in\n{text}");
        }
    }
}

#[test]
fn fused_matches_unfused() {
    let mut random = Random(7);
    for (rows, columns) in [(1, 1), (3, 5), (2, 300), (5, 256), (4, 513), (3, 1024), (2, 2500)] {
        for length in [1, 4, 12, 30, 90, 150] {
            random_program(rows, columns, length, &mut random);
        }
    }
}
