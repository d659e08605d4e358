//! Tests each step of the book's chapters on writing a plugin with the crate `pjrt`, as a framework uses the plugin.
#![forbid(unsafe_code)]

use pjrt::{
    Buffer, Client, ClientOptions, CompileOptions, DeviceAssignment, Error, ErrorCode, Input, LoadedExecutable, Plugin,
    Program, TopologyDescription, Upload, Value,
};

#[path = "../src/lib.rs"]
mod board;

fn plugin() -> Plugin {
    Plugin::from_static(board::Plugin::api()).expect("the table is complete")
}

fn client(options: &[(&str, i64)]) -> Client {
    let options = options.iter().fold(ClientOptions::new(), |all, (name, value)| all.with(*name, *value));
    plugin().client(&options).expect("a client")
}

/// Compiles a program that computes its result `%y` from its argument `%x` with the given lines.
fn compile(client: &Client, ty: &str, lines: &str) -> Result<LoadedExecutable, Error> {
    let text = format!("func.func @main(%x: {ty}) -> {ty} {{\n{lines}\nreturn %y : {ty}\n}}");
    client.compile(&Program::mlir(text), &CompileOptions::default())
}

const ADD_ONE: &str = "%one = stablehlo.constant dense<1.0> : tensor<f32>
    %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %y = stablehlo.add %x, %ones : tensor<4xf32>";

fn add_one(client: &Client) -> LoadedExecutable {
    compile(client, "tensor<4xf32>", ADD_ONE).expect("a program")
}

fn four(client: &Client) -> Buffer {
    client.buffer_from_host(&[0.0f32, 1.0, 2.0, 3.0], &[4]).expect("a buffer")
}

#[test]
fn step_1_devices() {
    let client = client(&[("devices", 3)]);
    let devices = client.addressable_devices().unwrap();
    assert_eq!(devices.len(), 3);
    assert_eq!(devices[2].kind().unwrap(), "Board v1");
    let attributes = devices[2].description().unwrap().attributes().unwrap();
    assert_eq!((attributes[0].name.as_str(), &attributes[0].value), ("slot", &Value::Int64(2)));
}

#[test]
fn step_2_memories() {
    let client = client(&[]);
    let device = &client.addressable_devices().unwrap()[1];
    assert_eq!(device.default_memory().unwrap().kind().unwrap(), "device");
    let kinds: Vec<_> = device.memories().unwrap().iter().map(|memory| memory.kind().unwrap()).collect();
    assert_eq!(kinds, ["device", "pinned_host"]);
    let before = device.memory_stats().unwrap().bytes_in_use;
    let pinned = &device.memories().unwrap()[1];
    let buffer = client.upload(Upload::of(&[1.0f32, 2.0]).dims(&[2]).to(pinned)).unwrap();
    assert_eq!(device.memory_stats().unwrap().bytes_in_use, before);
    let moved = buffer.copy_to(&device.default_memory().unwrap()).unwrap();
    assert_eq!(moved.to_host::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(device.memory_stats().unwrap().bytes_in_use, before + 8);

    // JAX writes this program for an output with the memory kind `pinned_host`.
    let text = "func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32> {mhlo.memory_kind = \"pinned_host\"}) {
        %0 = stablehlo.add %x, %x : tensor<2xf32>
        %1 = stablehlo.custom_call @annotate_device_placement(%0) {has_side_effect = true,
            mhlo.frontend_attributes = {_xla_buffer_placement = \"pinned_host\"}} : (tensor<2xf32>) -> tensor<2xf32>
        return %1 : tensor<2xf32>
    }";
    let program = client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
    let output = program.execute(&[&x]).unwrap().remove(0);
    assert_eq!(output.memory().unwrap().kind().unwrap(), "pinned_host");
    assert_eq!(output.to_host::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn step_3_transfers() {
    let client = client(&[("memory", 64)]);
    let there = client.buffer_from_host(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
    assert_eq!(there.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let device = &client.addressable_devices().unwrap()[1];
    let copy = there.copy_to(device).unwrap();
    assert_eq!((copy.device().unwrap().id().unwrap(), copy.to_host::<f32>().unwrap()[2]), (1, 3.0));
    // The strides swap rows and columns. The SDK copies the array to dense memory.
    let strided = client.upload(Upload::of(&[1.0f32, 2.0, 3.0, 4.0]).dims(&[2, 2]).strides(0, &[1, 2]));
    assert_eq!(strided.unwrap().to_host::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
    let error = client.buffer_from_host(&[0.0f32; 100], &[100]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    assert!(error.to_string().contains("400 bytes needed"), "{error}");
}

#[test]
fn step_4_compile() {
    let client = client(&[]);
    let lines = "%c = stablehlo.constant dense<[10.0, 20.0]> : tensor<2xf32>
        %b = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
        %m = stablehlo.multiply %x, %x : tensor<2x2xf32>
        %y = stablehlo.subtract %m, %b : tensor<2x2xf32>";
    let program = compile(&client, "tensor<2x2xf32>", lines).unwrap();
    let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    assert_eq!(program.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [-9.0, -6.0, -11.0, -4.0]);

    // Frameworks write nested functions as calls.
    let text = "func.func private @square(%a: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.multiply %a, %a : tensor<f32>
            return %0 : tensor<f32>
        }
        func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %0 = func.call @square(%x) : (tensor<f32>) -> tensor<f32>
            %1 = func.call @square(%0) : (tensor<f32>) -> tensor<f32>
            return %1 : tensor<f32>
        }";
    let fourth = client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[3.0f32], &[]).unwrap();
    assert_eq!(fourth.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [81.0]);
}

#[test]
fn step_5_asynchronous_execution() {
    let client = client(&[]);
    let program = add_one(&client);
    let mut x = four(&client);
    // Each output becomes the next input before it is ready.
    for _ in 0..100 {
        x = program.execute(&[&x]).unwrap().remove(0);
    }
    x.ready_event().unwrap().wait().unwrap();
    assert_eq!(x.to_host::<f32>().unwrap(), [100.0, 101.0, 102.0, 103.0]);
}

/// Leaves a chain of executions in progress. Some are in the device's queue, and others wait for them.
fn leave_work(client: &Client) -> Buffer {
    let (program, mut x) = (add_one(client), four(client));
    for _ in 0..50 {
        x = program.execute(&[&x]).unwrap().remove(0);
    }
    x
}

#[test]
fn step_5_clients_end_with_work_pending() {
    for _ in 0..50 {
        let client = client(&[]);
        drop(leave_work(&client));
        drop(client);
    }
}

#[test]
fn step_5_processes_end_with_work_pending() {
    const CHILD: &str = "BOARD_TEST_CHILD";
    match std::env::var(CHILD).as_deref() {
        Ok("drop") => {
            let client = client(&[]);
            drop((leave_work(&client), client));
            std::process::exit(0);
        }
        Ok("keep") => {
            let client = client(&[]);
            std::mem::forget((leave_work(&client), client));
            std::process::exit(0);
        }
        _ => {}
    }
    for end in ["drop", "keep"] {
        for _ in 0..10 {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "step_5_processes_end_with_work_pending"]).env(CHILD, end);
            let output = child.output().unwrap();
            assert!(output.status.success(), "{end}: {}: {output:?}", output.status);
        }
    }
}

#[test]
fn step_6_donation() {
    let client = client(&[]);
    let text = "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
        %y = stablehlo.add %x, %x : tensor<2xf32>
        return %y : tensor<2xf32>
    }";
    let double = client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
    let kept = double.execute(&[&x]).unwrap();
    assert_eq!((x.is_deleted().unwrap(), kept[0].to_host::<f32>().unwrap()), (false, vec![2.0, 4.0]));
    let run = double.execute_with([Input::Donate(x)], &pjrt::ExecuteOptions::default()).unwrap();
    assert_eq!(run.outputs[0].to_host::<f32>().unwrap(), [2.0, 4.0]);
    // Only the two outputs still exist.
    let stats = client.addressable_devices().unwrap()[0].memory_stats().unwrap();
    assert_eq!(stats.bytes_in_use, 16);
}

#[test]
fn step_7_errors() {
    let client = client(&[("nan_check", 1)]);
    let lines = "%y = stablehlo.tanh %x : tensor<4xf32> loc(\"tanh\"(\"model.py\":7:3))";
    let error = compile(&client, "tensor<4xf32>", lines).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
    assert!(error.to_string().contains("stablehlo.tanh (tanh at model.py:7:3)"), "{error}");
    // An error of an execution is also the error of its outputs.
    let divide = compile(&client, "tensor<4xf32>", "%y = stablehlo.divide %x, %x : tensor<4xf32>").unwrap();
    let outputs = divide.execute(&[&four(&client)]).unwrap();
    let error = outputs[0].to_host::<f32>().unwrap_err();
    assert!(error.to_string().contains("computed a NaN"), "{error}");
    assert_eq!(add_one(&client).execute(&[&four(&client)]).unwrap()[0].to_host::<f32>().unwrap()[3], 4.0);
}

#[test]
fn step_8_options() {
    for (name, value, said) in
        [("devices", 65, "devices is 65"), ("memory", -1, "memory is -1"), ("speed", 3, "\"speed\"")]
    {
        let error = plugin().client(&ClientOptions::new().with(name, value)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        assert!(error.to_string().contains(said), "{error}");
    }
    // Frameworks pass options from the environment as strings.
    let text = plugin().client(&ClientOptions::new().with("devices", "4")).unwrap();
    assert_eq!(text.addressable_devices().unwrap().len(), 4);
}

#[test]
fn step_9_statistics() {
    let client = client(&[("memory", 64)]);
    let device = &client.addressable_devices().unwrap()[0];
    drop(four(&client));
    let _kept = client.buffer_from_host(&[1.0f32], &[]).unwrap();
    let stats = device.memory_stats().unwrap();
    assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use, stats.bytes_limit), (4, Some(16), Some(64)));
    let costs = add_one(&client).executable().cost_analysis().unwrap();
    assert_eq!((costs[0].name.as_str(), &costs[0].value), ("flops", &Value::Float(4.0)));
}

#[test]
fn step_10_several_devices() {
    let client = client(&[]);
    let options = CompileOptions::default()
        .with_num_replicas(2)
        .with_device_assignment(DeviceAssignment::new(2, 1, vec![0, 1]).unwrap());
    let text =
        format!("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{ADD_ONE}\nreturn %y : tensor<4xf32>\n}}");
    let program = client.compile(&Program::mlir(text), &options).unwrap();
    let devices = client.addressable_devices().unwrap();
    let inputs: Vec<Buffer> = devices
        .iter()
        .zip([0.0f32, 10.0])
        .map(|(device, value)| client.upload(Upload::of(&[value; 4]).dims(&[4]).to(device)).unwrap())
        .collect();
    let inputs = inputs.iter().map(|input| vec![Input::Borrow(input)]).collect();
    let run = program.execute_sharded(inputs, &pjrt::ExecuteOptions::default()).unwrap();
    for (outputs, expected) in run.outputs.iter().zip([1.0f32, 11.0]) {
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [expected; 4]);
    }
}

#[test]
fn step_11_serialization() {
    let client = client(&[]);
    let serialized = add_one(&client).executable().serialize().unwrap();
    let again = client.deserialize_and_load(&serialized).unwrap();
    assert_eq!(again.execute(&[&four(&client)]).unwrap()[0].to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    // The format of `pjrt` contains the format of `device-plugin`. The tests of `device-plugin` damage the inner
    // format.
    let mut broken = serialized.into_bytes();
    let middle = broken.len() / 2;
    broken[middle] ^= 1;
    assert!(pjrt::SerializedExecutable::from_bytes(broken).is_err());
    assert!(pjrt::SerializedExecutable::from_bytes(*b"of another device").is_err());
}

#[test]
fn step_12_capabilities() {
    use device_plugin::DevicePlugin;

    let capabilities = board::Plugin::capabilities();
    assert_eq!(capabilities.validate(), Ok(()));
    assert!(board::Plugin::options().options.iter().all(|option| option.default.is_some()));
    // The declared memory kinds match the memories of the devices.
    let device = &client(&[]).addressable_devices().unwrap()[0];
    let default = device.default_memory().unwrap().kind().unwrap();
    assert_eq!(capabilities.memory_kinds.default_kind.as_deref(), Some(default.as_str()));
    assert!(TopologyDescription::create(&plugin(), "other", &[]).is_err());
}
