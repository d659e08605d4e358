//! The sizes of the blocks that the pool allocates.

/// Alignment of all sizes in bytes, and size of the smallest block.
pub(crate) const ALIGNMENT: usize = 256;

/// Largest distance between two size classes in bytes.
const LARGEST_STEP: usize = 1 << 20;

/// Returns the smallest multiple of [`ALIGNMENT`] that is positive and not smaller than `bytes`.
pub(crate) fn aligned(bytes: usize) -> usize {
    bytes.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
}

/// Returns the size class of a request. There are at least four classes between two powers of two, at most 1 MiB apart.
/// So a block is at most 25 % and less than 1 MiB larger than the aligned request.
pub(crate) fn size_class(bytes: usize) -> usize {
    let size = aligned(bytes);
    // The largest power of two that is smaller than the size, divided by the number of classes.
    let step = ((size - 1).checked_ilog2().map_or(1, |log| 1usize << log) / 4).clamp(ALIGNMENT, LARGEST_STEP);
    size.checked_next_multiple_of(step).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small() {
        assert_eq!([0, 1, 256, 257, 1025].map(aligned), [256, 256, 256, 512, 1280]);
        assert_eq!([0, 1, 256, 257, 1024, 1025, 2049].map(size_class), [256, 256, 256, 512, 1024, 1280, 2560]);
        assert_eq!([aligned(usize::MAX), size_class(usize::MAX)], [usize::MAX; 2]);
    }

    #[test]
    fn overhead_is_bounded() {
        let mut bytes = 1usize;
        while bytes < usize::MAX / 2 {
            for bytes in [bytes - 1, bytes, bytes + 1, bytes + bytes / 3] {
                let (aligned, class) = (aligned(bytes), size_class(bytes));
                assert!(class >= bytes && class - aligned <= aligned / 4, "{bytes}: {class}");
                assert!(class - aligned < LARGEST_STEP, "{bytes}: {class}");
                assert_eq!(size_class(class), class, "{bytes}");
            }
            bytes *= 2;
        }
    }
}
