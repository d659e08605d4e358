//! Tests of programs that take over the memory of their arguments.

use pjrt::{Client, Input, Upload};

use crate::{client, compile};

const ADD: &str = "
func.func @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.add %x, %y : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}";

fn stats(client: &Client) -> (i64, i64) {
    let stats = client.devices().unwrap()[0].memory_stats().unwrap();
    (stats.bytes_in_use, stats.num_allocs.unwrap())
}

#[test]
fn donated_argument_becomes_result() {
    let client = client(1);
    let add = compile(&client, ADD);
    let mut x = client.buffer_from_host(&[0.0f32; 1024], &[1024]).unwrap();
    let y = client.buffer_from_host(&[1.0f32; 1024], &[1024]).unwrap();
    let before = stats(&client);
    for _ in 0..10 {
        let inputs = vec![Input::Donate(x), Input::Borrow(&y)];
        x = add.execute_with(inputs, &Default::default()).unwrap().outputs.remove(0);
    }
    assert_eq!(stats(&client), before, "ten additions in the same memory");
    assert_eq!(x.to_host::<f32>().unwrap(), [10.0; 1024]);
    // If the caller keeps the argument, the program must not change it.
    let kept = add.execute(&[&x, &y]).unwrap().remove(0);
    assert_eq!((x.to_host::<f32>().unwrap()[0], kept.to_host::<f32>().unwrap()[0]), (10.0, 11.0));
    assert_eq!(stats(&client).1, before.1 + 1);
}

#[test]
fn donates_pending_buffers() {
    let client = client(1);
    let text = "func.func @main(%x: tensor<256x256xf32> {jax.buffer_donor = true}) -> tensor<256x256xf32> {
      %0 = stablehlo.tanh %x : tensor<256x256xf32>
      return %0 : tensor<256x256xf32>
    }";
    let tanh = compile(&client, text);
    let mut x = client.buffer_from_host(&vec![1.0f32; 65536], &[256, 256]).unwrap();
    let before = stats(&client);
    for _ in 0..50 {
        x = tanh.execute_with(vec![x.into()], &Default::default()).unwrap().outputs.remove(0);
    }
    let want = (0..50).fold(1.0f32, |x, _| x.tanh());
    let found = x.to_host::<f32>().unwrap();
    assert!(found.iter().all(|x| (x - want).abs() < 1e-5), "{} and not {want}", found[0]);
    assert_eq!(stats(&client), before, "all of the chain in the same memory");
}

#[test]
fn host_memory_is_not_donated_to_device() {
    let client = client(1);
    let add = compile(&client, ADD);
    let pinned = client.memories().unwrap().into_iter().find(|memory| memory.kind().unwrap() == "pinned_host");
    let x = client.upload(Upload::of(&[1.0f32; 1024]).dims(&[1024]).to(&pinned.unwrap())).unwrap();
    let y = client.buffer_from_host(&[1.0f32; 1024], &[1024]).unwrap();
    let before = stats(&client).0;
    let inputs = vec![Input::Donate(x), Input::Borrow(&y)];
    let out = add.execute_with(inputs, &Default::default()).unwrap().outputs.remove(0);
    assert_eq!(out.to_host::<f32>().unwrap(), [2.0; 1024]);
    assert_eq!(stats(&client).0, before + 4096);
}

#[test]
fn compiled_memory_tells_what_is_shared() {
    let client = client(1);
    let stats = compile(&client, ADD).executable().compiled_memory_stats().unwrap();
    assert_eq!((stats.argument_size, stats.output_size, stats.alias_size), (8192, 4096, 4096));
    assert_eq!((stats.temp_size, stats.peak_memory), (0, 8192));
    let text = "func.func @main(%x: tensor<64x64xf32>) -> tensor<64xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
      return %1 : tensor<64xf32>
    }";
    let program = compile(&client, text);
    let stats = program.executable().compiled_memory_stats().unwrap();
    assert_eq!((stats.output_size, stats.temp_size), (256, 16384), "the product is neither argument nor result");
    let costs = program.executable().cost_analysis().unwrap();
    let cost = |name: &str| costs.iter().find(|cost| cost.name == name).map(|cost| cost.value.clone());
    // 64 * 64 * 64 multiply-adds, and 63 additions for each of 64 sums.
    assert_eq!(cost("flops"), Some((524_288.0f32 + 4032.0).into()));
    assert_eq!(cost("bytes accessed"), Some((2.0f32 * 16384.0 + 16384.0 + 16384.0 + 4.0 + 256.0).into()));
}
