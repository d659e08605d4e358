//! Train a small neural network. The arguments of each training step include the parameters, and its outputs include
//! the updated parameters. The parameters are donated, so that the device needs memory for only one copy of them.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small constants")]

use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::builder::{Argument, DotGeneral, FunctionBuilder, ModuleBuilder, Value};
use pjrt::stablehlo::ir::{ElementType, Module, TensorType};
use pjrt::{Buffer, ClientOptions, CompileOptions, ExecuteOptions, Input, Program};

const SAMPLES: i64 = 128;
const HIDDEN: i64 = 32;
const RATE: f32 = 0.1;
/// Shapes of the weights and biases of the two layers.
const PARAMETERS: [&[i64]; 4] = [&[2, HIDDEN], &[1, HIDDEN], &[HIDDEN, 1], &[1, 1]];

type Built<T> = Result<T, pjrt::stablehlo::ProgramError>;

fn f32s(shape: &[i64]) -> TensorType {
    TensorType::new(shape.to_vec(), ElementType::F32)
}

/// Sums `x` over the samples. The sum is a matrix with one row of `columns` elements.
fn sum(f: &FunctionBuilder, x: Value, columns: i64) -> Built<Value> {
    let sum = f.reduce(x, f.constant(0f32)?, &[0], |a, b| f.add(a, b))?;
    f.reshape(sum, &[1, columns])
}

/// Builds a program for one step of gradient descent. The program returns the updated parameters, and the loss before
/// the update.
fn step() -> Built<Module> {
    let module = ModuleBuilder::new("train_step");
    module.function("main", |f| {
        f.numpy_broadcasting(true);
        let mut parameters = Vec::new();
        for (result, shape) in (0..).zip(PARAMETERS) {
            parameters.push(f.argument(Argument::new(f32s(shape)).donated_to(result))?);
        }
        let [w1, b1, w2, b2] = parameters[..] else { unreachable!("there are four parameters") };
        let x = f.argument(f32s(&[SAMPLES, 2]))?;
        let y = f.argument(f32s(&[SAMPLES, 1]))?;

        // Forward pass: the output of the network and its mean squared error.
        let hidden = f.tanh(f.add(f.dot(x, w1)?, b1)?)?;
        let output = f.add(f.dot(hidden, w2)?, b2)?;
        let error = f.subtract(output, y)?;
        let mean = f.constant(1.0 / SAMPLES as f32)?;
        let loss = f.multiply(sum(f, f.multiply(error, error)?, 1)?, mean)?;

        // Backward pass: the derivative of the loss with respect to each intermediate value and parameter.
        let d_output = f.multiply(error, f.constant(2.0 / SAMPLES as f32)?)?;
        let d_w2 = f.dot_general(hidden, d_output, DotGeneral::new().contracting([0], [0]))?;
        let d_b2 = sum(f, d_output, 1)?;
        let d_hidden = f.dot_general(d_output, w2, DotGeneral::new().contracting([1], [1]))?;
        let slope = f.subtract(f.constant(1f32)?, f.multiply(hidden, hidden)?)?;
        let d_inner = f.multiply(d_hidden, slope)?;
        let d_w1 = f.dot_general(x, d_inner, DotGeneral::new().contracting([0], [0]))?;
        let d_b1 = sum(f, d_inner, HIDDEN)?;

        let rate = f.constant(RATE)?;
        let update = |parameter, gradient| f.subtract(parameter, f.multiply(gradient, rate)?);
        let new = [update(w1, d_w1)?, update(b1, d_b1)?, update(w2, d_w2)?, update(b2, d_b2)?];
        Ok((new, f.reshape(loss, &[])?))
    })?;
    module.build()
}

/// Returns the next pseudorandom number from -1 to 1.
fn noise(seed: &mut u32) -> f32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*seed >> 8) as f32 / (1 << 23) as f32 - 1.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let program = Program::for_plugin(&step()?, &client.plugin())?;
    let step = client.compile(&program, &CompileOptions::default())?;

    // Train the network to multiply two numbers.
    let mut seed = 7;
    let points: Vec<f32> = (0..2 * SAMPLES).map(|_| noise(&mut seed)).collect();
    let products: Vec<f32> = points.chunks(2).map(|pair| pair[0] * pair[1]).collect();
    let x = client.buffer_from_host(&points, &[SAMPLES, 2])?;
    let y = client.buffer_from_host(&products, &[SAMPLES, 1])?;
    let mut parameters: Vec<Buffer> = Vec::new();
    for shape in PARAMETERS {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| noise(&mut seed)).collect();
        parameters.push(client.buffer_from_host(&values, shape)?);
    }

    let place = parameters[0].unsafe_pointer().ok();
    let mut losses = Vec::new();
    for _ in 0..500 {
        // Donating the parameters consumes them, so code that uses the old parameters later does not compile.
        let mut inputs: Vec<Input<'_>> = parameters.into_iter().map(Input::Donate).collect();
        inputs.extend([Input::Borrow(&x), Input::Borrow(&y)]);
        parameters = step.execute_with(inputs, &ExecuteOptions::new())?.outputs.into_vec();
        let loss = parameters.pop().ok_or("the program returns the loss last")?;
        // Keep the buffer of the loss and read it after the last step, so that the steps do not wait for a copy to the
        // host.
        losses.push(loss);
    }
    let first = losses[0].to_host::<f32>()?[0];
    let last = losses[losses.len() - 1].to_host::<f32>()?[0];
    println!("the loss fell from {first} to {last}");
    assert!(last < first / 20.0, "the network has not learnt");
    if place.is_some() && parameters[0].unsafe_pointer().ok() == place {
        println!("500 steps updated the parameters in place");
    }
    Ok(())
}
