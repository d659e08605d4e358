//! Waits for pending operations when the process ends. Otherwise plugins may crash, because their threads still run
//! while their static objects are destroyed.
//!
//! C's `exit` first destroys the thread-local objects of the thread that called it, and then runs the exit handlers,
//! the newest first. A plugin registers a handler for each static object, also for those that a run creates on a thread
//! of the plugin. Such an object is destroyed before older handlers run. There are therefore two waits. A thread-local
//! object of each thread that starts operations waits before all handlers if this thread calls `exit`. An exit handler
//! waits for the operations of other threads.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::api::{contain, in_callback};
use crate::in_flight::{InFlight, Ticket};

/// Maximum delay of the process's end, in milliseconds.
static LIMIT: AtomicU64 = AtomicU64::new(5000);
/// When the process's end stops waiting. The first exit handler sets it for all of them.
static DEADLINE: OnceLock<Instant> = OnceLock::new();
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
    static USER_THREAD: UserThread = const { UserThread };
}

/// A thread-local object of each thread that has started operations. Its destructor waits if the thread calls `exit`, and
/// does nothing if only the thread ends.
struct UserThread;

impl Drop for UserThread {
    fn drop(&mut self) {
        if called_by_exit() {
            at_exit();
        }
    }
}

/// Whether C's `exit` called the calling function, directly or indirectly. `false` if the system cannot detect this.
///
/// Thread-local objects are destroyed both when their thread ends and when it calls `exit`. Only the call stack
/// distinguishes the two cases.
fn called_by_exit() -> bool {
    #[cfg(any(all(target_os = "linux", target_env = "gnu"), target_vendor = "apple"))]
    {
        use std::ffi::c_void;
        use std::ptr::from_mut;

        /// Results of the function that `_Unwind_Backtrace` calls for each frame.
        const NO_REASON: c_int = 0;
        const NORMAL_STOP: c_int = 4;

        unsafe extern "C" {
            fn exit(status: c_int) -> !;
            fn _Unwind_Backtrace(
                each_frame: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
                argument: *mut c_void,
            ) -> c_int;
            fn _Unwind_GetIP(frame: *mut c_void) -> usize;
            fn _Unwind_FindEnclosingFunction(address: *mut c_void) -> *mut c_void;
        }
        extern "C" fn is_exit(frame: *mut c_void, found: *mut c_void) -> c_int {
            // SAFETY: `_Unwind_Backtrace` passes a frame that is valid during this call.
            let return_address = unsafe { _Unwind_GetIP(frame) };
            // The call may be the last instruction of its function. The return address is then the start of the next
            // function.
            let call = std::ptr::without_provenance_mut(return_address.wrapping_sub(1));
            // SAFETY: the function takes any address, and returns null if it belongs to no function it knows.
            let function = unsafe { _Unwind_FindEnclosingFunction(call) };
            if std::ptr::addr_eq(function, exit as *const ()) {
                // SAFETY: `called_by_exit` passes a pointer to its `bool`, and waits for `_Unwind_Backtrace`.
                unsafe { *found.cast::<bool>() = true };
                return NORMAL_STOP;
            }
            NO_REASON
        }
        let mut found = false;
        // SAFETY: the function has the type that `_Unwind_Backtrace` requires, up to the names of its types, and
        // receives the pointer to `found`.
        unsafe { _Unwind_Backtrace(is_exit, from_mut(&mut found).cast()) };
        found
    }
    #[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_vendor = "apple")))]
    false
}

/// Makes the process's end wait for pending operations before all exit handlers, if this thread calls `exit`.
#[inline]
pub(crate) fn watch_thread() {
    // The first use registers the destructor. A thread that is ending can no longer register one.
    let _ = USER_THREAD.try_with(|_| ());
}

impl InFlight {
    /// Counts an operation that the end of the process waits for.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        watch_thread();
        self.uncounted_at_exit()
    }
}

/// Makes the process's end wait for a client's operations.
pub(crate) fn watch(in_flight: &Arc<InFlight>) {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(in_flight));
    drop(clients);
    watch_thread();
    guard();
}

/// Registers the wait so that it runs before all handlers that are registered so far. Call this again when a plugin may
/// have added handlers.
pub(crate) fn guard() {
    PROCESS.store(std::process::id(), Relaxed);
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
        let until = *DEADLINE.get_or_init(|| {
            let (now, limit) = (Instant::now(), Duration::from_millis(LIMIT.load(Relaxed)));
            // If the clock cannot represent the deadline, use one that is 34 years away.
            now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30))
        });
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
