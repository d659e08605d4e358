//! Tests of the device through PJRT's C API, as frameworks use it.

#![allow(clippy::unwrap_used, reason = "a test program")]

mod aliasing;
mod arriving;
mod asynchrony;
mod bounded;
mod built_programs;
mod cancel;
mod compile_options;
mod devices;
mod donation;
mod endless_regions;
mod ffi;
mod first_part;
mod launches;
mod limits;
mod memories;
mod messages;
mod poison;
mod refusals;
mod shutdown;
mod side_effects;
mod tokens;
mod zero_copy;

use pjrt::{Client, ClientOptions, CompileOptions, LoadedExecutable, Plugin, Program};
use pjrt_cpu::Cpu;

/// Returns the device as an embedded plugin.
fn plugin() -> Plugin {
    Plugin::from_static(Cpu::api()).unwrap()
}

/// Creates a client with the given number of devices.
fn client(devices: i64) -> Client {
    plugin().client(&ClientOptions::new().with("device_count", devices)).unwrap()
}

/// Compiles StableHLO text for one device.
fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A program that adds 1 to four numbers.
const INCREMENT: &str = "
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %one : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

/// A program that squares four numbers and halves the squares, as often as the second argument specifies. With many
/// repetitions, the program continues on another thread.
const LOOP: &str = "
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %b = stablehlo.multiply %a, %a : tensor<4xf32>
         %c = stablehlo.multiply %b, %half : tensor<4xf32>
         %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j, %c : tensor<i32>, tensor<4xf32> }
  return %r#1, %r#0 : tensor<4xf32>, tensor<i32>
}";
