//! Tests of executions that never end on their own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use pjrt::{
    AsyncHostToDeviceTransferManager, Client, ClientOptions, CompileOptions, ElementType, ErrorCode, ExecuteOptions,
    Execution, Input, LoadedExecutable, Program, Shape, Upload,
};
use pjrt_cpu::ffi;

use crate::{INCREMENT, client, compile, plugin};

/// A program that counts forever.
pub(crate) const ENDLESS: &str = "
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while(%i = %x) : tensor<i32>
    cond { stablehlo.return %true : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j : tensor<i32> }
  return %r : tensor<i32>
}";

fn options(launch_id: i32) -> ExecuteOptions {
    ExecuteOptions::new().with_launch_id(launch_id)
}

pub(crate) fn launch(client: &Client, program: &LoadedExecutable, launch_id: i32) -> Execution {
    let x = client.buffer_from_host(&[0i32], &[]).unwrap();
    program.execute_with([Input::Donate(x)], &options(launch_id)).unwrap()
}

/// Checks that the client can still run a program.
fn works(client: &Client) {
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    assert_eq!(compile(client, INCREMENT).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [2.0; 4]);
}

pub(crate) fn ends_by_poison(text: &str) {
    let client = client(1);
    let device = client.default_device().unwrap();
    let endless = compile(&client, text);
    let execution = launch(&client, &endless, 5);
    let next = endless.execute_with([Input::from(&execution.outputs[0])], &options(6)).unwrap();
    assert!(!execution.done.is_ready().unwrap());
    assert!(device.poison_execution(5, ErrorCode::UNAVAILABLE, "a peer failed").unwrap());
    let error = execution.done.wait().unwrap_err();
    assert_eq!((error.code(), error.message().contains("a peer failed")), (ErrorCode::UNAVAILABLE, true));
    assert_eq!(execution.outputs[0].to_host::<i32>().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    assert_eq!(next.done.wait().unwrap_err().code(), ErrorCode::UNAVAILABLE, "it was to begin with that output");
    works(&client);
}

#[test]
fn poison_ends_endless_loop() {
    ends_by_poison(ENDLESS);
}

#[test]
fn poison_ends_loop_without_steps() {
    ends_by_poison(&ENDLESS.replace("%j = stablehlo.add %i, %one : tensor<i32>", "").replace("return %j", "return %i"));
}

#[test]
fn poison_ends_execution_on_callers_thread() {
    let client = plugin().client(&ClientOptions::new().with("deterministic", true)).unwrap();
    let device = client.default_device().unwrap();
    let endless = compile(&client, ENDLESS);
    let x = client.buffer_from_host(&[0i32], &[]).unwrap();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| endless.execute_with([Input::from(&x)], &options(5)).map(drop).unwrap_err());
        while !device.poison_execution(5, ErrorCode::UNAVAILABLE, "a peer failed").unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(caller.join().unwrap().code(), ErrorCode::UNAVAILABLE);
    });
    works(&client);
}

#[test]
fn client_ends_during_endless_loop() {
    for devices in [1, 3] {
        let client = client(devices);
        let endless = compile(&client, ENDLESS);
        let executions: Vec<_> = (0..3).map(|id| launch(&client, &endless, id)).collect();
        drop((executions, endless, client));
    }
}

#[test]
fn shutdown_ends_endless_loop() {
    let client = client(2);
    let endless = compile(&client, ENDLESS);
    let execution = launch(&client, &endless, 1);
    drop((execution, endless));
    client.shutdown(Duration::from_secs(60)).unwrap();
}

/// Shuts a client down while an endless loop is pending. `observe` sends the error of the run.
fn shut_down(options: ClientOptions, launch_id: i32, observe: impl FnOnce(Execution, Sender<pjrt::Error>)) {
    let client = plugin().client(&options.with("device_count", 2)).unwrap();
    let endless = compile(&client, ENDLESS);
    let execution = launch(&client, &endless, launch_id);
    let (said, seen) = channel();
    observe(execution, said);
    drop(endless);
    let error = client.shutdown(Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), pjrt::ErrorKind::Timeout, "{error}");
    assert_eq!(seen.recv().unwrap().code(), ErrorCode::CANCELLED);
}

#[test]
fn shutdown_cancels_run_with_callback() {
    shut_down(ClientOptions::new(), 0, |execution, said| {
        execution.done.on_ready(move |result| said.send(result.unwrap_err()).unwrap()).unwrap();
    });
}

#[test]
fn shutdown_cancels_run_with_pending_download() {
    shut_down(ClientOptions::new(), 0, |execution, said| {
        drop(execution.outputs[0].download().start::<i32>().unwrap());
        execution.done.on_ready(move |result| said.send(result.unwrap_err()).unwrap()).unwrap();
    });
}

#[test]
fn shutdown_cancels_tracked_run() {
    shut_down(ClientOptions::new().with_tracked_runs(), 7, |execution, said| {
        execution.done.on_ready(move |result| said.send(result.unwrap_err()).unwrap()).unwrap();
    });
}

/// A program whose second replica counts forever, while the first replica waits for the second one in a collective.
const DEADLOCK: &str = r#"
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %n = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %r = stablehlo.while(%i = %x) : tensor<i32>
    cond { %p = stablehlo.compare EQ, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j : tensor<i32> }
  %0 = "stablehlo.all_reduce"(%r) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %1 = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %1 : tensor<i32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}"#;

/// Launches a program on two devices.
pub(crate) fn launch_on_two(client: &Client, text: &str) -> (LoadedExecutable, pjrt::ShardedExecution) {
    let options = CompileOptions::default().with_num_replicas(2);
    let program = client.compile(&Program::mlir(text), &options).unwrap();
    let input =
        |device: &pjrt::Device| vec![Input::Donate(client.upload(Upload::of(&[0i32]).dims(&[]).to(device)).unwrap())];
    let inputs = program.addressable_devices().iter().map(input).collect();
    let launched = program.execute_sharded(inputs, &self::options(9)).unwrap();
    (program, launched)
}

#[test]
fn poison_ends_deadlocked_collective() {
    let client = client(2);
    let (_program, launched) = launch_on_two(&client, DEADLOCK);
    for (at, code) in [(0, ErrorCode::UNAVAILABLE), (1, ErrorCode::DATA_LOSS)] {
        let device = &client.addressable_devices().unwrap()[at];
        assert!(device.poison_execution(9, code, "a peer failed").unwrap());
        assert_eq!(launched.done[at].wait().unwrap_err().code(), code);
    }
    works(&client);
}

/// Checks that both executions of a collective end if they are poisoned. Either execution may be the one that computes
/// the collective for both.
pub(crate) fn both_end_by_poison(text: &str) {
    let client = client(2);
    let (_program, launched) = launch_on_two(&client, text);
    let poison =
        |at: usize, code| client.addressable_devices().unwrap()[at].poison_execution(9, code, "a peer failed").unwrap();
    assert!(poison(0, ErrorCode::UNAVAILABLE));
    assert_eq!(launched.done[0].wait().unwrap_err().code(), ErrorCode::UNAVAILABLE);
    // If the second execution waited for the first one, its collective is aborted, possibly before `poison` is called
    // for it.
    let poisoned = poison(1, ErrorCode::DATA_LOSS);
    let code = launched.done[1].wait().unwrap_err().code();
    assert!(code == ErrorCode::ABORTED || (poisoned && code == ErrorCode::DATA_LOSS), "{code:?}, {poisoned}");
    works(&client);
}

/// A program that calls `cancel.step` twice. Both calls declare side effects.
const EFFECTS: &str = "
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @cancel.step(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.custom_call @cancel.step(%0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %big = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
  %2 = stablehlo.dot_general %big, %big, contracting_dims = [1] x [0]
    : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<512x512xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}";

#[test]
fn side_effects_outlive_the_client() {
    type Gate = (Sender<()>, Receiver<()>);
    static GATE: Mutex<Option<Gate>> = Mutex::new(None);
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    ffi::register("cancel.step", |_| {
        if let Some((begun, gate)) = GATE.lock().unwrap().take() {
            begun.send(()).unwrap();
            gate.recv().unwrap();
        }
        STEPS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    let ((begin, begun), (open, gate)) = (channel(), channel());
    *GATE.lock().unwrap() = Some((begin, gate));
    let client = client(1);
    let program = compile(&client, EFFECTS);
    // A call waits for a program with side effects, unless an input of the program has not arrived yet.
    let memory = client.default_device().unwrap().default_memory().unwrap();
    let scalar = Shape::new(ElementType::F32, []);
    let arriving = AsyncHostToDeviceTransferManager::new(&memory, &[scalar]).unwrap();
    let x = arriving.retrieve_buffer(0).unwrap();
    let execution = program.execute_with([Input::Donate(x)], &options(1)).unwrap();
    arriving.transfer_last_data(0, 0, 1.0f32.to_ne_bytes()).unwrap().wait().unwrap();
    drop(arriving);
    begun.recv().unwrap();
    std::thread::scope(|scope| {
        let ending = scope.spawn(move || drop((execution, program, client)));
        open.send(()).unwrap();
        ending.join().unwrap();
    });
    // The thread that started the program when its input arrived may still hold the client, and destroy it later.
    let start = Instant::now();
    while STEPS.load(Ordering::Relaxed) < 2 && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(STEPS.load(Ordering::Relaxed), 2);
}

/// The memory of a stopped execution is freed, like the memory of an execution that ends normally.
#[test]
fn stopped_execution_frees_memory() {
    let client = client(1);
    let device = client.default_device().unwrap();
    let endless = compile(&client, ENDLESS);
    let execution = launch(&client, &endless, 1);
    assert!(device.poison_execution(1, ErrorCode::ABORTED, "enough").unwrap());
    execution.done.wait().unwrap_err();
    drop(execution);
    // Another thread may not have dropped the argument yet.
    while device.memory_stats().unwrap().bytes_in_use > 0 {
        std::thread::yield_now();
    }
}
