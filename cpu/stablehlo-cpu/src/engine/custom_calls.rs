//! Handlers in Rust for `custom_call` targets. A handler may also replace the engine's implementation of a target.
//!
//! ```
//! use stablehlo_cpu::custom_calls;
//!
//! custom_calls::register("double", |_, operands, results| {
//!     let [x] = operands else { return Err("one operand is needed".into()) };
//!     for (from, to) in x.chunks_exact(4).zip(results[0].chunks_exact_mut(4)) {
//!         let value = f32::from_ne_bytes([from[0], from[1], from[2], from[3]]);
//!         to.copy_from_slice(&(2.0 * value).to_ne_bytes());
//!     }
//!     Ok(())
//! });
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use stablehlo::ir::{Attribute, Attributes};

use super::dtype::TensorType;

/// A custom call of a program.
#[derive(Clone, Debug)]
pub struct CustomCall {
    /// `call_target_name`.
    pub target: String,
    /// `api_version`. Version 4 is the typed FFI, which passes attributes as a dictionary.
    pub api_version: i64,
    /// `backend_config`: a string, or a dictionary with `api_version` 4.
    pub backend_config: Attribute,
    /// Attributes that the specification does not define, such as `mhlo.backend_config`.
    pub attributes: Attributes,
    /// Type of each operand. Elements are row-major, or in the order that the attribute `operand_layouts` specifies.
    pub operands: Vec<TensorType>,
    /// Type of each result. The attribute `result_layouts` may specify another order than row-major.
    pub results: Vec<TensorType>,
    /// `output_operand_aliases`, as pairs of a result index and an operand index. The result initially holds the
    /// contents of the operand.
    pub aliases: Vec<(usize, usize)>,
}

/// A function that computes the results of a custom call from its operands. Operands and results are the bytes of the
/// tensors, in the machine's byte order, and row-major unless the call specifies other layouts. A result in
/// [`CustomCall::aliases`] initially holds the bytes of its operand. Every other result initially holds arbitrary
/// bytes. If the handler returns an error, the run fails with the returned message. Several threads may call a handler
/// at once.
pub type Handler = dyn Fn(&CustomCall, &[&[u8]], &mut [&mut [u8]]) -> Result<(), String> + Send + Sync;

/// Finds the handler of a target in another registry. Returns `None` if the registry has no handler for the target. See
/// [`CompileSettings::custom_calls`](super::CompileSettings::custom_calls).
pub type Lookup = fn(&str) -> Option<Arc<Handler>>;

type Handlers = RwLock<HashMap<String, Arc<Handler>>>;

fn handlers() -> &'static Handlers {
    static HANDLERS: LazyLock<Handlers> = LazyLock::new(Handlers::default);
    &HANDLERS
}

/// Registers `handler` for the custom calls to `target` in programs that are compiled later. Returns whether `handler`
/// replaces another handler. A handler takes precedence over the engine's own implementation of a target, such as `Qr`.
pub fn register(
    target: &str,
    handler: impl Fn(&CustomCall, &[&[u8]], &mut [&mut [u8]]) -> Result<(), String> + Send + Sync + 'static,
) -> bool {
    // The destructor of the replaced handler may use this registry, so run it after the lock is released.
    let before = {
        let mut handlers = handlers().write().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(target.to_owned(), Arc::new(handler))
    };
    before.is_some()
}

/// Removes the handler of a target and returns whether the target had a handler. Programs that are already compiled
/// keep the handler.
pub fn unregister(target: &str) -> bool {
    let before = {
        let mut handlers = handlers().write().unwrap_or_else(PoisonError::into_inner);
        handlers.remove(target)
    };
    before.is_some()
}

/// Returns the targets that have a handler, in sorted order.
pub fn targets() -> Vec<String> {
    let mut names: Vec<String> = handlers().read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
    names.sort();
    names
}

/// A handler and the call that it implements.
pub(crate) struct Bound {
    pub(crate) call: CustomCall,
    pub(crate) handler: Arc<Handler>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.call, f)
    }
}

/// Returns the handler of a target from this registry, or else the handler that `others` finds.
pub(crate) fn find(target: &str, others: Option<Lookup>) -> Option<Arc<Handler>> {
    let own = handlers().read().unwrap_or_else(PoisonError::into_inner).get(target).cloned();
    own.or_else(|| others.and_then(|find| find(target)))
}
