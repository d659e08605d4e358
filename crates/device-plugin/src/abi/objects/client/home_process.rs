//! Detects whether this process was forked since a client was created. The check is cheap enough for every call.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the process that made the first [`HomeProcess`] and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which a client or an event was created.
///
/// A forked process has copies of its parent's clients and locks, as they were at the moment of the fork. It lacks
/// their threads. A backend with threads or locks should keep a `HomeProcess` and return an error from calls in another
/// process, where they could wait forever. [`HomeProcess::is_current`] is one load from memory, so it suits every call.
///
/// On Unix, this detects the C library's `fork`, but not a raw `clone` system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeProcess(u32);

impl HomeProcess {
    /// Returns the calling process.
    pub fn current() -> Self {
        register();
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the calling process is this one, and not a fork of it.
    #[inline]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

/// Asks the C library, once, to run [`forked`] in each forked process.
#[cfg(unix)]
fn register() {
    use std::ffi::c_int;
    use std::sync::atomic::AtomicBool;

    static REGISTERED: AtomicBool = AtomicBool::new(false);
    type Handler = Option<extern "C" fn()>;
    // SAFETY: the declaration is that of POSIX.
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    if !REGISTERED.load(Ordering::Relaxed) && !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: V10 (code): the function may be called at any time until the library's code is unmapped, and does not
        // unwind. The C library removes it when the library is closed. If the C library has no memory for it, forks are
        // not detected.
        let _ = unsafe { pthread_atfork(None, None, Some(forked)) };
    }
}

/// Other systems do not support forks.
#[cfg(not(unix))]
fn register() {}

/// Runs in the forked process, on its only thread, before `fork` returns.
#[cfg(unix)]
extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
