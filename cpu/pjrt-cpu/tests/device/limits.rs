//! Tests of memory statistics and memory limits.

use std::sync::OnceLock;

use pjrt::{Buffer, Client, ClientOptions, ErrorCode, LoadedExecutable, Upload};
use pjrt_cpu::ffi;

use crate::{LOOP, compile, plugin};

fn limited(limit: &str) -> Client {
    plugin().client(&ClientOptions::new().with("memory_limit", limit).with("device_count", 2)).unwrap()
}

#[test]
fn limit_per_device() {
    let client = limited("1MiB");
    let data = vec![0.0f32; 160 << 10];
    let first = client.buffer_from_host(&data, &[160 << 10]).unwrap();
    let error = client.buffer_from_host(&data, &[160 << 10]).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    // Each device has its own memory, and freed memory can be used again.
    let other = client.devices().unwrap().remove(1);
    assert!(client.upload(Upload::of(&data).dims(&[160 << 10]).to(&other)).is_ok());
    drop(first);
    assert!(client.buffer_from_host(&data, &[160 << 10]).is_ok());
}

#[test]
fn statistics_follow_the_buffers() {
    let client = limited("16 MiB");
    let device = client.devices().unwrap().remove(0);
    let stats = device.memory_stats().unwrap();
    assert_eq!((stats.bytes_in_use, stats.num_allocs, stats.bytes_limit), (0, Some(0), Some(16 << 20)));
    assert_eq!(stats.bytes_reservable_limit, Some(16 << 20));
    let small = client.buffer_from_host(&[0u8; 100], &[100]).unwrap();
    let large = client.buffer_from_host(&[0u8; 8192], &[8192]).unwrap();
    drop(large);
    let stats = device.memory_stats().unwrap();
    assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use), (128, Some(8320)), "in blocks of 64 bytes");
    assert_eq!((stats.num_allocs, stats.largest_alloc_size), (Some(2), Some(8192)));
    assert_eq!(stats.pool_bytes, Some(8320), "the large block waits for reuse");
    device.clear_memory_stats().unwrap();
    let stats = device.memory_stats().unwrap();
    assert_eq!((stats.bytes_in_use, stats.peak_bytes_in_use, stats.num_allocs), (128, Some(128), Some(0)));
    drop(small);
    assert_eq!(device.memory_stats().unwrap().bytes_in_use, 0);
}

#[test]
fn temporaries_count() {
    let client = limited("64MiB");
    let text = "func.func @main(%x: tensor<512x512xf32>) -> tensor<512xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<512x512xf32>, tensor<f32>) -> tensor<512xf32>
      return %1 : tensor<512xf32>
    }";
    let program = compile(&client, text);
    let x = client.buffer_from_host(&vec![1.0f32; 512 * 512], &[512, 512]).unwrap();
    let out = program.execute(&[&x]).unwrap();
    assert_eq!(out[0].to_host::<f32>().unwrap(), [512.0 * 512.0; 512]);
    let stats = client.devices().unwrap()[0].memory_stats().unwrap();
    assert_eq!(stats.bytes_in_use, (1 << 20) + 2048);
    assert!(stats.peak_bytes_in_use.unwrap() >= 2 << 20, "{stats:?}");
}

/// The size of each of two arrays fits the address space, but their sum overflows.
#[test]
fn rejects_program_beyond_address_space() {
    let client = plugin().client(&ClientOptions::new()).unwrap();
    let huge = "tensor<9223372036854775807xi8>";
    let text = format!(
        "func.func @main(%x: {huge}, %y: {huge}, %z: {huge}) -> {huge} {{
          %0 = stablehlo.add %x, %y : {huge}
          %1 = stablehlo.multiply %0, %z : {huge}
          %2 = stablehlo.reverse %1, dims = [0] : {huge}
          return %2 : {huge}
        }}"
    );
    let error = client.compile(&pjrt::Program::mlir(text), &pjrt::CompileOptions::default()).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED, "{error}");
}

/// A loop over an array of 1 MiB. The loop runs once and negates the array.
const IDENTITY_LOOP: &str = "
func.func @main(%x: tensor<262144xf32>) -> tensor<262144xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<262144xf32>
    cond { %p = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %b = stablehlo.negate %a : tensor<262144xf32>
         %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j, %b : tensor<i32>, tensor<262144xf32> }
  return %r#1 : tensor<262144xf32>
}";

/// A framework that never waits holds the inputs and outputs of a bounded number of launches.
#[test]
fn launches_in_flight_hold_bounded_memory() {
    let in_flight = 4;
    let options = ClientOptions::new().with("max_inflight_computations_per_device", in_flight);
    let client = plugin().client(&options).unwrap();
    let program = compile(&client, IDENTITY_LOOP);
    let device = client.devices().unwrap().remove(0);
    let data = vec![1.0f32; 262_144];
    let mut last = None;
    for _ in 0..200 {
        let x = client.buffer_from_host(&data, &[262_144]).unwrap();
        last = program.execute(&[&x]).unwrap().pop();
    }
    assert_eq!(last.unwrap().to_host::<f32>().unwrap()[0], -1.0);
    // Each launch has an input, an output and temporaries.
    let peak = device.memory_stats().unwrap().peak_bytes_in_use.unwrap();
    assert!(peak <= (in_flight + 2) * (4 << 20), "{peak}");
}

/// The execution of a handler reaches the limit of one execution. The handler launches another program and waits for
/// it.
#[test]
fn handlers_launch_beyond_the_limit() {
    static INNER: OnceLock<(LoadedExecutable, Buffer, Buffer)> = OnceLock::new();
    let options = ClientOptions::new().with("max_inflight_computations_per_device", 1);
    let client = plugin().client(&options).unwrap();
    let x = client.buffer_from_host(&[2.0f32; 4], &[4]).unwrap();
    let count = client.buffer_from_host(&[3], &[]).unwrap();
    INNER.set((compile(&client, LOOP), x, count)).unwrap();
    ffi::register("launches_a_loop", |call| {
        let (program, x, count) = INNER.get().unwrap();
        let outputs = program.execute(&[x, count]).unwrap();
        call.results[0].write(&outputs[0].to_host::<f32>().unwrap())
    })
    .unwrap();
    let program = compile(
        &client,
        "func.func @main() -> tensor<4xf32> {
           %0 = stablehlo.custom_call @launches_a_loop() {api_version = 4 : i32} : () -> tensor<4xf32>
           return %0 : tensor<4xf32>
         }",
    );
    assert_eq!(program.execute(&[]).unwrap()[0].to_host::<f32>().unwrap(), [2.0; 4]);
}
