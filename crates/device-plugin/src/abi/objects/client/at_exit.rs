//! Handles the end of the process while clients exist.
//!
//! Some frameworks never destroy their clients, and others end the process during an operation. The threads of a device
//! then continue to run while the destructors of static objects run. These static objects belong to the framework, the
//! driver and the plugin. To stop the threads' work in time, the first client registers a function with the C library's
//! `atexit`. The C library runs such functions in the reverse order of their registration, together with the
//! destructors of static objects. All static objects that were created before the first client therefore still exist
//! while the registered function runs.
//!
//! If a backend has no exit hook, the SDK waits for its own threads and for the launches that it deferred, up to a
//! deadline.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use std::time::{Duration, Instant};

use crate::threads;

/// The exit hook of a backend, which runs when the process ends.
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// Maximum time to wait for the SDK's own work. A device that hangs must not keep the process alive.
#[cfg(unix)]
const LIMIT: Duration = Duration::from_secs(5);

/// The hooks of the existing clients.
static HOOKS: Mutex<Hooks> = Mutex::new(Hooks { process: None, next: 0, all: Vec::new() });

/// Number of deferred launches of clients without a hook.
static LAUNCHES: AtomicUsize = AtomicUsize::new(0);

struct Hooks {
    /// Id of the process that registered the exit function. A forked process inherits the registration but not the
    /// threads.
    process: Option<u32>,
    next: u64,
    /// The registration number and the hook of each client. The hook is `None` if the client's backend has no hook.
    all: Vec<(u64, Option<Hook>)>,
}

fn lock() -> MutexGuard<'static, Hooks> {
    // The lock is never poisoned, because no code here panics while it holds the lock.
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The registration of one client's exit hook. It is dropped together with the client.
pub(crate) struct Registration {
    number: u64,
    has_hook: bool,
}

/// A deferred launch for which the end of the process waits.
pub(crate) struct Awaited(());

impl Drop for Awaited {
    fn drop(&mut self) {
        LAUNCHES.fetch_sub(1, Ordering::SeqCst);
        threads::changed();
    }
}

impl Registration {
    /// Registers a hook that runs when the process exits. Dropping the registration removes the hook.
    pub(crate) fn new(hook: Option<Hook>) -> Self {
        let mut hooks = lock();
        let number = hooks.next;
        hooks.next += 1;
        let has_hook = hook.is_some();
        hooks.all.push((number, hook));
        let here = std::process::id();
        if hooks.process.replace(here) != Some(here) {
            register();
        }
        Self { number, has_hook }
    }

    /// Makes the end of the process wait for a deferred launch of this client, until the returned value is dropped.
    /// Returns `None` if the backend has a hook, because the hook may have stopped the work for which the launch waits.
    pub(crate) fn await_launch(&self) -> Option<Awaited> {
        (!self.has_hook).then(|| {
            LAUNCHES.fetch_add(1, Ordering::SeqCst);
            Awaited(())
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut hooks = lock();
        let hook = hooks.all.iter().position(|(number, _)| *number == self.number).map(|at| hooks.all.remove(at));
        drop(hooks);
        // The hook owns vendor data, so drop it without holding the lock.
        crate::contain::drop_contained(hook);
    }
}

#[cfg(unix)]
fn register() {
    use std::ffi::c_int;

    // SAFETY: the declaration matches the C standard.
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: V10 (code): the function may be called at any time until the library's code is unmapped, and does not
    // unwind. The C library calls the function at the latest when the plugin's library is closed. If the registration
    // fails for lack of memory, the process ends without running the hooks.
    let _ = unsafe { atexit(run) };
}

/// Does nothing, because systems other than Unix end the threads of a process before they run exit functions.
#[cfg(not(unix))]
fn register() {}

/// Runs the hooks on the thread that ends the process. If the backend of a client has no hook, then waits for the SDK's
/// own work. Does nothing in a forked process.
#[cfg(unix)]
extern "C" fn run() {
    let hooks = {
        let mut hooks = lock();
        if hooks.process != Some(std::process::id()) {
            return;
        }
        std::mem::take(&mut hooks.all)
    };
    let mut waits = false;
    for (_, hook) in hooks {
        let Some(hook) = hook else {
            waits = true;
            continue;
        };
        // Catch panics, so that the remaining hooks run.
        let _ = crate::contain::contain(|| {
            hook();
            Ok(())
        });
    }
    if waits {
        // Work that has not ended at the deadline continues while the process ends.
        let _ = threads::rest(Instant::now() + LIMIT, || LAUNCHES.load(Ordering::SeqCst) > 0);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "DEVICE_PLUGIN_TEST_EXIT";

    fn saying(text: &'static str) -> Option<Hook> {
        Some(Box::new(move || eprintln!("hook {text}")))
    }

    /// Runs the test `test` of this module in a child process and returns the lines that its hooks wrote.
    #[expect(clippy::unwrap_used, reason = "a test")]
    fn said(test: &str) -> Vec<String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        let output = command.args(["--exact", &name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        text.lines().filter_map(|line| line.strip_prefix("hook ")).map(str::to_owned).collect()
    }

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    /// Blocks until the process is exiting and waits for the SDK's work.
    fn until_awaited() {
        while !threads::is_awaited() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn waits_for_sdk_work_without_hook() {
        if is_child() {
            let registration = Registration::new(None);
            let launch = registration.await_launch().unwrap();
            // Simulates a device that completes the argument of a deferred launch. The launch submits work to a
            // completion thread.
            std::thread::spawn(move || {
                until_awaited();
                let job = move || {
                    threads::COMPLETIONS.submit_or_run(Box::new(|| eprintln!("hook completed")));
                    drop(launch);
                };
                assert!(threads::LAUNCHES.submit(Box::new(job)).is_ok());
            });
            std::mem::forget(registration);
            std::process::exit(0);
        }
        assert_eq!(said("waits_for_sdk_work_without_hook"), ["completed"]);
    }

    #[test]
    fn sdk_thread_does_not_await_itself() {
        if is_child() {
            std::mem::forget(Registration::new(None));
            threads::COMPLETIONS.submit_or_run(Box::new(|| {
                assert!(!threads::rest(Instant::now() + LIMIT, || false) && !threads::is_awaited());
                eprintln!("hook ends");
                std::process::exit(0);
            }));
            loop {
                std::thread::park();
            }
        }
        assert_eq!(said("sdk_thread_does_not_await_itself"), ["ends"]);
    }

    #[test]
    fn hook_replaces_wait_for_launches() {
        assert!(Registration::new(saying("never")).await_launch().is_none());
        let launch = Registration::new(None).await_launch();
        assert!(launch.is_some() && LAUNCHES.load(Ordering::SeqCst) > 0);
    }

    #[test]
    fn hooks_of_live_clients_run() {
        if is_child() {
            let gone = Registration::new(saying("gone"));
            let first = Registration::new(saying("first"));
            let panicking = Registration::new(Some(Box::new(|| panic!("on purpose"))));
            let nothing = Registration::new(None);
            let last = Registration::new(saying("last"));
            drop((gone, nothing));
            // Leak the registrations, like a framework that never destroys its clients.
            std::mem::forget((first, panicking, last));
            std::process::exit(0);
        }
        assert_eq!(said("hooks_of_live_clients_run"), ["first", "last"]);
    }
}
