//! A small convolutional network that classifies images, and its training on synthetic images.

// The derive macro of `Module` refers to the crate `burn_core` by the name `burn`.
use burn_core as burn;

use burn_core::module::{Module, ModuleMapper, Param};
use burn_core::tensor::backend::{AutodiffBackend, Backend};
use burn_core::tensor::{Int, Tensor, TensorData};
use burn_nn::conv::{Conv2d, Conv2dConfig};
use burn_nn::loss::CrossEntropyLossConfig;
use burn_nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn_nn::{Linear, LinearConfig, Relu};
use burn_optim::{AdamConfig, GradientsParams, Optimizer};

/// Height and width of an image.
const SIDE: usize = 16;
const CLASSES: usize = 10;

/// Two convolutions, each followed by a pooling layer, and two linear layers.
#[derive(Module, Debug)]
pub(crate) struct Network<B: Backend> {
    first: Conv2d<B>,
    second: Conv2d<B>,
    pool: MaxPool2d,
    hidden: Linear<B>,
    output: Linear<B>,
    activation: Relu,
}

impl<B: Backend> Network<B> {
    /// Creates a network whose weights are the same on all backends.
    pub(crate) fn new(device: &B::Device) -> Self {
        let network = Self {
            first: Conv2dConfig::new([1, 8], [3, 3]).init(device),
            second: Conv2dConfig::new([8, 16], [3, 3]).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(16 * 2 * 2, 32).init(device),
            output: LinearConfig::new(32, CLASSES).init(device),
            activation: Relu::new(),
        };
        network.map(&mut Weights { drawn: 0 })
    }

    /// Returns the scores of the classes for images of the shape `[batch, 1, height, width]`.
    pub(crate) fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = self.pool.forward(self.activation.forward(self.first.forward(images)));
        let x = self.pool.forward(self.activation.forward(self.second.forward(x)));
        let x = self.activation.forward(self.hidden.forward(x.flatten(1, 3)));
        self.output.forward(x)
    }
}

/// Sets weights to pseudo-random values that do not depend on the backend.
struct Weights {
    drawn: u32,
}

impl<B: Backend> ModuleMapper<B> for Weights {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, weights, mapper) = param.consume();
        let shape = weights.shape();
        // Compute the number of inputs of each output. Outputs are the first dimension of a convolution's weights, and
        // the second dimension of a linear layer's weights.
        let dims = shape.as_slice();
        let inputs: usize = if dims.len() == 4 { dims[1..].iter().product() } else { dims[0] };
        let scale = (6.0 / inputs as f32).sqrt();
        let values: Vec<f32> = (0..shape.num_elements()).map(|_| (noise(&mut self.drawn) - 0.5) * scale).collect();
        let weights = Tensor::from_data(TensorData::new(values, shape), &weights.device()).require_grad();
        Param::from_mapped_value(id, weights, mapper)
    }
}

/// Returns the next value of a pseudo-random sequence, at least 0 and less than 1.
fn noise(drawn: &mut u32) -> f32 {
    *drawn += 1;
    let mut x = drawn.wrapping_mul(0x9E37_79B9);
    x = (x ^ (x >> 15)).wrapping_mul(0x2C1B_3C6D);
    x ^= x >> 12;
    (x >> 8) as f32 / 16_777_216.0
}

/// Returns images and their classes. An image has noise and a bright bar. The direction and the position of the bar
/// depend on the class.
pub(crate) fn images<B: Backend>(batch: usize, seed: u32, device: &B::Device) -> (Tensor<B, 4>, Tensor<B, 1, Int>) {
    let mut drawn = seed * 1_000_003;
    let (mut pixels, mut classes) = (Vec::with_capacity(batch * SIDE * SIDE), Vec::with_capacity(batch));
    for _ in 0..batch {
        let class = (noise(&mut drawn) * CLASSES as f32) as usize % CLASSES;
        classes.push(class as i32);
        for (row, column) in (0..SIDE).flat_map(|row| (0..SIDE).map(move |column| (row, column))) {
            let along = if class < CLASSES / 2 { row } else { column };
            let bright = along / 3 == class % (CLASSES / 2);
            pixels.push(noise(&mut drawn) * 0.5 + f32::from(u8::from(bright)));
        }
    }
    let images = Tensor::from_data(TensorData::new(pixels, [batch, 1, SIDE, SIDE]), device);
    (images, Tensor::from_data(TensorData::new(classes, [batch]), device))
}

/// Trains a network. Returns the network and the loss of each step. Calls `report` after each step.
pub(crate) fn train<B: AutodiffBackend>(
    device: &B::Device,
    steps: u32,
    batch: usize,
    mut report: impl FnMut(u32, f32),
) -> (Network<B>, Vec<f32>) {
    let mut network = Network::<B>::new(device);
    let mut optimizer = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(device);
    let mut losses = Vec::new();
    for step in 0..steps {
        let (images, classes) = images::<B>(batch, step + 1, device);
        let value = loss.forward(network.forward(images), classes);
        let gradients = GradientsParams::from_grads(value.backward(), &network);
        network = optimizer.step(3e-3, network, gradients);
        // Reading the loss runs the recorded operations of the step.
        let value: f32 = value.into_data().iter().next().unwrap_or(f32::NAN);
        losses.push(value);
        report(step, value);
    }
    (network, losses)
}

/// Returns the fraction of images that a network classifies correctly.
pub(crate) fn accuracy<B: Backend>(network: &Network<B>, device: &B::Device) -> f32 {
    let (images, classes) = images::<B>(256, 999, device);
    let found = network.forward(images).argmax(1).flatten::<1>(0, 1);
    let right: f32 = found.equal(classes).float().mean().into_data().iter().next().unwrap_or(0.0);
    right
}
