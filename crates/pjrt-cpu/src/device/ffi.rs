//! Custom calls of the program that embeds the device: handlers in Rust, registered through PJRT's FFI extension.
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
//! Several threads may call a handler at once. A handler blocks the execution that calls it. [`Call::context`] holds
//! the other data that the caller of the run passed. If a handler fails or panics, the run fails with that error.
//!
//! The handlers of [`engine::custom_calls`](crate::engine::custom_calls) take precedence. Frameworks may also register
//! handlers in XLA's calling convention, through the C function `PJRT_FFI_Register_Handler`. They are called as XLA
//! calls them, but get no streams, state, threads or futures.

use std::cell::RefCell;
use std::sync::Arc;

use device_plugin::ffi::{Call, ExecuteContext, Handler, Operand, Registry, ResultBuffer};
use device_plugin::stablehlo::config_attributes;
use device_plugin::{DevicePlugin as _, Result, Shape};

use super::backend::CpuBackend;
use super::plugin::Cpu;
use super::types;
use stablehlo_cpu::custom_calls::{self, CustomCall};

/// The platform names that a handler may be registered for: the plugin's own name, PJRT's for processors, and XLA's.
const PLATFORMS: [&str; 3] = [Cpu::NAME, "cpu", "host"];

/// Registers `handler` for the custom calls of `target`, in programs compiled from now on.
///
/// # Errors
///
/// `INVALID_ARGUMENT` if the target is empty, `ALREADY_EXISTS` if the target has another handler.
pub fn register(target: &str, handler: impl Fn(&mut Call<'_>) -> Result<()> + Send + Sync + 'static) -> Result<()> {
    Registry::of::<CpuBackend>().register(target, Cpu::NAME, Handler::rust(handler))
}

thread_local! {
    /// The context of the execution that runs on this thread.
    static CONTEXT: RefCell<Option<ExecuteContext>> = const { RefCell::new(None) };
}

/// Runs a program with this context for its custom calls. All steps of a program run on the thread of its execution.
pub(crate) fn within<T>(context: Option<&ExecuteContext>, run: impl FnOnce() -> T) -> T {
    /// Restores the previous context, even if a handler panics.
    struct Before(Option<ExecuteContext>);
    impl Drop for Before {
        fn drop(&mut self) {
            CONTEXT.set(self.0.take());
        }
    }
    // A handler may run programs itself. They must not inherit the context of the handler's own run.
    if context.is_none() && CONTEXT.with_borrow(Option::is_none) {
        return run();
    }
    let _before = Before(CONTEXT.replace(context.cloned()));
    run()
}

/// Finds the engine's handler of a target. Returns `None` if none is registered. A handler in Rust precedes one in C.
pub(crate) fn find(target: &str) -> Option<Arc<custom_calls::Handler>> {
    let registry = Registry::of::<CpuBackend>();
    let handlers = PLATFORMS.iter().filter_map(|platform| registry.handler(target, platform));
    let handler = handlers.min_by_key(|handler| !matches!(handler, Handler::Rust(_)))?;
    Some(Arc::new(move |call: &CustomCall, operands: &[&[u8]], results: &mut [&mut [u8]]| {
        run(&handler, call, operands, results).map_err(|error| error.message().to_owned())
    }))
}

/// Calls a handler, and converts the engine's types to the SDK's.
fn run(handler: &Handler, call: &CustomCall, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<()> {
    let shapes = |all: &[_]| all.iter().map(types::shape).collect::<Result<Vec<Shape>>>();
    let (of_operands, of_results) = (shapes(&call.operands)?, shapes(&call.results)?);
    let attributes = config_attributes(&call.backend_config, &call.attributes);
    let operands: Vec<_> = of_operands.iter().zip(operands).map(|(shape, bytes)| Operand { shape, bytes }).collect();
    let mut results: Vec<_> = of_results
        .iter()
        .zip(results)
        .enumerate()
        .map(|(index, (shape, bytes))| {
            // Clear the memory, so that the handler cannot read its previous contents.
            if !call.aliases.iter().any(|(result, _)| *result == index) {
                bytes.fill(0);
            }
            ResultBuffer { shape, bytes }
        })
        .collect();
    let context = CONTEXT.with_borrow(Clone::clone).unwrap_or_default();
    let mut call = Call::new(&call.target, &attributes, &operands, &mut results, &context)?;
    handler.call(&mut call)
}
