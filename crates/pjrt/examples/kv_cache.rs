//! Donate a buffer, so that each step of a loop updates it in place. The example is a small version of a language
//! model's key-value cache.
//!
//! Inputs are borrowed or donated. A borrowed buffer does not change. A donated buffer is consumed, so the program may
//! write an output into the buffer's memory.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

use pjrt::{ClientOptions, CompileOptions, ExecuteOptions, Input, Program};

// The attribute `tf.aliasing_output` is the index of the output that may reuse the argument's memory.
const STEP: &str = r#"
func.func @main(%cache: tensor<8x2xf32> {tf.aliasing_output = 0 : i32}, %row: tensor<1x2xf32>, %step: tensor<i32>)
    -> tensor<8x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %new = stablehlo.dynamic_update_slice %cache, %row, %step, %zero
      : (tensor<8x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2xf32>
  return %new : tensor<8x2xf32>
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let step = client.compile(&Program::mlir(STEP), &CompileOptions::default())?;

    let mut cache = client.buffer_from_host(&[0.0f32; 16], &[8, 2])?;
    let row = client.buffer_from_host(&[1.0f32, 2.0], &[1, 2])?;
    for number in 0..8i32 {
        let number = client.buffer_from_host(&[number], &[])?;
        // Donate the cache. The output is the updated cache. The program only reads the other arguments.
        let inputs = [Input::Donate(cache), Input::Borrow(&row), Input::Borrow(&number)];
        let run = step.execute_with(inputs, &ExecuteOptions::default())?;
        [cache] = run.outputs.into_array()?;
    }
    assert_eq!(cache.to_host::<f32>()?, [1.0, 2.0].repeat(8));
    println!("8 rows were written into one buffer");
    Ok(())
}
