//! Store a compiled program in a file, and load it without compiling it again.
//!
//! The stored bytes identify the build of the plugin that serialized the program. Loading them with another build is an
//! error, because a plugin may run the machine code in the bytes without checking it.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

use pjrt::{ClientOptions, CompileOptions, Program, SerializedExecutable};

const NEGATE: &str = "func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
    %y = stablehlo.negate %x : tensor<2xi32>
    return %y : tensor<2xi32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let compiled = client.compile(&Program::mlir(NEGATE), &CompileOptions::default())?;

    // Other users must not be able to write to the folder, because the file contains machine code.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("negate.executable");
    std::fs::write(&file, compiled.executable().serialize()?.as_bytes())?;
    let bytes = std::fs::read(&file)?;

    let stored = SerializedExecutable::from_bytes(bytes)?;
    for (name, value) in stored.identity() {
        println!("{name}: {value}");
    }
    let negate = client.deserialize_and_load(&stored)?;
    let x = client.buffer_from_host(&[1i32, -2], &[2])?;
    assert_eq!(negate.execute(&[&x])?[0].to_host::<i32>()?, [-1, 2]);
    println!("the stored program runs");
    Ok(())
}
