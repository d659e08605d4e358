//! Run one program on four devices. The compiler partitions the program according to the shardings of its arguments.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

use pjrt::{ClientOptions, CompileOptions, DeviceAssignment, ExecuteOptions, Input, Program, Upload};

// Each device holds a quarter of `x`. The sum needs all elements of `x`, so the devices must communicate.
const SUM: &str = r#"
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
      -> (tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The name of the option for the number of simulated devices differs between plugins. `cpu_device_count` is its
    // name in XLA's CPU plugins.
    let (name, count) = match std::env::var("PJRT_PLUGIN") {
        Ok(name) => (name, "cpu_device_count"),
        Err(_) => ("cpu".to_owned(), "device_count"),
    };
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new().with(count, 4i64))?;
    let devices = client.addressable_devices()?;

    let mut ids = Vec::new();
    for device in &devices {
        ids.push(i64::from(device.id()?));
    }
    let assignment = DeviceAssignment::new(1, 4, ids).ok_or("there are not four devices")?;
    let options = CompileOptions::default()
        .with_num_partitions(4)
        .with_spmd_partitioning(true)
        .with_device_assignment(assignment);
    let sum = client.compile(&Program::mlir(SUM), &options)?;

    let mut inputs = Vec::new();
    for (device, shard) in devices.iter().zip([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]) {
        let buffer = client.upload(Upload::of(&shard).dims(&[2]).to(device))?;
        inputs.push(vec![Input::Donate(buffer)]);
    }
    let run = sum.execute_sharded(inputs, &ExecuteOptions::default())?;
    for (device, outputs) in devices.iter().zip(&run.outputs) {
        let total = outputs[0].to_host::<f32>()?;
        println!("device {}: {total:?}", device.id()?);
        assert_eq!(total, [36.0]);
    }
    Ok(())
}
