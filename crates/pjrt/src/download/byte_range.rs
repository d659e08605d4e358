//! Checks the byte ranges of copies that read or write a part of a buffer.

use std::fmt::Display;

use crate::error::Error;

/// Converts `offset` and `len`, in bytes, to the signed integers of the C API. Returns an error if the range is not
/// within a memory of `size` bytes, or if its offset or length does not fit in an `i64`. `whole` is the name of this
/// memory for the error message.
pub(crate) fn byte_range(offset: usize, len: usize, size: usize, whole: impl Display) -> Result<(i64, i64), Error> {
    let within = offset.checked_add(len).is_some_and(|end| end <= size);
    let numbers = i64::try_from(offset).ok().zip(i64::try_from(len).ok());
    numbers.filter(|_| within).ok_or_else(|| {
        Error::invalid(format!("{len} bytes at offset {offset} are not within the {size} bytes of {whole}"))
    })
}

#[cfg(test)]
mod tests {
    use super::byte_range;

    #[test]
    fn ranges_within_and_beyond() {
        assert_eq!(byte_range(2, 6, 8, "x").unwrap(), (2, 6));
        assert_eq!(byte_range(8, 0, 8, "x").unwrap(), (8, 0));
        for (offset, len) in [(8, 1), (0, 9), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(byte_range(offset, len, 8, "x").is_err(), "{offset} {len}");
        }
        assert!(byte_range(0, usize::MAX, usize::MAX, "x").is_err(), "the C API has signed numbers");
    }
}
