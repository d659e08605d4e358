//! Tests that outputs own their memory, unless the caller donates the memory of an argument.

use std::sync::Arc;

use pjrt::{Buffer, Client, Input, Outputs, Upload};

use crate::{client, compile};

/// Size in bytes of an array of 1024 `f32`s.
const ARRAY: i64 = 4096;

fn in_use(client: &Client) -> i64 {
    client.devices().unwrap()[0].memory_stats().unwrap().bytes_in_use
}

fn array(client: &Client, value: f32) -> Buffer {
    client.buffer_from_host(&[value; 1024], &[1024]).unwrap()
}

/// Runs a program. Returns its outputs and the bytes in use on the device for them.
fn run(client: &Client, text: &str, inputs: Vec<Input<'_>>) -> (Outputs, i64) {
    let program = compile(client, text);
    let before = in_use(client);
    let outputs = program.execute_with(inputs, &Default::default()).unwrap().outputs;
    outputs.iter().for_each(|output| output.wait().unwrap());
    let used = in_use(client) - before;
    (outputs, used)
}

const IDENTITY: &str = "func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  return %x : tensor<1024xf32>
}";

#[test]
fn returned_argument_is_copied() {
    let client = client(1);
    let x = array(&client, 3.0);
    let (outputs, used) = run(&client, IDENTITY, vec![(&x).into()]);
    assert_eq!(used, ARRAY);
    drop(x);
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [3.0; 1024]);
}

#[test]
fn argument_returned_twice_is_copied_twice() {
    let client = client(1);
    let x = array(&client, 3.0);
    let text = "func.func @main(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
      return %x, %x : tensor<1024xf32>, tensor<1024xf32>
    }";
    let (outputs, used) = run(&client, text, vec![(&x).into()]);
    assert_eq!(used, 2 * ARRAY);
    assert!(outputs.iter().all(|output| output.to_host::<f32>().unwrap() == [3.0; 1024]));
}

#[test]
fn donated_argument_is_returned_in_place() {
    let client = client(1);
    let donating = IDENTITY.replace("%x: tensor<1024xf32>)", "%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32})");
    let (outputs, used) = run(&client, &donating, vec![Input::Donate(array(&client, 3.0))]);
    assert_eq!(used, 0);
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [3.0; 1024]);
    // The caller keeps the argument, so the output is a copy.
    let x = array(&client, 4.0);
    let (outputs, used) = run(&client, &donating, vec![(&x).into()]);
    assert_eq!(used, ARRAY);
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [4.0; 1024]);
    // If a donated argument is returned twice, its memory becomes one of the outputs.
    let twice = "func.func @main(%x: tensor<1024xf32> {jax.buffer_donor = true})
        -> (tensor<1024xf32>, tensor<1024xf32>) {
      return %x, %x : tensor<1024xf32>, tensor<1024xf32>
    }";
    let (outputs, used) = run(&client, twice, vec![Input::Donate(array(&client, 5.0))]);
    assert_eq!(used, ARRAY);
    assert!(outputs.iter().all(|output| output.to_host::<f32>().unwrap() == [5.0; 1024]));
}

#[test]
fn value_returned_twice_has_two_memories() {
    let client = client(1);
    let x = array(&client, 3.0);
    let text = "func.func @main(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
      %0 = stablehlo.add %x, %x : tensor<1024xf32>
      return %0, %0 : tensor<1024xf32>, tensor<1024xf32>
    }";
    let (outputs, used) = run(&client, text, vec![(&x).into()]);
    assert_eq!(used, 2 * ARRAY);
    // The caller may overwrite one of the outputs while the other output is alive.
    let square = "func.func @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
      %0 = stablehlo.multiply %x, %x : tensor<1024xf32>
      return %0 : tensor<1024xf32>
    }";
    let mut outputs = outputs.into_iter();
    let (squared, used) = run(&client, square, vec![Input::Donate(outputs.next().unwrap())]);
    assert_eq!(used, 0);
    assert_eq!(squared[0].to_host::<f32>().unwrap(), [36.0; 1024]);
    assert_eq!(outputs.next().unwrap().to_host::<f32>().unwrap(), [6.0; 1024]);
}

#[test]
fn returned_constant_is_copied() {
    let client = client(1);
    let text = "func.func @main() -> tensor<1024xf32> {
      %0 = stablehlo.constant dense<7.0> : tensor<1024xf32>
      return %0 : tensor<1024xf32>
    }";
    let program = compile(&client, text);
    let before = in_use(&client);
    let outputs: Vec<_> = (0..3).map(|_| program.execute(&[]).unwrap().remove(0)).collect();
    assert_eq!(in_use(&client) - before, 3 * ARRAY);
    assert!(outputs.iter().all(|output| output.to_host::<f32>().unwrap() == [7.0; 1024]));
}

#[test]
fn returned_host_memory_is_copied() {
    /// A page of `f32` elements, aligned to 64 bytes.
    #[repr(align(64))]
    struct Page([f32; 1024]);
    struct Owner(Box<Page>, #[expect(dead_code, reason = "counted by the test")] Arc<()>);
    impl AsRef<[f32]> for Owner {
        fn as_ref(&self) -> &[f32] {
            &self.0.0
        }
    }
    let client = client(1);
    let device = client.default_device().unwrap();
    let alive = Arc::new(());
    let owner = Owner(Box::new(Page([9.0; 1024])), Arc::clone(&alive));
    let x = client.upload(Upload::owned(owner).dims(&[1024]).to(&device)).unwrap();
    assert_eq!((in_use(&client), Arc::strong_count(&alive)), (0, 2), "the buffer is the host's memory");
    let donating = IDENTITY.replace("%x: tensor<1024xf32>)", "%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32})");
    let (outputs, used) = run(&client, &donating, vec![Input::Donate(x)]);
    assert_eq!((used, Arc::strong_count(&alive)), (ARRAY, 1), "the output is not");
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [9.0; 1024]);
}

/// Tests a program that runs on a thread of the client, so that its outputs do not exist when the call returns.
#[test]
fn long_program_returns_copies_too() {
    let client = client(1);
    let x = array(&client, 2.0);
    let n = client.buffer_from_host(&[10i32], &[]).unwrap();
    let text =
        "func.func @main(%x: tensor<1024xf32>, %n: tensor<i32>) -> (tensor<1024xf32>, tensor<i32>, tensor<i32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r = stablehlo.while(%i = %zero) : tensor<i32>
        cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j : tensor<i32> }
      return %x, %r, %r : tensor<1024xf32>, tensor<i32>, tensor<i32>
    }";
    let (outputs, used) = run(&client, text, vec![(&x).into(), (&n).into()]);
    // A single number occupies a block of 64 bytes.
    assert_eq!(used, ARRAY + 2 * 64);
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.0; 1024]);
    assert_eq!(outputs[2].to_host::<i32>().unwrap(), [10]);
}
