//! Start a copy from a device to the host, do other work, and wait for the data later.
//!
//! Downloads and events are futures. A future owns the memory that it uses, so it may be dropped at any time. Any async
//! executor can await these futures, but they also work without an executor.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

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
    // The download begins when the run has computed the output.
    let download = run.outputs[0].download().start::<f32>()?;
    // The callback runs on a thread of the plugin. If the run has already ended, the callback runs at once on this
    // thread.
    let (sender, ended) = std::sync::mpsc::channel();
    run.done.on_ready(move |result| drop(sender.send(result)))?;

    println!("the download has {}", if download.is_ready() { "ended" } else { "begun" });
    ended.recv()??;
    let y = download.wait()?;
    assert!(y.iter().all(|&y| y == 9.0));
    println!("downloaded {} elements", y.len());
    Ok(())
}
