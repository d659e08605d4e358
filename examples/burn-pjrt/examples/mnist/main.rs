//! Trains a small network to classify synthetic images. The first argument names the plugin (`cpu`). For comparison,
//! the same network is trained on Burn's own CPU backend.
//!
//! ```sh
//! cargo run --release --example mnist -- cpu
//! ```

mod model;

use std::time::{Duration, Instant};

use burn_autodiff::Autodiff;
use burn_core::module::AutodiffModule;
use burn_core::tensor::backend::Backend;
use burn_flex::Flex;
use burn_pjrt::{Pjrt, PjrtDevice};

const STEPS: u32 = 150;
const BATCH: usize = 64;

fn run<B: Backend>(name: &str, device: &B::Device) -> f32 {
    let mut times = Vec::new();
    let mut start = Instant::now();
    let (network, losses) = model::train::<Autodiff<B>>(device, STEPS, BATCH, |step, loss| {
        times.push(start.elapsed());
        if step % 30 == 0 {
            println!("{name}: step {step:3}, loss {loss:.4}");
        }
        start = Instant::now();
    });
    times.sort();
    let median: Duration = times[times.len() / 2];
    let loss = losses.last().copied().unwrap_or(f32::NAN);
    let accuracy = model::accuracy::<B>(&network.valid(), device);
    println!("{name}: loss {loss:.4}, accuracy {accuracy:.3}, median of a step {median:?}");
    loss
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plugin = std::env::args().nth(1).unwrap_or_else(|| "cpu".to_owned());
    let device = PjrtDevice::open(&plugin)?;
    let found = run::<Pjrt>(&format!("PJRT, {plugin}"), &device);
    println!("{:?}", device.statistics());
    let expected = run::<Flex>("burn-flex", &Default::default());
    if (found - expected).abs() > 0.02 * expected.abs().max(0.1) {
        return Err(format!("the losses {found} and {expected} differ").into());
    }
    Ok(())
}
