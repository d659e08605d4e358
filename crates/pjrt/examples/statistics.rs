//! Query the cost analysis of a compiled program and the memory statistics of a device.

use pjrt::{ClientOptions, CompileOptions, Program};

const DOT: &str = "func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
    let dot = client.compile(&Program::mlir(DOT), &CompileOptions::default())?;

    let executable = dot.executable();
    println!("outputs: {:?}", executable.output_shapes()?);
    for cost in executable.cost_analysis()? {
        println!("{} = {:?}", cost.name, cost.value);
    }
    let memory = executable.compiled_memory_stats()?;
    println!("arguments: {} bytes, temporary: {} bytes", memory.argument_size, memory.temp_size);
    assert_eq!(memory.argument_size, 64 * 64 * 4);

    let device = client.default_device()?;
    let before = device.memory_stats()?.bytes_in_use;
    let x = client.buffer_from_host(&vec![1.0f32; 64 * 64], &[64, 64])?;
    x.wait()?;
    let after = device.memory_stats()?.bytes_in_use;
    println!("the buffer takes {} bytes of device memory", after - before);
    assert_eq!(x.on_device_size()?, 64 * 64 * 4);
    Ok(())
}
