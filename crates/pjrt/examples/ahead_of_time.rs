//! Compile a program for a topology, which is a description of devices, and load the executable on a client.
//!
//! A client returns the topology of its devices. Some plugins also create topologies by name, even on a machine without
//! the devices (`TopologyDescription::create`).
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

use pjrt::{ClientOptions, CompileOptions, NamedValue, Program, TopologyDescription};

const ADD: &str = "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;

    // Create a topology with two devices, although the client has only one. The option name `device_count` is that of
    // the embedded device. Other plugins have other options.
    let two = [NamedValue::new("device_count", 2i64)];
    match TopologyDescription::create(&client.plugin(), "", &two) {
        Ok(topology) => {
            let devices = topology.device_descriptions()?;
            for device in &devices {
                println!("{}", device.display_string()?);
            }
            assert!(devices.len() == 2 || name != "cpu");
        }
        Err(error) if name == "cpu" => return Err(error.into()),
        Err(error) => println!("this plugin does not create a topology by its name: {error}"),
    }

    // Compile for the topology of the client's own devices.
    let options = CompileOptions::default();
    let executable = client.topology()?.compile(&Program::mlir(ADD), &options)?;
    println!("{}: {} outputs", executable.name()?, executable.num_outputs()?);

    let add = client.load_executable(&executable, &options)?;
    let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4])?;
    assert_eq!(add.execute(&[&x, &x])?[0].to_host::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    Ok(())
}
