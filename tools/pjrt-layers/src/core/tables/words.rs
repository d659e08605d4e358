//! Copies of function tables, word by word.

use super::forwarder::SlotCell;
use crate::core::memory;

pub(in crate::core) const WORD: usize = size_of::<usize>();

/// Copies the first `known` bytes of a table to `size` bytes that live as long as the process. The remaining bytes are
/// 0.
///
/// # Safety
///
/// `from` must be readable for `known` bytes.
pub(in crate::core) unsafe fn copy(from: *const u8, known: usize, size: usize) -> &'static [u64] {
    let words = Box::leak(vec![0_u64; size.div_ceil(WORD)].into_boxed_slice());
    // SAFETY: this function's contract: `from` is readable for this size, and the words have at least this size.
    unsafe { memory::copy(from, words.as_mut_ptr().cast(), known.min(size)) };
    words
}

/// Copies a table like [`copy`], but to atomic cells. The cells are atomic because this crate may change them while the
/// framework reads them. The result contains the words `before`, and then the table.
///
/// # Safety
///
/// `from` must be readable for `known` bytes.
pub(in crate::core) unsafe fn cells(
    from: *const u8,
    known: usize,
    size: usize,
    before: &[usize],
) -> &'static [SlotCell] {
    // SAFETY: this function's contract.
    let words = unsafe { copy(from, known, size) };
    let words = words.iter().map(|word| usize::try_from(*word).unwrap_or(0));
    let cell = |word: usize| SlotCell::new(std::ptr::with_exposed_provenance_mut(word));
    Box::leak(before.iter().copied().chain(words).map(cell).collect::<Vec<_>>().into_boxed_slice())
}

pub(in crate::core) fn word(words: &[u64], offset: usize) -> usize {
    words.get(offset / WORD).map_or(0, |word| usize::try_from(*word).unwrap_or(0))
}
