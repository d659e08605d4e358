//! Callbacks that a plugin calls: no panic reaches the plugin, and this crate knows which threads run a callback.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

thread_local! {
    /// Number of plugins' callbacks that are running on this thread.
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread is running a callback that a plugin called.
pub(crate) fn in_callback() -> bool {
    // The counter of a thread that is ending may already be destroyed. Assume that such a thread is in a callback.
    CALLBACKS.try_with(|depth| depth.get() > 0).unwrap_or(true)
}

fn catch(f: impl FnOnce()) -> std::thread::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the home of panics on a plugin's stack")]
    std::panic::catch_unwind(AssertUnwindSafe(f))
}

/// Runs the body of a callback that a plugin called, and catches a panic before it unwinds into the plugin's stack
/// frames.
pub(crate) fn contain(f: impl FnOnce()) {
    let enter = |by: isize| CALLBACKS.try_with(|depth| depth.set(depth.get().saturating_add_signed(by)));
    let entered = enter(1);
    // The panic hook has already reported the panic. Dropping the panic's payload may panic again.
    if let Err(panic) = catch(f)
        && let Err(again) = catch(|| drop(panic))
    {
        std::mem::forget(again);
    }
    if entered.is_ok() {
        // Ignore the result. The thread-local counter still exists, because this function incremented it above.
        let _left = enter(-1);
    }
}
