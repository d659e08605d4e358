//! Measures the best and the median time of typical programs over many runs. Start the benchmark with `cargo bench -p
//! stablehlo-cpu --bench engine [-- FILTER]`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use stablehlo_cpu::{DType, Pool, Program, Tensor, compile};

/// Calls `run` for about a second, and prints the best time, the median time and the rate. `work` is the work of one
/// run, and `unit` is the unit of the rate. Does nothing if `name` does not contain `filter`.
fn time(name: &str, filter: &str, work: f64, unit: &str, mut run: impl FnMut()) {
    if !name.contains(filter) {
        return;
    }
    let start = Instant::now();
    run();
    run();
    let once = (start.elapsed() / 2).max(Duration::from_nanos(50));
    // Run enough iterations per batch that a batch takes much longer than the clock's resolution.
    let batch = (Duration::from_micros(20).as_nanos() / once.as_nanos()).max(1);
    let mut samples = Vec::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) || samples.len() < 5 {
        let t = Instant::now();
        for _ in 0..batch {
            run();
        }
        samples.push(t.elapsed().as_secs_f64() / batch as f64);
    }
    samples.sort_by(f64::total_cmp);
    let (best, median) = (samples[0], samples[samples.len() / 2]);
    println!(
        "{name:34} best {:>11.3} us  median {:>11.3} us  {:>8.2} {unit}",
        best * 1e6,
        median * 1e6,
        work / median / 1e9
    );
}

fn program(body: &str, parameters: &str, results: &str) -> Program {
    let text = format!("func.func @main({parameters}) -> ({results}) {{\n{body}\n}}");
    compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("bench program")).expect("bench program")
}

fn random(dims: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let elements: Vec<f32> = (0..dims.iter().product::<usize>())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f32::from((state >> 48) as u16) / 65536.0 - 0.5
        })
        .collect();
    let mut tensor = Tensor::uninit(Pool::global(), DType::F32, dims).expect("bench tensor");
    tensor.bytes_mut().expect("a new tensor has one owner").copy_from_slice(bytemuck::cast_slice(&elements));
    tensor
}

fn run(program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    black_box(program.run(inputs.to_vec()).expect("bench run"))
}

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let filter = filter.as_str();

    let tiny = "tensor<4xf32>";
    let add = program(
        &format!("%0 = stablehlo.add %a, %b : {tiny}\n return %0 : {tiny}"),
        &format!("%a: {tiny}, %b: {tiny}"),
        tiny,
    );
    let (a, b) = (random(&[4], 1), random(&[4], 2));
    time("add f32[4]", filter, 4.0, "G/s", || drop(run(&add, &[a.clone(), b.clone()])));
    let mut x = random(&[4], 3);
    time("add f32[4], donated chain", filter, 4.0, "G/s", || {
        let given = std::mem::replace(&mut x, b.clone());
        x = add.run(vec![given, b.clone()]).expect("bench run").remove(0);
    });

    let big = "tensor<16777216xf32>";
    let x16 = random(&[1 << 24], 4);
    let bytes = 2.0 * 4.0 * f64::from(1 << 24);
    let scale = program(
        &format!(
            "%c = stablehlo.constant dense<1.5> : {big}\n %0 = stablehlo.multiply %a, %c : {big}\n return %0 : {big}"
        ),
        &format!("%a: {big}"),
        big,
    );
    time("x*1.5 16M", filter, bytes, "GB/s", || drop(run(&scale, std::slice::from_ref(&x16))));
    let linear = program(
        &format!(
            "%c = stablehlo.constant dense<1.5> : {big}\n %0 = stablehlo.multiply %a, %c : {big}\n %1 = stablehlo.add %0, %c : {big}\n %2 = stablehlo.multiply %1, %a : {big}\n %3 = stablehlo.subtract %2, %c : {big}\n %4 = stablehlo.maximum %3, %c : {big}\n return %4 : {big}"
        ),
        &format!("%a: {big}"),
        big,
    );
    time("linear chain 16M", filter, bytes, "GB/s", || drop(run(&linear, std::slice::from_ref(&x16))));
    let chain = program(
        &format!(
            "%c = stablehlo.constant dense<1.5> : {big}\n %0 = stablehlo.multiply %a, %c : {big}\n %1 = stablehlo.tanh %0 : {big}\n %2 = stablehlo.add %1, %c : {big}\n %3 = stablehlo.exponential %2 : {big}\n return %3 : {big}"
        ),
        &format!("%a: {big}"),
        big,
    );
    time("tanh exp chain 16M", filter, bytes, "GB/s", || drop(run(&chain, std::slice::from_ref(&x16))));
    let sum = program(
        &format!(
            "%c = stablehlo.constant dense<0.0> : tensor<f32>\n %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0] : ({big}, tensor<f32>) -> tensor<f32>\n return %0 : tensor<f32>"
        ),
        &format!("%a: {big}"),
        "tensor<f32>",
    );
    time("sum 16M", filter, bytes / 2.0, "GB/s", || drop(run(&sum, std::slice::from_ref(&x16))));

    let m = "tensor<4096x4096xf32>";
    let x4 = x16.reshaped(&[4096, 4096]).expect("same elements");
    for (name, axis) in [("row sums 4096", 1), ("column sums 4096", 0)] {
        let sums = program(
            &format!(
                "%c = stablehlo.constant dense<0.0> : tensor<f32>\n %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [{axis}] : ({m}, tensor<f32>) -> tensor<4096xf32>\n return %0 : tensor<4096xf32>"
            ),
            &format!("%a: {m}"),
            "tensor<4096xf32>",
        );
        time(name, filter, bytes / 2.0, "GB/s", || drop(run(&sums, std::slice::from_ref(&x4))));
    }
    let transpose = program(
        &format!("%0 = stablehlo.transpose %a, dims = [1, 0] : ({m}) -> {m}\n return %0 : {m}"),
        &format!("%a: {m}"),
        m,
    );
    time("transpose 4096", filter, bytes, "GB/s", || drop(run(&transpose, std::slice::from_ref(&x4))));
    let softmax = program(
        &format!("%i = stablehlo.constant dense<0xFF800000> : tensor<f32>\n %z = stablehlo.constant dense<0.0> : tensor<f32>\n
            %0 = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [1] : ({m}, tensor<f32>) -> tensor<4096xf32>
            %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4096xf32>) -> {m}
            %2 = stablehlo.subtract %a, %1 : {m}
            %3 = stablehlo.exponential %2 : {m}
            %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] : ({m}, tensor<f32>) -> tensor<4096xf32>
            %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4096xf32>) -> {m}
            %6 = stablehlo.divide %3, %5 : {m}\n return %6 : {m}"),
        &format!("%a: {m}"), m);
    time("softmax 4096x4096", filter, bytes, "GB/s", || drop(run(&softmax, std::slice::from_ref(&x4))));

    for n in [64usize, 256, 512, 1024, 2048] {
        let t = format!("tensor<{n}x{n}xf32>");
        let dot = program(
            &format!(
                "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}\n return %0 : {t}"
            ),
            &format!("%a: {t}, %b: {t}"),
            &t,
        );
        let (a, b) = (random(&[n, n], 5), random(&[n, n], 6));
        time(&format!("matmul {n}"), filter, 2.0 * (n as f64).powi(3), "GFLOP/s", || {
            drop(run(&dot, &[a.clone(), b.clone()]))
        });
    }

    mlp(filter);
}

/// Measures one step of gradient descent of a 784-512-512-10 perceptron with mean squared error and a batch of 128.
fn mlp(filter: &str) {
    let text = include_str!("mlp_step.mlir");
    let step =
        compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("bench program")).expect("bench program");
    let inputs: Vec<Tensor> = step.parameters().iter().zip(1..).map(|(p, seed)| random(&p.ty.dims, seed)).collect();
    let flop = 2.0 * 128.0 * (784.0 * 512.0 * 2.0 + 512.0 * 512.0 * 3.0 + 512.0 * 10.0 * 3.0);
    time("MLP SGD step b128", filter, flop, "GFLOP/s", || drop(run(&step, &inputs)));
}
