//! Measures the speed of building programs. Prints the time to build and verify programs of about a thousand ops, and
//! the time for one op. With `--assert`, exits with an error if a thousand ops take 1 ms or more in the best run. To
//! start the benchmark, use `cargo bench -p stablehlo-rs --bench build [-- --assert]`.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stablehlo::builder::{DotGeneral, ModuleBuilder, Value};
use stablehlo::ir::{ElementType, Module, TensorType};

/// Time limit for one op, which is 1 ms for a thousand ops.
const LIMIT: Duration = Duration::from_micros(1);

fn main() -> ExitCode {
    let asserts = std::env::args().any(|argument| argument == "--assert");
    let mut all_fast = true;
    for (name, build) in [("elementwise", elementwise as Build), ("transformer blocks", transformer)] {
        match measure(name, build) {
            Ok(per_op) => all_fast &= per_op < LIMIT,
            Err(error) => {
                println!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    if asserts && !all_fast {
        println!("a thousand ops take 1 ms or more");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

type Build = fn() -> stablehlo::Result<Module>;

/// Prints the measured times. Returns the time for one op in the best run.
fn measure(name: &str, build: Build) -> stablehlo::Result<Duration> {
    let ops = build()?.funcs[0].body.ops.len().max(1);
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let start = Instant::now();
            let module = build();
            let time = start.elapsed();
            drop(black_box(module));
            time
        })
        .collect();
    times.sort_unstable();
    let (best, median) = (times[0], times[times.len() / 2]);
    let per_op = best.div_f64(ops as f64);
    println!("{name}: {ops} ops, best {best:.1?}, median {median:.1?}, {per_op:.0?} for an op");
    Ok(per_op)
}

/// Builds a chain of elementwise ops.
fn elementwise() -> stablehlo::Result<Module> {
    let module = ModuleBuilder::new("elementwise");
    module.function("main", |f| {
        let mut x = f.argument(TensorType::new([64, 256], ElementType::F32))?;
        for _ in 0..250 {
            x = f.add(f.tanh(f.multiply(x, x)?)?, x)?;
        }
        Ok(x)
    })?;
    module.build()
}

/// Builds blocks of matrix multiplications, a softmax and elementwise ops.
fn transformer() -> stablehlo::Result<Module> {
    let module = ModuleBuilder::new("transformer");
    module.function("main", |f| {
        let mut x = f.argument(TensorType::new([64, 256], ElementType::F32))?;
        let w = f.argument(TensorType::new([256, 256], ElementType::F32))?;
        let (zero, low, scale) = (f.constant(0f32)?, f.constant(f32::NEG_INFINITY)?, f.constant(0.125f32)?);
        for _ in 0..45 {
            let heads = |y: Value| f.reshape(y, &[64, 8, 32]);
            let product = |x, y| f.dot_general(x, y, DotGeneral::new().contracting([1], [0]));
            let (q, k) = (heads(product(x, w)?)?, heads(product(x, w)?)?);
            let s = f.dot_general(q, k, DotGeneral::new().batching([1], [1]).contracting([2], [2]))?;
            let s = f.multiply(s, f.broadcast_in_dim(scale, &[], &[8, 64, 64])?)?;
            let max = f.reduce(s, low, &[2], |a, b| f.maximum(a, b))?;
            let e = f.exponential(f.subtract(s, f.broadcast_in_dim(max, &[0, 1], &[8, 64, 64])?)?)?;
            let sum = f.reduce(e, zero, &[2], |a, b| f.add(a, b))?;
            let p = f.divide(e, f.broadcast_in_dim(sum, &[0, 1], &[8, 64, 64])?)?;
            let y = f.dot_general(p, k, DotGeneral::new().batching([0], [1]).contracting([2], [0]))?;
            let y = f.reshape(f.transpose(y, &[1, 0, 2])?, &[64, 256])?;
            x = f.add(x, f.tanh(product(y, w)?)?)?;
        }
        Ok(x)
    })?;
    module.build()
}
