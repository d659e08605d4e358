//! Trains a layer on the embedded device with a traced step that donates the weights. Checks the result with eager
//! operations.
#![allow(clippy::unwrap_used, reason = "a test")]

use rust_framework::{Function, Runtime, Tensor};
use stablehlo::builder::{Argument, DotGeneral};
use stablehlo::ir::{ElementType, TensorType};

const SAMPLES: i64 = 8;

fn f32s(shape: &[i64]) -> TensorType {
    TensorType::new(shape, ElementType::F32)
}

#[test]
fn eager_operations_compute_and_reject() {
    let runtime = Runtime::open("cpu").unwrap();
    let x = Tensor::new(&runtime, &[1.0, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let row = Tensor::new(&runtime, &[10.0, 20.0], &[2]).unwrap();
    assert_eq!(x.add(&row).unwrap().to_vec().unwrap(), [11.0, 22.0, 13.0, 24.0]);
    assert_eq!(x.matmul(&x).unwrap().multiply(&x).unwrap().to_vec().unwrap(), [7.0, 20.0, 45.0, 88.0]);
    assert_eq!(x.sum().unwrap().to_vec().unwrap(), [10.0]);
    assert_eq!(x.tanh().unwrap().ty(), x.ty());
    let three = Tensor::new(&runtime, &[0.0; 3], &[3]).unwrap();
    let error = x.add(&three).map(drop).unwrap_err().to_string();
    assert!(error.contains("stablehlo.") && error.contains("eager.rs"), "{error}");
}

#[test]
fn traced_step_trains_with_donated_weights() {
    let runtime = Runtime::open("cpu").unwrap();
    // ANCHOR: step
    // The first argument contains the weights. It is donated to the first result, the new weights. The second result is
    // the loss.
    let weights = Argument::new(f32s(&[3, 1])).donated_to(0);
    let arguments = [weights, f32s(&[SAMPLES, 3]).into(), f32s(&[SAMPLES, 1]).into()];
    let step = Function::trace(&runtime, arguments, |f, arguments| {
        let &[weights, x, y] = arguments else { unreachable!("three arguments") };
        f.numpy_broadcasting(true);
        let prediction = f.dot_general(x, weights, DotGeneral::new().contracting([1], [0]))?;
        let error = f.subtract(prediction, y)?;
        let gradient = f.dot_general(x, error, DotGeneral::new().contracting([0], [0]))?;
        let change = f.multiply(gradient, f.constant(0.05f32)?)?;
        let squares = f.multiply(error, error)?;
        let loss = f.reduce(squares, f.constant(0f32)?, &[0, 1], |a, b| f.add(a, b))?;
        Ok(vec![f.subtract(weights, change)?, loss])
    })
    .unwrap();
    // ANCHOR_END: step

    let inputs: Vec<f32> = (0..SAMPLES * 3).map(|i| ((i * 7) % 11) as f32 / 11.0).collect();
    let x = Tensor::new(&runtime, &inputs, &[SAMPLES, 3]).unwrap();
    let truth = Tensor::new(&runtime, &[1.0, -2.0, 0.5], &[3, 1]).unwrap();
    let y = x.matmul(&truth).unwrap();
    let mut weights = Tensor::new(&runtime, &[0.0; 3], &[3, 1]).unwrap();
    let mut losses = Vec::new();
    for _ in 0..2000 {
        let mut results = step.call(vec![weights], &[&x, &y]).unwrap();
        losses.push(results.pop().unwrap());
        weights = results.pop().unwrap();
    }
    // The first step computes the loss with all weights equal to 0.
    let first = y.multiply(&y).unwrap().sum().unwrap().to_vec().unwrap()[0];
    assert!((losses[0].to_vec().unwrap()[0] - first).abs() < 1e-4);
    assert!(losses.last().unwrap().to_vec().unwrap()[0] < 1e-4);
    for (found, expected) in weights.to_vec().unwrap().iter().zip([1.0f32, -2.0, 0.5]) {
        assert!((found - expected).abs() < 1e-2, "{found} is not {expected}");
    }
    let clone = weights.clone();
    assert!(step.call(vec![weights], &[&x, &y]).map(drop).unwrap_err().to_string().contains("clones"));
    drop(clone);
}
