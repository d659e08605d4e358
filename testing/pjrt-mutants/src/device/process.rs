//! Changes the state of the process.

use std::ffi::c_int;

/// Sets an environment variable.
pub(crate) fn set_variable(name: &str, value: &str) {
    // SAFETY: M3 (faults): other threads of this process read variables only through `std`.
    unsafe { std::env::set_var(name, value) };
}

/// # Safety
///
/// This function has no requirements.
unsafe extern "C" fn handle(_: c_int) {}

/// Installs a handler for `SIGUSR2` that does nothing.
pub(crate) fn catch_signal() {
    let handler: unsafe extern "C" fn(c_int) = handle;
    // SAFETY: M3 (faults): the handler does nothing, so it may run at any time.
    unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
}

/// Makes the system discard child processes when they end, so that the parent process cannot wait for them.
pub(crate) fn ignore_children() {
    // SAFETY: M3 (faults): no handler runs.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Makes this thread flush subnormal numbers to zero.
pub(crate) fn flush_subnormals() {
    #[cfg(target_arch = "x86_64")]
    {
        // This is the default value of the register MXCSR with the bits "flush to zero" and "denormals are zero".
        let mode = 0x1f80_u32 | 1 << 15 | 1 << 6;
        // SAFETY: M3 (faults): the instruction reads `mode` and changes the floating-point mode of this thread.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, readonly)) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: M3 (faults): the instruction changes the floating-point mode of this thread.
    unsafe {
        std::arch::asm!("msr fpcr, {}", in(reg) 1_u64 << 24, options(nostack, nomem));
    }
}

/// The function that runs at exit.
static AT_EXIT: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

/// Runs the function in [`AT_EXIT`].
extern "C" fn run() {
    if let Some(function) = AT_EXIT.get() {
        function();
    }
}

/// Runs a function when the process exits. Only the first call has an effect.
pub(crate) fn at_exit(function: fn()) {
    if AT_EXIT.set(function).is_ok() {
        // SAFETY: M2 (tables): the function is part of this program.
        unsafe { libc::atexit(run) };
    }
}
