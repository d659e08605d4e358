//! Compares the run times of `burn-pjrt` with those of Burn's own CPU backend. The runs of the two backends alternate,
//! and each run ends with a read. The example prints the medians.
//!
//! ```sh
//! cargo run --release --example ratios -- cpu
//! ```

use std::time::{Duration, Instant};

use burn_flex::Flex;
use burn_pjrt::{Pjrt, PjrtDevice};
use burn_tensor::activation::{gelu, softmax};
use burn_tensor::backend::Backend;
use burn_tensor::module::conv2d;
use burn_tensor::ops::ConvOptions;
use burn_tensor::{Tensor, TensorData};

const RUNS: usize = 15;

/// A calculation with one element as its result.
struct Workload<B: Backend> {
    name: &'static str,
    run: Box<dyn Fn() -> Tensor<B, 1>>,
}

fn numbers<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn workloads<B: Backend>(device: &B::Device) -> Vec<Workload<B>> {
    let small = numbers::<B, 1>([16], device);
    let matrix = numbers::<B, 2>([512, 512], device);
    let long = numbers::<B, 2>([1024, 1024], device);
    let (images, kernel) = (numbers::<B, 4>([16, 16, 32, 32], device), numbers::<B, 4>([32, 16, 3, 3], device));
    let (tokens, weights) = (numbers::<B, 2>([256, 256], device), numbers::<B, 2>([256, 256], device));
    vec![
        Workload { name: "sum of 16 numbers", run: Box::new(move || small.clone().sum()) },
        Workload {
            name: "product of 512 x 512 matrices",
            run: Box::new(move || matrix.clone().matmul(matrix.clone()).sum()),
        },
        Workload {
            name: "10 elementwise operations on 2^20 numbers",
            run: Box::new(move || {
                let mut x = long.clone();
                for _ in 0..5 {
                    x = (x * 1.01 + 0.1).clamp(-2.0, 2.0);
                }
                x.sum()
            }),
        },
        Workload {
            name: "softmax and GELU of 2^20 numbers",
            run: {
                let x = numbers::<B, 2>([1024, 1024], device);
                Box::new(move || gelu(softmax(x.clone(), 1)).sum())
            },
        },
        Workload {
            name: "convolution of 16 images, 16 to 32 channels",
            run: Box::new(move || {
                conv2d(images.clone(), kernel.clone(), None, ConvOptions::new([1, 1], [1, 1], [1, 1], 1)).sum()
            }),
        },
        Workload {
            name: "4 layers of 256 x 256 with normalization",
            run: Box::new(move || {
                let mut x = tokens.clone();
                for _ in 0..4 {
                    let y = gelu(x.clone().matmul(weights.clone()));
                    let centered = y.clone() - y.mean_dim(1);
                    x = centered.clone() / ((centered.clone() * centered).mean_dim(1) + 1e-5).sqrt();
                }
                x.sum()
            }),
        },
    ]
}

fn time<B: Backend>(workload: &Workload<B>) -> Duration {
    let start = Instant::now();
    std::hint::black_box((workload.run)().into_data());
    start.elapsed()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plugin = std::env::args().nth(1).unwrap_or_else(|| "cpu".to_owned());
    let device = PjrtDevice::open(&plugin)?;
    println!("| workload | burn-flex | PJRT, {plugin} | ratio |\n|---|---|---|---|");
    for (ours, theirs) in workloads::<Pjrt>(&device).iter().zip(&workloads::<Flex>(&Default::default())) {
        // Do not measure the first run, because it includes compilation.
        let _ = (time(ours), time(theirs));
        let (mut found, mut expected): (Vec<_>, Vec<_>) = (0..RUNS).map(|_| (time(ours), time(theirs))).unzip();
        found.sort();
        expected.sort();
        let (found, expected) = (found[RUNS / 2], expected[RUNS / 2]);
        let ratio = found.as_secs_f64() / expected.as_secs_f64();
        println!("| {} | {expected:.0?} | {found:.0?} | {ratio:.2} |", ours.name);
    }
    Ok(())
}
