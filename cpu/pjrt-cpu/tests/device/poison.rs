//! Tests of executions that the framework poisons.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use pjrt::{AsyncHostToDeviceTransferManager, ElementType, ErrorCode, ExecuteOptions, Input, Shape};
use pjrt_cpu::ffi;

use crate::{INCREMENT, LOOP, client, compile};

/// The execution of this program waits in the custom call `gate` until the test allows it to continue.
const GATED: &str = "
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.while(%i = %zero) : tensor<i32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j : tensor<i32> }
  %y = stablehlo.custom_call @gate(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y, %r : tensor<4xf32>, tensor<i32>
}";

#[test]
fn poison_fails_execution_and_dependents() {
    static GATE: Mutex<Option<(std::sync::mpsc::Sender<()>, Receiver<()>)>> = Mutex::new(None);
    ffi::register("gate", |_| {
        let (begun, gate) = GATE.lock().unwrap().take().expect("a gate");
        begun.send(()).unwrap();
        gate.recv().unwrap();
        Ok(())
    })
    .unwrap();
    let ((begin, begun), (open, gate)) = (channel(), channel());
    *GATE.lock().unwrap() = Some((begin, gate));

    let client = client(2);
    let devices = client.addressable_devices().unwrap();
    let (gated, looped) = (compile(&client, GATED), compile(&client, LOOP));
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    let n = client.buffer_from_host(&[3i32], &[]).unwrap();
    let options = |launch_id| ExecuteOptions::new().with_launch_id(launch_id);
    let first = gated.execute_with([Input::from(&x), Input::from(&n)], &options(1)).unwrap();
    begun.recv().unwrap();
    // The second execution waits for the first one.
    let inputs = || [Input::from(&first.outputs[0]), Input::from(&n)];
    let second = looped.execute_with(inputs(), &options(2)).unwrap();
    let third = looped.execute_with(inputs(), &options(2)).unwrap();
    let poison = |device: usize, id| devices[device].poison_execution(id, ErrorCode::UNAVAILABLE, "a peer is lost");
    assert!(!poison(0, 3).unwrap() && !poison(1, 2).unwrap());
    assert!(poison(0, 2).unwrap());
    // The second execution no longer waits.
    let error = second.done.wait().unwrap_err();
    assert_eq!((error.code(), error.message().contains("a peer is lost")), (ErrorCode::UNAVAILABLE, true));
    assert_eq!(second.outputs[0].to_host::<f32>().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    assert!(!third.done.is_ready().unwrap());
    // An execution that has begun must end before its event is ready.
    assert!(poison(0, 1).unwrap() && !poison(0, 1).unwrap());
    assert!(!first.done.is_ready().unwrap());
    open.send(()).unwrap();
    assert_eq!(first.done.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    assert_eq!(third.done.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    assert!(!poison(0, 2).unwrap());
    assert!(devices[0].poison_execution(2, ErrorCode::OK, "").is_err());
    // The device can still run programs.
    let fine = looped.execute(&[&x, &n]).unwrap();
    fine[0].to_host::<f32>().unwrap();
}

#[test]
fn poison_ends_wait_for_data() {
    let client = client(1);
    let device = client.default_device().unwrap();
    let increment = compile(&client, INCREMENT);
    let shape = Shape::new(ElementType::F32, [4]);
    let transfer = AsyncHostToDeviceTransferManager::new(&device.default_memory().unwrap(), &[shape]).unwrap();
    let missing = transfer.retrieve_buffer(0).unwrap();
    let options = ExecuteOptions::new().with_launch_id(4);
    let execution = increment.execute_with([Input::from(&missing)], &options).unwrap();
    assert!(!execution.done.is_ready().unwrap());
    assert!(device.poison_execution(4, ErrorCode::UNAVAILABLE, "the sender is lost").unwrap());
    assert_eq!(execution.done.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    assert_eq!(execution.outputs[0].to_host::<f32>().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    // The argument is not affected.
    transfer.transfer_last_data(0, 0, [1.0f32; 4].map(f32::to_ne_bytes).concat()).unwrap().wait().unwrap();
    assert_eq!(increment.execute(&[&missing]).unwrap()[0].to_host::<f32>().unwrap(), [2.0; 4]);
}
