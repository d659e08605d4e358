//! The ids of threads.

/// Returns the operating system's id of this thread on Linux, and another number that identifies the thread on other
/// systems.
pub(crate) fn thread_id() -> u64 {
    thread_local! {
        static ID: u64 = new();
    }
    // While a thread ends, its thread-local variables may already be destroyed.
    ID.try_with(|id| *id).unwrap_or_else(|_| new())
}

#[cfg(target_os = "linux")]
fn new() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs().into()
}

/// Returns a number that identifies this thread.
#[cfg(not(target_os = "linux"))]
fn new() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(1);
    u64::from(std::process::id()) << 16 | NEXT.fetch_add(1, Ordering::Relaxed)
}
