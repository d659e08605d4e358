//! Load a plugin, compile a program, copy an array to a device, run the program and copy its output to the host.
//!
//! `cargo run -p pjrt-rs --example quickstart` runs on the embedded CPU device. To use another plugin, pass its path as
//! an argument.

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
