//! Load a plugin, compile a program, upload an array, run the program and download the result.
//!
//! `cargo run -p pjrt-rs --example quickstart` uses the embedded CPU device. With the path of a plugin as an argument, it
//! uses that plugin.

use pjrt::{ClientOptions, CompileOptions, Plugin, Program};

const DOUBLE: &str = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %y = stablehlo.add %x, %x : tensor<3xf32>
    return %y : tensor<3xf32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = ClientOptions::new();
    let client = match std::env::args_os().nth(1) {
        // SAFETY: whoever runs this example vouches that the file is a PJRT plugin that keeps contracts C1 to C11.
        Some(path) => unsafe { Plugin::load(path) }?.client(&options)?,
        None => plugin_registry::open("cpu")?.client(&options)?,
    };
    println!("platform: {}", client.platform_name()?);

    let double = client.compile(&Program::mlir(DOUBLE), &CompileOptions::default())?;
    let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0], &[3])?;
    let outputs = double.execute(&[&x])?;
    let y = outputs[0].to_host::<f32>()?;
    println!("doubled: {y:?}");
    assert_eq!(y, [2.0, 4.0, 6.0]);
    Ok(())
}
