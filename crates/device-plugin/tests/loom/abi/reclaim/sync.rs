//! Atomics, locks and thread-local values of the model checker `loom`.

pub use std::sync::atomic::Ordering;

use loom::sync::atomic::fence;
pub use loom::sync::{Mutex, MutexGuard};

/// Performs an atomic access. If the access is sequentially consistent, a fence follows, because `loom` treats such an
/// access as weaker than it is.
fn fenced<T>(sequential: bool, access: impl FnOnce() -> T) -> T {
    let result = access();
    if sequential {
        fence(Ordering::SeqCst);
    }
    result
}

macro_rules! atomics {
    ($($name:ident($ty:ty);)*) => {$(
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            pub fn new(value: $ty) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $ty {
                fenced(order == Ordering::SeqCst, || self.0.load(order))
            }

            pub fn store(&self, value: $ty, order: Ordering) {
                fenced(order == Ordering::SeqCst, || self.0.store(value, order));
            }

            pub fn swap(&self, value: $ty, order: Ordering) -> $ty {
                fenced(order == Ordering::SeqCst, || self.0.swap(value, order))
            }

            pub fn compare_exchange(
                &self,
                old: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                fenced(success == Ordering::SeqCst, || self.0.compare_exchange(old, new, success, failure))
            }

            pub fn compare_exchange_weak(
                &self,
                old: $ty,
                new: $ty,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$ty, $ty> {
                self.compare_exchange(old, new, success, failure)
            }
        }
    )*};
}

atomics! {
    AtomicBool(bool);
    AtomicU64(u64);
    AtomicUsize(usize);
}

impl AtomicUsize {
    pub fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        fenced(order == Ordering::SeqCst, || self.0.fetch_add(value, order))
    }

    pub fn fetch_sub(&self, value: usize, order: Ordering) -> usize {
        fenced(order == Ordering::SeqCst, || self.0.fetch_sub(value, order))
    }
}

macro_rules! process_wide {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = $init:expr;) => {
        loom::lazy_static! {
            $(#[$meta])*
            static ref $name: $ty = $init;
        }
    };
}
pub(crate) use process_wide;

macro_rules! per_thread {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = const $init:block;) => {
        loom::thread_local! {
            $(#[$meta])*
            static $name: $ty = $init;
        }
    };
}
pub(crate) use per_thread;
