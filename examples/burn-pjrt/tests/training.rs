//! Trains a network on PJRT and on Burn's CPU backend, and compares the losses.

#[path = "../examples/mnist/model.rs"]
mod model;

use burn_autodiff::Autodiff;
use burn_core::module::AutodiffModule;
use burn_flex::Flex;
use burn_pjrt::{Pjrt, PjrtDevice};

#[test]
fn losses_match() {
    let (steps, batch) = (40, 32);
    let device = PjrtDevice::default();
    let (network, found) = model::train::<Autodiff<Pjrt>>(&device, steps, batch, |_, _| {});
    let statistics = device.statistics();
    let (_, expected) = model::train::<Autodiff<Flex>>(&Default::default(), steps, batch, |_, _| {});
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // The backends add numbers in different orders. The rounding errors grow with the steps, so the tolerance
        // grows, too.
        let tolerance = 1e-4 + 1e-3 * expected * (step as f32 / 10.0);
        assert!((found - expected).abs() <= tolerance, "step {step}: {found} is not {expected}");
    }
    assert!(found.last() < found.first(), "{found:?}");
    assert!(model::accuracy(&network.valid(), &device) > 0.2);
    // The first step has no optimizer state. All later steps run the program of the second or third step.
    assert!(statistics.compiled <= 4, "{statistics:?}");
    assert!(statistics.runs <= u64::from(steps) + 4, "{statistics:?}");
}
