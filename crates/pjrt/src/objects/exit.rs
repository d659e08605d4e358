//! Waits for pending operations when the process ends. Otherwise plugins may crash, because their threads still run
//! while their static objects are destroyed.
//!
//! C's `exit` first destroys the thread-local objects of the thread that called it, and then runs the exit handlers,
//! the newest first. A plugin registers an exit handler for each of its static objects. A run may create such an object
//! on a thread of the plugin. The object is then destroyed before older handlers run. This module therefore waits at
//! two times. If a thread that has started operations calls `exit`, a thread-local object of this thread waits before
//! any exit handler runs. Later, an exit handler waits for operations that other threads started.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::objects::in_flight::{InFlight, Ticket};
use crate::table::callback::{contain, in_callback};

/// Maximum time that the end of the process waits for pending operations, in milliseconds.
static LIMIT: AtomicU64 = AtomicU64::new(5000);
/// Time at which the end of the process stops waiting. The first wait sets the deadline for all waits.
static DEADLINE: OnceLock<Instant> = OnceLock::new();
/// Id of the process that registered the exit handler. A forked child must not wait, because it lacks the threads that
/// would end the operations.
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
/// [`Client::synchronize`](crate::Client::synchronize). Without this wait, XLA's plugins may crash if a callback or a
/// transfer ends while the process ends. The limit applies to all clients together. The wait does not destroy any
/// objects. The crate does not wait in a forked child, or if a callback ends the process. To learn whether the
/// operations ended, call [`Client::shutdown`](crate::Client::shutdown) before `exit`.
pub fn set_exit_wait(limit: Duration) {
    LIMIT.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Relaxed);
}

thread_local! {
    static USER_THREAD: UserThread = const { UserThread };
}

/// A thread-local object of each thread that has started operations. Its destructor waits for pending operations if the
/// thread calls `exit`, and returns immediately if only the thread ends.
struct UserThread;

impl Drop for UserThread {
    fn drop(&mut self) {
        if called_by_exit() {
            at_exit();
        }
    }
}

/// Returns whether C's `exit` is on the call stack of this thread. Returns `false` on systems on which this cannot be
/// detected.
///
/// Thread-local objects are destroyed both when their thread ends and when it calls `exit`. Only the call stack
/// distinguishes the two cases.
fn called_by_exit() -> bool {
    #[cfg(any(all(target_os = "linux", target_env = "gnu"), target_vendor = "apple"))]
    {
        use std::ffi::c_void;
        use std::ptr::from_mut;

        /// Return values (`_URC_NO_REASON` and `_URC_NORMAL_STOP`) of the function that `_Unwind_Backtrace` calls for
        /// each frame.
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
            // SAFETY: the function takes any address, and returns null if no known function contains the address.
            let function = unsafe { _Unwind_FindEnclosingFunction(call) };
            if std::ptr::addr_eq(function, exit as *const ()) {
                // SAFETY: `called_by_exit` passes a pointer to its `bool`, and waits for `_Unwind_Backtrace`.
                unsafe { *found.cast::<bool>() = true };
                return NORMAL_STOP;
            }
            NO_REASON
        }
        let mut found = false;
        // SAFETY: the function has the type that `_Unwind_Backtrace` requires, except for the names of its types. The
        // function receives the pointer to `found`.
        unsafe { _Unwind_Backtrace(is_exit, from_mut(&mut found).cast()) };
        found
    }
    #[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_vendor = "apple")))]
    false
}

/// Makes a call of `exit` on this thread wait for pending operations before any exit handler runs.
#[inline]
pub(crate) fn watch_thread() {
    // The first access registers the destructor. Ignore an error. It means that the thread is ending and can no longer
    // register a destructor.
    let _ = USER_THREAD.try_with(|_| ());
}

impl InFlight {
    /// Counts an operation as pending until the ticket is dropped. The end of the process waits for the operation.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        watch_thread();
        self.uncounted_at_exit()
    }
}

/// Makes the end of the process wait for a client's operations.
pub(crate) fn watch(in_flight: &Arc<InFlight>) {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(in_flight));
    drop(clients);
    watch_thread();
    guard();
}

/// Registers an exit handler that waits for pending operations. It runs before all exit handlers that were registered
/// earlier. Call this function again when a plugin may have registered exit handlers.
pub(crate) fn guard() {
    PROCESS.store(std::process::id(), Relaxed);
    // SAFETY: the function has the type that C requires. The function stays mapped until it has run, because a
    // library's exit handlers run before the library is unloaded.
    let refused = unsafe { atexit(at_exit) } != 0;
    if refused {
        tracing::warn!("no exit handler could be registered; operations that are pending at exit may crash the plugin");
    }
}

extern "C" fn at_exit() {
    // A callback must not wait for its own end, and a forked child lacks the threads that would end the operations.
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
        // Keep the clients for later waits, because older exit handlers run after this handler and may start new
        // operations.
        CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).extend(clients);
    });
}
