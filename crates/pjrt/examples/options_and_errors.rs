//! Pass options to a client, and distinguish errors by their kind and code.

use pjrt::{ClientOptions, CompileOptions, ErrorCode, ErrorKind, Program};

const ADD: &str = "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plugin = plugin_registry::open("cpu")?;
    let options = ClientOptions::new().with("memory_limit", "1MiB").with("deterministic", true);
    let client = plugin.client(&options)?;
    let add = client.compile(&Program::mlir(ADD), &CompileOptions::default())?;
    let x = client.buffer_from_host(&[1.0f32; 4], &[4])?;

    // `pjrt` rejects a wrong number of arguments before it calls the plugin.
    let error = add.execute(&[&x]).expect_err("one argument is missing");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    // The plugin rejects an invalid program. The error names the C function.
    let error = client
        .compile(&Program::mlir("func.func @main("), &CompileOptions::default())
        .expect_err("the program is cut off");
    println!("{error}");
    assert_eq!((error.kind(), error.function()), (ErrorKind::Plugin, Some("PJRT_Client_Compile")));

    // The memory limit of 1 MiB is too small for this buffer of 4 MiB.
    let large = vec![0.0f32; 1 << 20];
    let error =
        client.buffer_from_host(&large, &[1 << 20]).and_then(|buffer| buffer.wait()).expect_err("4 MiB do not fit");
    println!("{error}");
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    Ok(())
}
