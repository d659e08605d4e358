//! Detects whether the process was forked after an object was created. The check is cheap enough for every call.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, Result};

/// Number of forks that lead from the process that created the first [`HomeProcess`] to this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which a client or an event was created.
///
/// A forked process has copies of its parent's clients and locks, in their state at the moment of the fork, but not the
/// threads of its parent. A backend with threads or locks should keep a `HomeProcess`. The backend should return an
/// error from calls in another process, because such a call could wait forever. [`HomeProcess::check`] is one load from
/// memory, so it is cheap enough for every call.
///
/// On Unix, `HomeProcess` detects the C library's `fork`, but not a raw `clone` system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeProcess(u32);

impl HomeProcess {
    /// Returns the `HomeProcess` of the calling process.
    pub fn current() -> Self {
        register();
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns whether the calling process is the process that this value represents, and not a fork of it.
    #[inline]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }

    /// Checks that the calling process is the process that this value represents.
    ///
    /// # Errors
    ///
    /// Returns `FAILED_PRECONDITION` in a fork of that process.
    #[inline]
    pub fn check(self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(forked_error()) }
    }
}

#[cold]
fn forked_error() -> Error {
    Error::failed_precondition(
        "this process was forked after the client was created, and has none of the client's threads; create clients in \
         the child, or start it by other means than fork (Python: multiprocessing's method \"spawn\")",
    )
}

/// Registers [`forked`] with the C library, once. The C library then calls it in each forked process.
#[cfg(unix)]
fn register() {
    use std::ffi::c_int;
    use std::sync::atomic::AtomicBool;

    static REGISTERED: AtomicBool = AtomicBool::new(false);
    type Handler = Option<extern "C" fn()>;
    // SAFETY: the declaration matches POSIX.
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    if !REGISTERED.load(Ordering::Relaxed) && !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: V10 (code): the function may be called at any time until the library's code is unmapped, and does not
        // unwind. The C library removes the function when the plugin's library is closed. If the registration fails for
        // lack of memory, forks are not detected.
        let _ = unsafe { pthread_atfork(None, None, Some(forked)) };
    }
}

/// Does nothing, because systems other than Unix do not support forks.
#[cfg(not(unix))]
fn register() {}

/// Runs in the forked process, on its only thread, before `fork` returns.
#[cfg(unix)]
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
