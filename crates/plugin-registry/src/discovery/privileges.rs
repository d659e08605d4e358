//! Whether this process has more privileges than the user who started it.

use std::fs;

/// Entry of the auxiliary vector that tells of a secure execution.
const AT_SECURE: usize = 23;

/// Whether the kernel marked this process for secure execution, or its real and effective user or group differ.
///
/// On Linux this reads `/proc/self/auxv` and `/proc/self/status`; where neither can be read, the answer is yes,
/// because the safe answer costs only convenience. On other systems the answer is no.
pub(crate) fn elevated() -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    let secure = fs::read("/proc/self/auxv").ok().and_then(|vector| at_secure(&vector));
    let differs = fs::read_to_string("/proc/self/status").ok().and_then(|status| ids_differ(&status));
    match (secure, differs) {
        (None, None) => true,
        (secure, differs) => secure.unwrap_or(false) || differs.unwrap_or(false),
    }
}

/// The value of `AT_SECURE` in an auxiliary vector: pairs of machine words.
fn at_secure(vector: &[u8]) -> Option<bool> {
    const WORD: usize = size_of::<usize>();
    vector.chunks_exact(2 * WORD).find_map(|pair| {
        let word = |bytes: &[u8]| bytes.try_into().ok().map(usize::from_ne_bytes);
        let (key, value) = pair.split_at(WORD);
        (word(key)? == AT_SECURE).then(|| word(value).is_some_and(|value| value != 0))
    })
}

/// Whether the real and effective ids differ, for users or groups.
fn ids_differ(status: &str) -> Option<bool> {
    let differs = |label: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(label))?;
        let mut ids = line.split_whitespace();
        Some(ids.next()? != ids.next()?)
    };
    Some(differs("Uid:")? || differs("Gid:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(pairs: &[(usize, usize)]) -> Vec<u8> {
        pairs.iter().flat_map(|(key, value)| [key.to_ne_bytes(), value.to_ne_bytes()].concat()).collect()
    }

    #[test]
    fn reads_the_auxiliary_vector() {
        assert_eq!(at_secure(&vector(&[(6, 4096), (AT_SECURE, 0), (0, 0)])), Some(false));
        assert_eq!(at_secure(&vector(&[(6, 4096), (AT_SECURE, 1), (0, 0)])), Some(true));
        assert_eq!(at_secure(&vector(&[(6, AT_SECURE)])), None);
        assert_eq!(at_secure(&[1, 2, 3]), None);
    }

    #[test]
    fn compares_ids() {
        assert_eq!(ids_differ("Name:\tx\nUid:\t1\t1\t1\t1\nGid:\t2\t2\t2\t2\n"), Some(false));
        assert_eq!(ids_differ("Uid:\t1000\t0\t0\t0\nGid:\t2\t2\t2\t2\n"), Some(true));
        assert_eq!(ids_differ("Uid:\t1\t1\t1\t1\nGid:\t2\t0\t2\t2\n"), Some(true));
        assert_eq!(ids_differ(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_test_has_no_elevated_privileges() {
        assert!(!elevated());
    }
}
