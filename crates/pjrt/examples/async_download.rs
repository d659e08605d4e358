//! Start a download, do other work, and wait for the data later.
//!
//! Downloads, runs and events are futures. They own the memory they use, so they may be dropped at any time. Any executor
//! can await them, and none is needed.
//!
//! It runs on the embedded CPU device, or on the plugin that `PJRT_PLUGIN` names.

use pjrt::{ClientOptions, CompileOptions, ExecuteOptions, Input, Program};

const SQUARE: &str = "func.func @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %y = stablehlo.multiply %x, %x : tensor<256x256xf32>
    return %y : tensor<256x256xf32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let square = client.compile(&Program::mlir(SQUARE), &CompileOptions::default())?;
    let x = client.buffer_from_host(&vec![3.0f32; 256 * 256], &[256, 256])?;

    let run = square.execute_with([Input::Borrow(&x)], &ExecuteOptions::default())?;
    // The download begins when the output is computed.
    let download = run.outputs[0].to_host_async::<f32>()?;
    // A callback runs on a thread of the plugin, or at once if the run has ended.
    let (sender, ended) = std::sync::mpsc::channel();
    run.done.on_ready(move |result| drop(sender.send(result)))?;

    println!("the download has {}", if download.is_ready() { "ended" } else { "begun" });
    ended.recv()??;
    let y = download.wait()?;
    assert!(y.iter().all(|&y| y == 9.0));
    println!("downloaded {} elements", y.len());
    Ok(())
}
