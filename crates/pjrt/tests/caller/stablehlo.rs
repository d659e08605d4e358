//! Tests programs that are built with the crate `stablehlo`, on the embedded device.

use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::builder::{Argument, ModuleBuilder, Sharding};
use pjrt::stablehlo::ir::{ElementType, Module, TensorType};
use pjrt::{Client, ClientOptions, CompileOptions, LoadedExecutable, Program};

fn client(devices: i64) -> Client {
    plugin_registry::open("cpu").unwrap().client(&ClientOptions::new().with("device_count", devices)).unwrap()
}

/// Builds a program with two parameters. If `partitions` is 2, the first parameter is sharded over two devices.
fn program(partitions: u32) -> Module {
    let module = ModuleBuilder::new("scale");
    module.partitions(partitions);
    let main = module.function("main", |f| {
        let x = Argument::new(TensorType::new([4, 2], ElementType::F32));
        let x = f.argument(if partitions > 1 { x.sharding(&Sharding::tiled(&[2, 1])) } else { x })?;
        let scale = f.argument(TensorType::new([], ElementType::F32))?;
        f.multiply(x, f.broadcast_to(scale, &[4, 2])?)
    });
    main.unwrap();
    module.build().unwrap()
}

fn shapes(executable: &LoadedExecutable) -> Vec<String> {
    let shape = |parameter: &pjrt::Parameter| parameter.shape().map_or("?".to_owned(), ToString::to_string);
    executable.parameters().unwrap().iter().map(shape).collect()
}

#[test]
fn parameters_have_shapes() {
    let client = client(2);
    let module = program(1);
    for program in [Program::for_plugin(&module, &client.plugin()).unwrap(), Program::mlir(module.to_string())] {
        let executable = client.compile(&program, &CompileOptions::default()).unwrap();
        assert_eq!(shapes(&executable), ["f32[4,2]", "f32[]"]);
    }
    // The parameters of a partitioned program have the shapes of the shards on each device.
    let split = Program::for_plugin(&program(2), &client.plugin()).unwrap();
    let options = CompileOptions::default().with_num_partitions(2).with_spmd_partitioning(true);
    let executable = client.compile(&split, &options).unwrap();
    assert_eq!(shapes(&executable), ["f32[2,2]", "f32[]"]);
}

#[test]
fn artifact_has_the_plugins_version() {
    let client = client(1);
    let attributes = client.plugin().attributes().unwrap();
    let current = attributes.iter().find(|attribute| attribute.name == "stablehlo_current_version").unwrap();
    let program = Program::for_plugin(&program(1), &client.plugin()).unwrap();
    let version = program.stablehlo_version().unwrap();
    assert_eq!(current.value, pjrt::Value::Int64List(version.to_vec()));
}
