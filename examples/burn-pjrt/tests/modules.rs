//! Tests neural network operations and their gradients, and compares the results with Burn's CPU backend.

mod common;

use burn_autodiff::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::module::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, attention, avg_pool1d, avg_pool2d, conv_transpose1d, conv_transpose2d,
    conv1d, conv2d, conv3d, embedding, interpolate, linear, max_pool1d, max_pool2d, max_pool2d_with_indices,
};
use burn_tensor::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions,
};
use burn_tensor::{Int, Tensor, TensorData};
use common::Results;

fn numbers<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Records the result of a function, and the gradients of the sum of the squared result.
fn with_gradients<B: Backend, const D: usize, const E: usize, const O: usize>(
    r: &mut Results,
    name: &str,
    shapes: ([usize; D], [usize; E]),
    device: &B::Device,
    function: impl Fn(Tensor<Autodiff<B>, D>, Tensor<Autodiff<B>, E>) -> Tensor<Autodiff<B>, O>,
) {
    let x = numbers::<Autodiff<B>, D>(shapes.0, device).require_grad();
    let y = numbers::<Autodiff<B>, E>(shapes.1, device).require_grad();
    let result = function(x.clone(), y.clone());
    let gradients = (result.clone() * result.clone()).sum().backward();
    r.float(name, result.inner());
    r.float(&format!("{name}, first gradient"), x.grad(&gradients).expect("a gradient of the first operand"));
    if let Some(gradient) = y.grad(&gradients) {
        r.float(&format!("{name}, second gradient"), gradient);
    }
}

fn convolutions<B: Backend>(r: &mut Results, device: &B::Device) {
    let bias = || numbers::<Autodiff<B>, 1>([4], device);
    with_gradients::<B, _, _, _>(r, "conv1d", ([2, 4, 9], [4, 2, 3]), device, |x, w| {
        conv1d(x, w, Some(bias()), ConvOptions::new([2], [1], [2], 2))
    });
    with_gradients::<B, _, _, _>(r, "conv2d", ([2, 3, 7, 8], [4, 3, 3, 2]), device, |x, w| {
        conv2d(x, w, Some(bias()), ConvOptions::new([1, 1], [0, 0], [1, 1], 1))
    });
    with_gradients::<B, _, _, _>(r, "conv2d strided", ([2, 4, 8, 7], [4, 2, 3, 3]), device, |x, w| {
        conv2d(x, w, Some(bias()), ConvOptions::new([2, 3], [2, 1], [1, 2], 2))
    });
    with_gradients::<B, _, _, _>(r, "conv3d", ([1, 2, 4, 5, 4], [3, 2, 2, 3, 2]), device, |x, w| {
        conv3d(x, w, None, ConvOptions::new([1, 2, 1], [1, 0, 0], [1, 1, 1], 1))
    });
    with_gradients::<B, _, _, _>(r, "conv_transpose1d", ([2, 3, 5], [3, 4, 3]), device, |x, w| {
        conv_transpose1d(x, w, Some(bias()), ConvTransposeOptions::new([2], [1], [1], [1], 1))
    });
    with_gradients::<B, _, _, _>(r, "conv_transpose2d", ([1, 4, 4, 3], [4, 2, 3, 2]), device, |x, w| {
        conv_transpose2d(x, w, Some(bias()), ConvTransposeOptions::new([2, 1], [1, 0], [1, 0], [1, 2], 2))
    });
}

fn pools<B: Backend>(r: &mut Results, device: &B::Device) {
    let one = [1];
    with_gradients::<B, _, _, _>(r, "avg_pool1d", ([2, 3, 9], one), device, |x, _| avg_pool1d(x, 3, 2, 1, true, false));
    with_gradients::<B, _, _, _>(r, "avg_pool2d", ([2, 3, 7, 8], one), device, |x, _| {
        avg_pool2d(x, [3, 2], [2, 1], [1, 0], false, false)
    });
    with_gradients::<B, _, _, _>(r, "max_pool1d", ([2, 3, 9], one), device, |x, _| max_pool1d(x, 3, 2, 1, 1, false));
    with_gradients::<B, _, _, _>(r, "max_pool2d", ([2, 3, 7, 8], one), device, |x, _| {
        max_pool2d(x, [3, 2], [2, 2], [1, 0], [1, 2], false)
    });
    let x = numbers::<B, 4>([2, 3, 7, 8], device);
    r.float("max_pool2d, ceil", max_pool2d(x.clone(), [2, 2], [2, 2], [0, 0], [1, 1], true));
    let (_, indices) = max_pool2d_with_indices(x.clone(), [3, 3], [1, 2], [1, 1], [1, 1], false);
    r.int("max_pool2d indices", indices);
    with_gradients::<B, _, _, _>(r, "adaptive_avg_pool1d", ([2, 3, 9], one), device, |x, _| adaptive_avg_pool1d(x, 4));
    with_gradients::<B, _, _, _>(r, "adaptive_avg_pool2d", ([2, 3, 7, 8], one), device, |x, _| {
        adaptive_avg_pool2d(x, [3, 5])
    });
    for mode in [InterpolateMode::Nearest, InterpolateMode::Bilinear] {
        with_gradients::<B, _, _, _>(r, "interpolate", ([1, 2, 4, 5], one), device, |x, _| {
            interpolate(x, [7, 3], InterpolateOptions::new(mode.clone()).with_align_corners(false))
        });
        r.float("interpolate", interpolate(x.clone(), [9, 4], InterpolateOptions::new(mode.clone())));
    }
    // Burn's CPU backend does not compute gradients for these modes.
    for mode in [InterpolateMode::Bicubic, InterpolateMode::Lanczos3] {
        for align in [false, true] {
            let options = InterpolateOptions::new(mode.clone()).with_align_corners(align);
            r.float("interpolate", interpolate(x.clone(), [9, 4], options));
        }
    }
}

fn layers<B: Backend>(r: &mut Results, device: &B::Device) {
    let bias = || numbers::<Autodiff<B>, 1>([4], device);
    with_gradients::<B, _, _, _>(r, "linear", ([2, 5, 3], [3, 4]), device, |x, w| linear(x, w, Some(bias())));
    let tokens = || Tensor::<Autodiff<B>, 2, Int>::from_data([[1, 5, 1], [0, 2, 5]], device);
    with_gradients::<B, _, _, _>(r, "embedding", ([6, 4], [1]), device, |table, _| embedding(table, tokens()));
    let (q, k) = (numbers::<B, 4>([2, 2, 3, 4], device), numbers::<B, 4>([2, 2, 5, 4], device));
    let v = numbers::<B, 4>([2, 2, 5, 6], device).flip([2]);
    let mask = numbers::<B, 4>([2, 2, 3, 5], device).greater_elem(0.6);
    r.float("attention", attention(q.clone(), k.clone(), v.clone(), None, None, AttentionModuleOptions::default()));
    r.float("attention, masked", attention(q, k, v, Some(mask), None, AttentionModuleOptions::default()));
}

#[test]
fn convolutions_match() {
    compare!(convolutions, 1e-4);
}

#[test]
fn pools_match() {
    compare!(pools, 1e-5);
}

#[test]
fn layers_match() {
    compare!(layers, 1e-5);
}
