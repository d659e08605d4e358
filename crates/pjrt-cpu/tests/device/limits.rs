//! Memory statistics and memory limits.

use pjrt::{Client, ClientOptions, ErrorCode};

use crate::{compile, plugin};

fn limited(limit: &str) -> Client {
    plugin().client(&ClientOptions::new().with("memory_limit", limit).with("device_count", 2)).unwrap()
}

#[test]
fn limit_error_names_sizes_and_remedy() {
    let client = limited("1MiB");
    let data = vec![0.0f32; 160 << 10];
    let first = client.buffer_from_host(&data, &[160 << 10]).unwrap();
    let error = client.buffer_from_host(&data, &[160 << 10]).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    for part in ["device 0", "640.0 KiB", "1.0 MiB", "memory_limit", "PJRT_CPU_MEMORY_LIMIT"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    // Each device has its own memory, and freed memory can be used again.
    let other = client.devices().unwrap().remove(1);
    assert!(client.buffer_from_host_to(&data, &[160 << 10], &other).is_ok());
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
    assert!(error.message().contains("an address space holds"), "{error}");
}
