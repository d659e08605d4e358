//! Registers handlers in Rust for custom calls, in a program that embeds the device.
//!
//! ```
//! use device_plugin::ffi::Attribute;
//! use pjrt::{ClientOptions, CompileOptions, Plugin, Program};
//!
//! pjrt_cpu::ffi::register("scale", |call| {
//!     let factor = call.attributes.get("factor").and_then(Attribute::as_float).unwrap_or(1.0) as f32;
//!     let input: Vec<f32> = call.operands[0].elements()?;
//!     call.results[0].write(&input.iter().map(|x| factor * x).collect::<Vec<_>>())
//! })?;
//!
//! let client = Plugin::from_static(pjrt_cpu::Cpu::api())?.client(&ClientOptions::new())?;
//! let program = Program::mlir(
//!     "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
//!        %y = stablehlo.custom_call @scale(%x) {api_version = 4 : i32, backend_config = {factor = 2.5 : f64}}
//!          : (tensor<3xf32>) -> tensor<3xf32>
//!        return %y : tensor<3xf32>
//!      }",
//! );
//! let scale = client.compile(&program, &CompileOptions::default())?;
//! let x = client.buffer_from_host(&[1.0f32, 2.0, 4.0], &[3])?;
//! assert_eq!(scale.execute(&[&x])?[0].to_host::<f32>()?, [2.5, 5.0, 10.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Several threads may call a handler at once. A handler blocks the execution that calls it. [`Call::context`] contains
//! the data that the caller of the run passed for custom calls. If a handler fails or panics, the run fails.
//!
//! The handlers of [`engine::custom_calls`](crate::engine::custom_calls) take precedence. Frameworks may also register
//! handlers in XLA's calling convention, through the C function `PJRT_FFI_Register_Handler`. The CPU device calls such
//! handlers like XLA, but passes no streams, state, threads or futures.

use device_plugin::Result;
use device_plugin::ffi::{Call, Handler, Registry};

use super::backend::CpuBackend;
use super::config::NAME;

/// Registers `handler` for the custom calls to `target` in programs that are compiled later.
///
/// # Errors
///
/// Returns `INVALID_ARGUMENT` if the target is empty, and `ALREADY_EXISTS` if the target already has a handler.
pub fn register(target: &str, handler: impl Fn(&mut Call<'_>) -> Result<()> + Send + Sync + 'static) -> Result<()> {
    Registry::of::<CpuBackend>().register(target, NAME, Handler::rust(handler))
}
