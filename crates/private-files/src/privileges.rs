//! Detects whether this process has more privileges than the user who started it.

/// Returns whether the kernel marked this process for secure execution, or whether its real and effective IDs differ.
/// Such a process must not trust the environment or the folders of the user who started it.
///
/// The kernel marks a process that runs a set-user-ID program, a set-group-ID program or a program with file
/// capabilities. If the system cannot report the mark, the process counts as elevated, because a wrong `true` costs
/// only convenience.
#[must_use]
pub fn elevated() -> bool {
    ids_differ() || marked_secure()
}

/// Returns whether the effective user or group differs from the real one. A process can change its IDs after the kernel
/// decided about the mark.
#[cfg(unix)]
fn ids_differ() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid()
}

#[cfg(not(unix))]
fn ids_differ() -> bool {
    false
}

/// Returns whether the kernel marked this process, according to the auxiliary vector. `/proc/self/auxv` contains the
/// same data, but a process with file capabilities may be unable to open this file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn marked_secure() -> bool {
    is_secure(auxiliary(libc::AT_PAGESZ), auxiliary(libc::AT_SECURE))
}

/// Returns whether these entries of the auxiliary vector mark a process. The C library returns 0 for a missing entry.
/// The kernel writes both entries or neither, and no page has the size 0. A page size of 0 therefore means that both
/// entries are missing, and the process counts as marked.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_secure(page_size: libc::c_ulong, secure: libc::c_ulong) -> bool {
    secure != 0 || page_size == 0
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn auxiliary(entry: libc::c_ulong) -> libc::c_ulong {
    // SAFETY: S1 (privileges): `getauxval` accepts any number and only reads memory that the C library owns.
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
    // SAFETY: S1 (privileges): `issetugid` has no parameters and cannot fail.
    unsafe { libc::issetugid() != 0 }
}

/// On Windows, a program does not get more rights than its caller unless the user consents.
#[cfg(windows)]
fn marked_secure() -> bool {
    false
}

/// No function is known that reports the mark on these systems, so the process counts as elevated.
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
        // A test process may read its own auxiliary vector, so the vector and `marked_secure` must agree.
        let vector = std::fs::read("/proc/self/auxv").unwrap();
        let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap());
        let mut pairs = vector.chunks_exact(2 * WORD).map(|pair| (word(&pair[..WORD]), word(&pair[WORD..])));
        let secure = pairs.find(|(key, _)| *key == usize::try_from(libc::AT_SECURE).unwrap());
        assert_eq!(secure.map(|(_, value)| value != 0), Some(marked_secure()));
    }
}
