//! Limits the length of a single read. A damaged or hostile file may state lengths of gigabytes. Comparing the length
//! with the file's size does not help, because a sparse file can be that large without using disk space.

use std::ops::Range;

use object::read::ReadRef;

/// Maximum length in bytes of a single fixed-size read. The longest reads in practice are the exported names of a
/// Mach-O or PE library.
const LONGEST: u64 = 64 << 20;
/// Maximum number of libraries and folders that a library may list. A library that lists more is damaged.
pub(super) const MOST_NAMES: usize = 4096;
/// Maximum length in bytes of a symbol name that is compared. The names of all entry functions are shorter.
const LONGEST_NAME: usize = 64;

/// Data source that rejects fixed-size reads of more than [`LONGEST`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limited<R>(pub(super) R);

impl<'data, R: ReadRef<'data>> ReadRef<'data> for Limited<R> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        if size > LONGEST { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// Returns the NUL-terminated name at an offset. Truncates the name to [`LONGEST_NAME`] bytes. Returns an empty name if
/// `at` is after the end of `names`.
pub(super) fn short_name(names: &[u8], at: usize) -> &[u8] {
    let rest = names.get(at..).unwrap_or_default();
    let rest = &rest[..rest.len().min(LONGEST_NAME)];
    &rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_are_refused() {
        let data = vec![7u8; usize::try_from(LONGEST).unwrap() + 1];
        let limited = Limited(&data[..]);
        assert_eq!(limited.read_bytes_at(1, LONGEST).map(<[u8]>::len), Ok(data.len() - 1));
        assert!(limited.read_bytes_at(0, LONGEST + 1).is_err());
    }

    #[test]
    fn names_end_somewhere() {
        let mut names = b"a\0bc\0".to_vec();
        assert_eq!(
            (short_name(&names, 0), short_name(&names, 2), short_name(&names, 9)),
            (&b"a"[..], &b"bc"[..], &b""[..])
        );
        names.extend([b'x'; 1000]);
        assert_eq!(short_name(&names, 5), [b'x'; LONGEST_NAME]);
    }
}
