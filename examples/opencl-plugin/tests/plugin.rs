//! Calls the plugin as frameworks do, through the C function table.

mod common;

use std::process::Command;
use std::time::Duration;

use common::{client, compile};
use pjrt::{Client, ClientOptions, CompileOptions, Error, ErrorCode, ExecuteOptions, Input, Program, Upload};

const ADD_ONE: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %y = stablehlo.add %x, %one : tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// A program with a loop of `%n` iterations.
const LOOP: &str = "func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %half = stablehlo.constant dense<0.5> : tensor<4xf32>
      %b = stablehlo.multiply %a, %half : tensor<4xf32>
      %c = stablehlo.add %b, %half : tensor<4xf32>
      stablehlo.return %j, %c : tensor<i32>, tensor<4xf32>
    }
  return %0#1 : tensor<4xf32>
}";

#[test]
fn x_plus_one() {
    let Some(client) = client("x_plus_one", &ClientOptions::new()) else { return };
    let add_one = compile(&client, ADD_ONE).unwrap();
    let x = client.buffer_from_host(&[0.0f32, 1.5, -2.0, f32::MAX], &[4]).unwrap();
    for _ in 0..3 {
        let outputs = add_one.execute(&[&x]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [1.0, 2.5, -1.0, f32::MAX]);
    }
}

/// Launches that need the host and others keep their order.
#[test]
fn launches_keep_their_order() {
    let Some(client) = client("launches_keep_their_order", &ClientOptions::new()) else { return };
    let (add_one, slow) = (compile(&client, ADD_ONE).unwrap(), compile(&client, LOOP).unwrap());
    let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    let n = client.buffer_from_host(&[200i32], &[]).unwrap();
    let mut value = slow.execute(&[&x, &n]).unwrap().remove(0);
    for _ in 0..4 {
        value = add_one.execute(&[&value]).unwrap().remove(0);
        value = slow.execute(&[&value, &n]).unwrap().remove(0);
    }
    assert_eq!(value.to_host::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn donated_argument_is_overwritten() {
    let Some(client) = client("donated_argument_is_overwritten", &ClientOptions::new()) else { return };
    let donating = ADD_ONE.replace("tensor<4xf32>)", "tensor<4xf32> {tf.aliasing_output = 0 : i32})");
    let add_one = compile(&client, &donating).unwrap();
    let mut value = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    let device = client.addressable_devices().unwrap().remove(0);
    value.wait().unwrap();
    let before = device.memory_stats().unwrap().bytes_in_use;
    for _ in 0..5 {
        let run = add_one.execute_with([Input::Donate(value)], &ExecuteOptions::new()).unwrap();
        value = { run.outputs }.remove(0);
        assert_eq!(device.memory_stats().unwrap().bytes_in_use, before);
    }
    assert_eq!(value.to_host::<f32>().unwrap(), [5.0; 4]);
}

#[test]
fn two_devices_exchange_buffers() {
    let Some(client) = client("two_devices_exchange_buffers", &ClientOptions::new().with("devices", 2i64)) else {
        return;
    };
    let devices = client.addressable_devices().unwrap();
    assert_eq!(devices.len(), 2);
    let x = client.upload(Upload::of(&[1.0f32, 2.0, 3.0, 4.0]).dims(&[4]).to(&devices[0])).unwrap();
    let y = x.copy_to(&devices[1]).unwrap();
    assert_eq!(y.device().unwrap().id().unwrap(), devices[1].id().unwrap());
    assert_eq!(y.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

/// A sum over two devices, in a loop.
const SUM: &str = "func.func @main(%x: tensor<40000xf32>, %n: tensor<i32>) -> (tensor<40000xf32>, tensor<ui32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<40000xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %r = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %r : tensor<f32>
      }) : (tensor<40000xf32>) -> tensor<40000xf32>
      %half = stablehlo.constant dense<0.5> : tensor<40000xf32>
      %m = stablehlo.multiply %s, %half : tensor<40000xf32>
      stablehlo.return %j, %m : tensor<i32>, tensor<40000xf32>
    }
  %id = stablehlo.replica_id : tensor<ui32>
  return %0#1, %id : tensor<40000xf32>, tensor<ui32>
}";

#[test]
fn two_devices_reduce() {
    let Some(client) = client("two_devices_reduce", &ClientOptions::new().with("devices", 2i64)) else { return };
    assert_eq!(reduce(&client, SUM).unwrap(), [2.0; 2]);
}

/// Runs a program like [`SUM`] with the arrays 1 and 3, and returns the value of the output of each device.
fn reduce(client: &Client, text: &str) -> Result<Vec<f32>, Error> {
    let mut options = CompileOptions::default();
    options.num_replicas = 2;
    let program = client.compile(&Program::mlir(text.to_owned()), &options)?;
    let devices = client.addressable_devices()?;
    let inputs: Vec<_> = (devices.iter().zip([1.0f32, 3.0]))
        .map(|(device, value)| {
            let x = client.upload(Upload::of(&vec![value; 40_000]).dims(&[40_000]).to(device)).unwrap();
            [x, client.upload(Upload::of(&[20i32]).dims(&[]).to(device)).unwrap()]
        })
        .collect();
    let mut values = Vec::new();
    for _ in 0..3 {
        let borrowed = inputs.iter().map(|pair| pair.iter().map(Input::Borrow).collect()).collect();
        let outputs = program.execute_sharded(borrowed, &ExecuteOptions::new())?.outputs;
        values.clear();
        for (id, outputs) in (0u32..).zip(&outputs) {
            let array = outputs[0].to_host::<f32>()?;
            assert_eq!(array, vec![array[0]; 40_000]);
            assert_eq!(outputs[1].to_host::<u32>()?, [id]);
            values.push(array[0]);
        }
    }
    Ok(values)
}

/// A reduction computes what its region returns, and not only the kind of its op.
#[test]
fn reduction_with_other_region() {
    let options = ClientOptions::new().with("devices", 2i64);
    let Some(client) = client("reduction_with_other_region", &options) else { return };
    let replaced = |from: &str, to: &str| {
        assert_eq!(SUM.matches(from).count(), 1);
        SUM.replace(from, to)
    };
    // The first argument is the result so far, which begins with the array of device 0.
    assert_eq!(reduce(&client, &replaced("stablehlo.add %p, %q", "stablehlo.add %p, %p")).unwrap(), [1.0; 2]);
    assert_eq!(reduce(&client, &replaced("stablehlo.add %p, %q", "stablehlo.subtract %q, %p")).unwrap(), [0.0; 2]);
    let (code, text) = refused(reduce(&client, &replaced("stablehlo.return %r :", "stablehlo.return %q :")));
    assert!(code == ErrorCode::UNIMPLEMENTED && text.contains("all_reduce"), "{text}");
}

/// The call returns before an earlier launch has ended.
#[test]
fn launch_with_replica_id_does_not_wait() {
    let Some(client) = client("launch_with_replica_id_does_not_wait", &ClientOptions::new()) else { return };
    let id = "func.func @main() -> tensor<ui32> {
      %0 = stablehlo.replica_id : tensor<ui32>
      return %0 : tensor<ui32>
    }";
    let (slow, id) = (compile(&client, LOOP).unwrap(), compile(&client, id).unwrap());
    let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    let n = client.buffer_from_host(&[5_000i32], &[]).unwrap();
    let y = slow.execute(&[&x, &n]).unwrap().remove(0);
    let z = id.execute(&[]).unwrap().remove(0);
    assert!(!y.ready_event().unwrap().is_ready().unwrap());
    assert_eq!(z.to_host::<u32>().unwrap(), [0]);
    assert_eq!(y.to_host::<f32>().unwrap(), [1.0; 4]);
}

fn refused<T>(result: Result<T, Error>) -> (ErrorCode, String) {
    let error = result.err().expect("an error");
    (error.code(), error.to_string())
}

#[test]
fn build_failure_shows_the_log() {
    let options = ClientOptions::new().with("build_options", "-this-option-does-not-exist");
    let Some(client) = client("build_failure_shows_the_log", &options) else { return };
    let (code, text) = refused(compile(&client, ADD_ONE));
    assert_eq!(code, ErrorCode::INTERNAL);
    assert!(text.contains("the OpenCL compiler rejects the kernels"), "{text}");
}

#[test]
fn memory_can_be_exhausted() {
    let options = ClientOptions::new().with("memory_limit", 4i64 << 20);
    let Some(client) = client("memory_can_be_exhausted", &options) else { return };
    let (code, text) = refused(client.buffer_from_host(&vec![0.0f32; 2 << 20], &[2 << 20]));
    assert_eq!(code, ErrorCode::RESOURCE_EXHAUSTED, "{text}");
    let large = ADD_ONE.replace("tensor<4xf32>", "tensor<700000xf32>");
    let add_one = compile(&client, &large).unwrap();
    let x = client.buffer_from_host(&vec![1.0f32; 700_000], &[700_000]).unwrap();
    let (code, text) = refused(add_one.execute(&[&x]));
    assert_eq!(code, ErrorCode::RESOURCE_EXHAUSTED, "{text}");
    // The client works on.
    assert_eq!(x.to_host::<f32>().unwrap()[699_999], 1.0);
}

/// A variable of the driver: the number of launches after which the devices count as lost.
const LOSE_AFTER: &str = "OPENCL_PLUGIN_LOSE_AFTER";

#[test]
fn lost_device_fails_later_calls() {
    if std::env::var_os(LOSE_AFTER).is_none() {
        let child = run_child("lost_device_fails_later_calls", LOSE_AFTER);
        return assert_eq!(child, Some(0));
    }
    let Some(client) = client("lost_device_fails_later_calls", &ClientOptions::new()) else { return };
    let add_one = compile(&client, ADD_ONE).unwrap();
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    let y = add_one.execute(&[&x]).unwrap().remove(0);
    assert_eq!(y.to_host::<f32>().unwrap(), [2.0; 4]);
    let (code, text) = refused(add_one.execute(&[&x]).and_then(|outputs| outputs[0].to_host::<f32>()));
    assert_eq!(code, ErrorCode::UNAVAILABLE, "{text}");
    let (code, text) = refused(client.buffer_from_host(&[1.0f32; 4], &[4]));
    assert_eq!(code, ErrorCode::UNAVAILABLE, "{text}");
}

#[test]
fn options_and_programs_are_checked() {
    let Some(client) = client("options_and_programs_are_checked", &ClientOptions::new()) else { return };
    let (code, text) = refused(client.plugin().client(&ClientOptions::new().with("devices", 0i64)));
    assert!(code == ErrorCode::INVALID_ARGUMENT && text.contains("option devices is 0"), "{text}");
    let (_, text) = refused(client.plugin().client(&ClientOptions::new().with("devces", 2i64)));
    assert!(text.contains("devces"), "{text}");
    let program = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @nothing_knows_this(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(\"model.py\":7:3)
      return %0 : tensor<4xf32>
    }";
    let (code, text) = refused(compile(&client, program));
    assert_eq!(code, ErrorCode::UNIMPLEMENTED, "{text}");
    assert!(text.contains("nothing_knows_this") && text.contains("model.py:7:3"), "{text}");
}

/// Runs a test in a process in which this variable is 1. Returns the exit code.
fn run_child(test: &str, variable: &str) -> Option<i32> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(variable, "1").status().unwrap().code()
}

/// A variable of the process that exits.
const CHILD: &str = "OPENCL_PLUGIN_EXIT";

/// A process that exits while launches are in progress ends without a crash.
#[test]
fn exit_with_work_pending() {
    if std::env::var_os(CHILD).is_some() {
        let client = client("exit_with_work_pending", &ClientOptions::new()).expect("the parent has a device");
        let slow = compile(&client, LOOP).unwrap();
        let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
        let many = client.buffer_from_host(&[20_000i32], &[]).unwrap();
        let outputs: Vec<_> = (0..20).map(|_| slow.execute(&[&x, &many]).unwrap()).collect();
        std::mem::forget((client, slow, outputs));
        std::process::exit(7);
    }
    if client("exit_with_work_pending", &ClientOptions::new()).is_none() {
        return;
    }
    for _ in 0..5 {
        assert_eq!(run_child("exit_with_work_pending", CHILD), Some(7));
    }
}

/// A client that is dropped waits for its launches.
#[test]
fn drop_waits_for_launches() {
    let Some(client) = client("drop_waits_for_launches", &ClientOptions::new()) else { return };
    let slow = compile(&client, LOOP).unwrap();
    let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    let n = client.buffer_from_host(&[500i32], &[]).unwrap();
    let y = slow.execute(&[&x, &n]).unwrap().remove(0);
    client.synchronize(Duration::from_secs(60)).unwrap();
    assert_eq!(y.to_host::<f32>().unwrap(), [1.0; 4]);
}
