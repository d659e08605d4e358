//! Ids of threads.

/// Returns the operating system's id of this thread.
#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs().into()
}

/// Returns a number that identifies this thread, or 0 while the thread ends.
#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static ID: u64 = u64::from(std::process::id()) << 16 | NEXT.fetch_add(1, Ordering::Relaxed);
    }
    ID.try_with(|id| *id).unwrap_or(0)
}
