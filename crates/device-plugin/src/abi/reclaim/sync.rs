//! Synchronization primitives of the hazard domains. `tests/loom` replaces this file with the corresponding types of
//! the model checker loom.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Declares a static with a constant initializer.
macro_rules! process_wide {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = $init:expr;) => {
        $(#[$meta])*
        static $name: $ty = $init;
    };
}
pub(crate) use process_wide;

/// Declares a thread-local value.
macro_rules! per_thread {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = const $init:block;) => {
        thread_local! {
            $(#[$meta])*
            static $name: $ty = const $init;
        }
    };
}
pub(crate) use per_thread;
