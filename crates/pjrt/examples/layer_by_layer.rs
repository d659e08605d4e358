//! Run a model that is larger than the device's memory. The weights stay in host memory. The device holds only the
//! weights of the layer that is running and of the next layer. The upload of the next layer overlaps with the run of
//! the current one.
//!
//! The example runs on the embedded CPU device with a memory limit, or on the plugin that the environment variable
//! `PJRT_PLUGIN` names.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small constants")]

use pjrt::{Buffer, Client, ClientOptions, CompileOptions, Error, ExecuteOptions, Input, LoadedExecutable, Program};

const LAYERS: usize = 24;
/// Size of a layer's weights in bytes: 512 times 512 `f32` values.
const LAYER: usize = 1 << 20;
/// Memory limit of the device in bytes: the weights of 4 layers.
const LIMIT: usize = 4 * LAYER;

/// One layer of the model: a residual connection around a matrix multiplication.
const PROGRAM: &str =
    "func.func @main(%x: tensor<8x512xf32> {tf.aliasing_output = 0 : i32}, %weights: tensor<512x512xf32>)
      -> tensor<8x512xf32> {
    %product = stablehlo.dot_general %x, %weights, contracting_dims = [1] x [0]
        : (tensor<8x512xf32>, tensor<512x512xf32>) -> tensor<8x512xf32>
    %y = stablehlo.add %x, %product : tensor<8x512xf32>
    return %y : tensor<8x512xf32>
}";

/// Returns the weights of a layer in host memory. They are a multiple of the identity matrix, so that the output of the
/// model is known.
fn weights(layer: usize) -> Vec<f32> {
    let mut weights = vec![0f32; 512 * 512];
    weights.iter_mut().step_by(513).for_each(|weight| *weight = if layer.is_multiple_of(2) { 1.0 } else { -0.5 });
    weights
}

fn run(client: &Client, layer: &LoadedExecutable, model: &[Vec<f32>], mut x: Buffer) -> Result<Buffer, Error> {
    let upload = |weights: &Vec<f32>| client.buffer_from_host(weights, &[512, 512]);
    let mut next = model.first().map(upload).transpose()?;
    for number in 1..=model.len() {
        let Some(weights) = next.take() else { break };
        let run = layer.execute_with([Input::Donate(x), Input::Borrow(&weights)], &ExecuteOptions::new())?;
        // The upload of the next layer's weights overlaps with the run of the current layer.
        next = model.get(number).map(upload).transpose()?;
        // The device holds the inputs of a run until the run has ended. Without this wait, the loop could start many
        // runs, and the device would hold the weights of many layers.
        run.done.wait()?;
        [x] = run.outputs.into_array()?;
    }
    Ok(x)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (name, options) = match std::env::var("PJRT_PLUGIN") {
        Ok(name) => (name, ClientOptions::new()),
        Err(_) => ("cpu".to_owned(), ClientOptions::new().with("memory_limit", LIMIT.to_string())),
    };
    let client = plugin_registry::open(&name)?.client(&options)?;
    let device = client.default_device()?;
    let layer = client.compile(&Program::mlir(PROGRAM), &CompileOptions::default())?;

    let model: Vec<Vec<f32>> = (0..LAYERS).map(weights).collect();
    let x = client.buffer_from_host(&[1f32; 8 * 512], &[8, 512])?;
    let y = run(&client, &layer, &model, x)?;
    // The layers multiply by 2 and by 1/2 in turn.
    assert_eq!(y.to_host::<f32>()?, [1.0; 8 * 512]);

    let total = LAYERS * LAYER;
    match device.memory_stats().map(|stats| stats.peak_bytes_in_use) {
        Ok(Some(peak)) => {
            println!("{total} bytes of weights ran with at most {peak} bytes on the device");
            if std::env::var_os("PJRT_PLUGIN").is_none() {
                assert!(usize::try_from(peak)? <= LIMIT && LIMIT < total);
            }
        }
        _ => println!("{total} bytes of weights ran; the plugin does not report the peak"),
    }
    Ok(())
}
