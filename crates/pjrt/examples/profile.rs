//! Record a profile of a run and store it for TensorBoard or XProf.

use pjrt::extensions::Profiler;
use pjrt::{ClientOptions, CompileOptions, Program};

const TANH: &str = "func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {
    %y = stablehlo.tanh %x : tensor<1000xf32>
    return %y : tensor<1000xf32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
    let tanh = client.compile(&Program::mlir(TANH), &CompileOptions::default())?;
    let x = client.buffer_from_host(&vec![0.5f32; 1000], &[1000])?;

    // The profiler is an extension, which is an optional group of functions of the C API.
    let profiler = client.plugin().extension::<Profiler>().ok_or("the plugin has no profiler")?;
    let profile = profiler.start(&[])?;
    for _ in 0..10 {
        tanh.execute(&[&x])?[0].wait()?;
    }
    // The profile is a serialized `tensorflow.profiler.XSpace` message.
    let space = profile.stop()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.xplane.pb");
    std::fs::write(&file, &space)?;
    println!("{} bytes in {}", space.len(), file.display());
    assert!(!space.is_empty());
    Ok(())
}
