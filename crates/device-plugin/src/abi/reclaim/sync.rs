//! Synchronization primitives of the hazard domains. `tests/loom` replaces this file by the types of a model checker.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// A static that need not be made at run time.
macro_rules! process_wide {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = $init:expr;) => {
        $(#[$meta])*
        static $name: $ty = $init;
    };
}
pub(crate) use process_wide;

/// A value of each thread.
macro_rules! per_thread {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = const $init:block;) => {
        thread_local! {
            $(#[$meta])*
            static $name: $ty = const $init;
        }
    };
}
pub(crate) use per_thread;
