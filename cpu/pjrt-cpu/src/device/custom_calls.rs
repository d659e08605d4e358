//! Finds and calls the handlers of custom calls that the embedding program or the framework registered.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use device_plugin::ffi::{Call, ExecuteContext, Handler, Operand, Registry, ResultBuffer};
use device_plugin::stablehlo::config_attributes;
use device_plugin::{Backend, Result, Shape};

use super::config::NAME;
use super::{types, workers};
use stablehlo_cpu::custom_calls::{self, CustomCall};

/// The platform names that a handler may be registered for: the plugin's own name, PJRT's name for CPUs, and XLA's
/// name.
const PLATFORMS: [&str; 3] = [NAME, "cpu", "host"];

thread_local! {
    /// The context of the execution that runs on this thread.
    static CONTEXT: RefCell<Option<ExecuteContext>> = const { RefCell::new(None) };
    /// Number of handler calls on this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of handler calls on this thread so far.
pub(crate) fn calls_on_this_thread() -> u64 {
    CALLS.get()
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
    // A handler may run programs itself. These programs must not inherit the context of the handler's own run.
    if context.is_none() && CONTEXT.with_borrow(Option::is_none) {
        return run();
    }
    let _before = Before(CONTEXT.replace(context.cloned()));
    run()
}

/// Finds the engine's handler of a target among the handlers of the backend `B`. Returns `None` if no handler is
/// registered. A handler in Rust takes precedence over a handler in C.
pub(crate) fn find<B: Backend>(target: &str) -> Option<Arc<custom_calls::Handler>> {
    let registry = Registry::of::<B>();
    let handlers = PLATFORMS.iter().filter_map(|platform| registry.handler(target, platform));
    let handler = handlers.min_by_key(|handler| !matches!(handler, Handler::Rust(_)))?;
    Some(Arc::new(move |call: &CustomCall, operands: &[&[u8]], results: &mut [&mut [u8]]| {
        run(&handler, call, operands, results).map_err(|error| error.message().to_owned())
    }))
}

/// Calls a handler with the operands, results and attributes of a call, converted from the engine's types to the SDK's.
fn run(handler: &Handler, call: &CustomCall, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<()> {
    CALLS.set(CALLS.get() + 1);
    let shapes = |all: &[_]| all.iter().map(types::shape).collect::<Result<Vec<Shape>>>();
    let (of_operands, of_results) = (shapes(&call.operands)?, shapes(&call.results)?);
    let attributes = config_attributes(&call.backend_config, &call.attributes);
    let operands: Vec<_> = of_operands.iter().zip(operands).map(|(shape, bytes)| Operand::new(shape, bytes)).collect();
    let mut results: Vec<_> = of_results
        .iter()
        .zip(results)
        .enumerate()
        .map(|(index, (shape, bytes))| {
            // Clear the memory, so that the handler cannot read its previous contents.
            if !call.aliases.iter().any(|(result, _)| *result == index) {
                bytes.fill(0);
            }
            ResultBuffer::new(shape, bytes)
        })
        .collect();
    let context = CONTEXT.with_borrow(Clone::clone).unwrap_or_default();
    let mut call = Call::new(&call.target, &attributes, &operands, &mut results, &context)?;
    workers::in_handler(|| handler.call(&mut call))
}
