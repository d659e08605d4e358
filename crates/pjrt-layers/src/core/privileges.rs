//! Detects whether this process has more privileges than the user who started it.

/// Returns whether the kernel marked this process for secure execution, or its real and effective ids differ.
///
/// A process is marked when it runs a set-user-ID or set-group-ID program, or one with file capabilities. If the system
/// cannot report this, the process counts as elevated, because that error costs only convenience.
pub(crate) fn elevated() -> bool {
    ids_differ() || marked_secure()
}

/// Whether the effective user or group is not the real one. A process can change its ids after the kernel marked it.
#[cfg(unix)]
fn ids_differ() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid()
}

#[cfg(not(unix))]
fn ids_differ() -> bool {
    false
}

/// Whether the kernel marked this process, according to the auxiliary vector. `/proc/self/auxv` holds the same data,
/// but a process with file capabilities may not open it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn marked_secure() -> bool {
    // The C library returns 0 for a missing entry. The kernel writes both entries or neither.
    let vector_is_readable = auxiliary(libc::AT_PAGESZ) != 0;
    auxiliary(libc::AT_SECURE) != 0 || !vector_is_readable
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn auxiliary(entry: libc::c_ulong) -> libc::c_ulong {
    // SAFETY: L8 (system): `getauxval` takes any number and only reads memory that the C library owns.
    unsafe { libc::getauxval(entry) }
}

#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly"
))]
fn marked_secure() -> bool {
    // SAFETY: L8 (system): `issetugid` takes nothing and cannot fail.
    unsafe { libc::issetugid() != 0 }
}

/// On Windows, no program gets more rights than its caller has unless the user consents.
#[cfg(windows)]
fn marked_secure() -> bool {
    false
}

/// These systems have no known function for this, so the process counts as elevated.
#[cfg(not(any(
    windows,
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly"
)))]
fn marked_secure() -> bool {
    true
}
