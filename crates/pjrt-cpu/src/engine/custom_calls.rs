//! Handlers for `custom_call` targets the engine does not know: the door for a program's own kernels in Rust.
//!
//! ```
//! use pjrt_cpu::engine::custom_calls;
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

/// A call as the program makes it.
#[derive(Clone, Debug)]
pub struct CustomCall {
    /// `call_target_name`.
    pub target: String,
    /// `api_version`; 4 is the typed FFI, whose attributes are a dictionary.
    pub api_version: i64,
    /// `backend_config`: a string, or a dictionary with `api_version` 4.
    pub backend_config: Attribute,
    /// Attributes besides the specification's, such as `mhlo.backend_config`.
    pub attributes: Attributes,
    /// Type of each operand; elements are row-major, or in the order that `operand_layouts` among the attributes states.
    pub operands: Vec<TensorType>,
    /// Type of each result, whose order `result_layouts` states.
    pub results: Vec<TensorType>,
    /// `output_operand_aliases`: results that are their operand at first, as (result, operand).
    pub aliases: Vec<(usize, usize)>,
}

/// Computes the results from the operands; both are the tensors' bytes, in the machine's byte order, and
/// row-major unless the call states other layouts. Results hold arbitrary bytes at first, those of
/// [`CustomCall::aliases`] their operand's. The message of an error becomes the error of the run. Calls may come from
/// several threads at once.
pub type Handler = dyn Fn(&CustomCall, &[&[u8]], &mut [&mut [u8]]) -> Result<(), String> + Send + Sync;

type Handlers = RwLock<HashMap<String, Arc<Handler>>>;

fn handlers() -> &'static Handlers {
    static HANDLERS: LazyLock<Handlers> = LazyLock::new(Handlers::default);
    &HANDLERS
}

/// Makes `handler` run the custom calls of that target in programs compiled from now on; says whether it replaces
/// another. A target the engine implements itself, such as `Qr`, is given to the handler as well.
pub fn register(
    target: &str,
    handler: impl Fn(&CustomCall, &[&[u8]], &mut [&mut [u8]]) -> Result<(), String> + Send + Sync + 'static,
) -> bool {
    // What another handler held is dropped when the lock is free again.
    let before = {
        let mut handlers = handlers().write().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(target.to_owned(), Arc::new(handler))
    };
    before.is_some()
}

/// Forgets the handler of a target; programs compiled before keep it. Says whether there was one.
pub fn unregister(target: &str) -> bool {
    let before = {
        let mut handlers = handlers().write().unwrap_or_else(PoisonError::into_inner);
        handlers.remove(target)
    };
    before.is_some()
}

/// The targets with a handler, in order.
pub fn targets() -> Vec<String> {
    let mut names: Vec<String> = handlers().read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
    names.sort();
    names
}

/// A handler and the call it answers.
pub(crate) struct Bound {
    pub(crate) call: CustomCall,
    pub(crate) handler: Arc<Handler>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.call, f)
    }
}

/// The handler of a target: one of these, or one that came through PJRT's FFI extension.
pub(crate) fn find(target: &str) -> Option<Arc<Handler>> {
    let own = handlers().read().unwrap_or_else(PoisonError::into_inner).get(target).cloned();
    own.or_else(|| crate::ffi::find(target))
}
