//! Waits for pending operations when the process ends. Otherwise plugins may crash, because their threads still run
//! while their static objects are destroyed.
//!
//! C's `exit` first destroys the thread-local objects of the thread that called it, and then runs the exit handlers, the
//! newest first. A plugin registers a handler for each static object, also for those that a run creates on a thread of
//! the plugin. So there are two waits: a thread-local object of the main thread, whose destructor runs before all
//! handlers, and an exit handler for processes that another thread ends.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::api::{contain, in_callback};
use crate::in_flight::InFlight;

/// Maximum delay of the process's end, in milliseconds.
static LIMIT: AtomicU64 = AtomicU64::new(5000);
/// The process that registered the guard. A forked child has none of the threads that would end the operations.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Pending operations of the clients of this process.
static CLIENTS: Mutex<Vec<Weak<InFlight>>> = Mutex::new(Vec::new());

unsafe extern "C" {
    /// C's `atexit`.
    fn atexit(callback: extern "C" fn()) -> c_int;
}

/// Sets the maximum time that the end of the process waits for pending operations of live clients. The default is 5
/// seconds. [`Duration::ZERO`] disables the wait.
///
/// When the process calls `exit`, as it does when `main` returns, this crate waits for the same operations as
/// [`Client::synchronize`](crate::Client::synchronize). XLA's plugins may crash if a callback or a transfer ends while
/// the process ends. It waits once for all clients together and destroys nothing. It does not wait in a forked child,
/// or if a callback ends the process. Call [`Client::shutdown`](crate::Client::shutdown) first to learn whether the
/// operations ended.
pub fn set_exit_wait(limit: Duration) {
    LIMIT.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Relaxed);
}

thread_local! {
    static MAIN_THREAD: MainThread = const { MainThread };
}

/// A thread-local object of the main thread, which exists after the thread has used a client. Its destructor waits.
struct MainThread;

impl Drop for MainThread {
    fn drop(&mut self) {
        at_exit();
    }
}

/// Whether this is the thread on which the process began. `false` if the system does not report this.
fn is_main_thread() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        unsafe extern "C" {
            safe fn gettid() -> c_int;
        }
        u32::try_from(gettid()) == Ok(std::process::id())
    }
    #[cfg(target_vendor = "apple")]
    {
        unsafe extern "C" {
            safe fn pthread_main_np() -> c_int;
        }
        pthread_main_np() == 1
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    false
}

/// Makes the process's end wait for a client's operations.
pub(crate) fn watch(in_flight: &Arc<InFlight>) {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(in_flight));
    drop(clients);
    guard();
}

/// Registers the wait so that it runs before all handlers that are registered so far. Call this again when a plugin may
/// have added handlers.
pub(crate) fn guard() {
    PROCESS.store(std::process::id(), Relaxed);
    if is_main_thread() {
        // The first use registers the destructor. A thread that is ending can no longer register one.
        let _ = MAIN_THREAD.try_with(|_| ());
    }
    // SAFETY: the function has the type that C requires. It stays mapped until it has run, because `atexit` runs the
    // handlers of a library before it is unloaded.
    let refused = unsafe { atexit(at_exit) } != 0;
    if refused {
        tracing::warn!("no exit handler could be registered; operations that are pending at exit may crash the plugin");
    }
}

extern "C" fn at_exit() {
    // A callback would wait for itself.
    if in_callback() || PROCESS.load(Relaxed) != std::process::id() {
        return;
    }
    contain(|| {
        let limit = Duration::from_millis(LIMIT.load(Relaxed));
        let now = Instant::now();
        // If the clock cannot represent the deadline, use one that is 34 years away.
        let until = now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30));
        let clients = std::mem::take(&mut *CLIENTS.lock().unwrap_or_else(PoisonError::into_inner));
        for client in &clients {
            if let Some(client) = client.upgrade() {
                client.wait(until);
            }
        }
        // Keep the clients, because handlers that were registered before this one run later and may start new
        // operations.
        CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).extend(clients);
    });
}
