//! Detects whether this process has more privileges than the user who started it.
//!
//! Such a process must not trust the environment or the folders of its user. [`elevated`] is the only function.

/// Returns whether the kernel marked this process for secure execution, or its real and effective ids differ.
///
/// A process is marked when it runs a set-user-ID or set-group-ID program, or one with file capabilities. If the system
/// cannot report this, the process counts as elevated, because that error costs only convenience.
#[must_use]
pub fn elevated() -> bool {
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
    is_secure(auxiliary(libc::AT_PAGESZ), auxiliary(libc::AT_SECURE))
}

/// Whether these entries of the auxiliary vector mark a process. The C library returns 0 for a missing entry. The kernel
/// writes both entries or neither, and the size of a page is not 0.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_secure(page_size: libc::c_ulong, secure: libc::c_ulong) -> bool {
    secure != 0 || page_size == 0
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn auxiliary(entry: libc::c_ulong) -> libc::c_ulong {
    // SAFETY: S1: `getauxval` takes any number and only reads memory that the C library owns.
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
    // SAFETY: S1: `issetugid` takes nothing and cannot fail.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_process_is_not_elevated() {
        assert!(!elevated());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn missing_vector_counts_as_elevated() {
        assert!(is_secure(0, 0) && is_secure(4096, 1) && !is_secure(4096, 0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn matches_kernel() {
        const WORD: usize = size_of::<usize>();
        // A test process may read its own vector, so both ways must agree.
        let vector = std::fs::read("/proc/self/auxv").unwrap();
        let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap());
        let mut pairs = vector.chunks_exact(2 * WORD).map(|pair| (word(&pair[..WORD]), word(&pair[WORD..])));
        let secure = pairs.find(|(key, _)| *key == usize::try_from(libc::AT_SECURE).unwrap());
        assert_eq!(secure.map(|(_, value)| value != 0), Some(marked_secure()));
    }
}

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
