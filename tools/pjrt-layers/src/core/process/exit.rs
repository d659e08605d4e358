//! Informs layers that the process exits.

use std::sync::{Mutex, Once, PoisonError};

use super::contain::contain;
use crate::layer::Layer;

/// The layers of a stack. The first layer is next to the framework.
type Layers = &'static [&'static dyn Layer];

/// The stacks of layers, each with the id of the process that created it.
static STACKS: Mutex<Vec<(Layers, u32)>> = Mutex::new(Vec::new());
static REGISTERED: Once = Once::new();

/// Registers a stack, so that `Layer::exit` of its layers runs when the process exits.
pub(in crate::core) fn register(layers: Layers) {
    let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
    if !stacks.iter().any(|(known, _)| std::ptr::eq(*known, layers)) {
        stacks.push((layers, std::process::id()));
    }
    REGISTERED.call_once(|| {
        let function: extern "C" fn() = at_exit;
        // SAFETY: L6 (exit): the function stays mapped until it has run.
        let failed = unsafe { libc::atexit(function) };
        debug_assert!(failed == 0, "atexit has room");
    });
}

extern "C" fn at_exit() {
    let stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // A forked process inherits a copy of its parent's layers. Only the parent may write the records in these layers.
    for (layers, _) in stacks.into_iter().filter(|(_, process)| *process == std::process::id()) {
        for layer in layers {
            contain(|| layer.exit());
        }
    }
}
