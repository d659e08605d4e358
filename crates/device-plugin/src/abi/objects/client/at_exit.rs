//! The end of the process while clients exist.
//!
//! Some frameworks never destroy their clients, and others end the process while work is under way. The threads of a
//! device then run on while destructors of static objects run, of the framework's, the driver's and the plugin's. So the
//! first client registers a function with the C library's `atexit`, which stops that work first. C runs such functions in
//! the reverse order of their registration, together with the destructors of static objects: whatever was made before the
//! first client still exists while this one runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contain::contain;

/// Runs a backend's exit hook when the process ends.
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// The hooks of clients that exist.
static HOOKS: Mutex<Hooks> = Mutex::new(Hooks { process: None, next: 0, all: Vec::new() });

struct Hooks {
    /// The process in which the function is registered. A fork inherits the registration but not the threads.
    process: Option<u32>,
    next: u64,
    all: Vec<(u64, Hook)>,
}

fn lock() -> MutexGuard<'static, Hooks> {
    // Nothing here panics while it holds the lock.
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hook of one client, until the client is gone.
pub(crate) struct Registration(u64);

impl Registration {
    /// Notes what to do at exit, if a client exists then.
    pub(crate) fn new(hook: Option<Hook>) -> Self {
        let mut hooks = lock();
        let number = hooks.next;
        hooks.next += 1;
        hooks.all.extend(hook.map(|hook| (number, hook)));
        let here = std::process::id();
        if hooks.process.replace(here) != Some(here) {
            register();
        }
        Self(number)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut hooks = lock();
        let hook = hooks.all.iter().position(|(number, _)| *number == self.0).map(|at| hooks.all.remove(at));
        drop(hooks);
        // The hook owns vendor data, so drop it without holding the lock.
        crate::contain::drop_contained(hook);
    }
}

#[cfg(unix)]
fn register() {
    use std::ffi::c_int;

    // SAFETY: the declaration is that of the C standard.
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: V10 (code): the function may be called at any time until the library's code is unmapped, and does not
    // unwind. The
    // C library runs it at the latest when the library is closed.
    // If the C library has no memory for it, the process ends as it would without it.
    let _ = unsafe { atexit(run) };
}

/// Other systems end the threads of a process before they run such functions.
#[cfg(not(unix))]
fn register() {}

/// Runs the hooks, on the thread that ends the process.
#[cfg(unix)]
extern "C" fn run() {
    let hooks = {
        let mut hooks = lock();
        if hooks.process != Some(std::process::id()) {
            return;
        }
        std::mem::take(&mut hooks.all)
    };
    for (_, hook) in hooks {
        // A panic ends here, so that the other hooks run.
        let _ = contain(|| {
            hook();
            Ok(())
        });
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

    #[test]
    fn hooks_of_clients_that_exist_run_when_the_process_ends() {
        if std::env::var_os(CHILD).is_some() {
            let gone = Registration::new(saying("gone"));
            let first = Registration::new(saying("first"));
            let panicking = Registration::new(Some(Box::new(|| panic!("on purpose"))));
            let nothing = Registration::new(None);
            let last = Registration::new(saying("last"));
            drop((gone, nothing));
            // As a framework that never destroys its clients.
            std::mem::forget((first, panicking, last));
            std::process::exit(0);
        }
        let name = concat!(module_path!(), "::hooks_of_clients_that_exist_run_when_the_process_ends");
        let name = name.strip_prefix("device_plugin::").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        let hooks: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("hook ")).collect();
        assert_eq!(hooks, ["first", "last"], "{text}");
    }
}
