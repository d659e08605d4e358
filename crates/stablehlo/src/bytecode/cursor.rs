//! Reads the primitives of MLIR's bytecode format, never beyond the end of a section.

use std::fmt;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// A position in a range of a bytecode file. All offsets are offsets in the whole file.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    file: &'a [u8],
    pos: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor that reads `range` of `file`. The range must lie inside the file.
    pub(super) fn new(file: &'a [u8], range: Range<usize>) -> Self {
        debug_assert!(range.start <= range.end && range.end <= file.len(), "ranges come from `take`");
        Self { file, pos: range.start, end: range.end }
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pos == self.end
    }

    #[inline]
    pub(super) fn remaining(&self) -> usize {
        self.end - self.pos
    }

    /// Creates an error at the current position.
    #[cold]
    pub(super) fn error(&self, message: impl fmt::Display) -> Error {
        Error::at(ErrorKind::Encoding, self.pos, message)
    }

    #[cold]
    fn out_of_range(&self, index: u64) -> Error {
        self.error(format_args!("index {index} is out of range"))
    }

    #[cold]
    fn too_many(&self, count: u64) -> Error {
        self.error(format_args!("a list of {count} items does not fit into the {} bytes left", self.remaining()))
    }

    #[cold]
    fn ended(&self) -> Error {
        self.error("the program ends in the middle of a field")
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8> {
        if self.pos >= self.end {
            return Err(self.ended());
        }
        let byte = self.file[self.pos];
        self.pos += 1;
        Ok(byte)
    }

    /// Skips `count` bytes, and returns their range in the file.
    pub(super) fn take(&mut self, count: usize) -> Result<Range<usize>> {
        if count > self.remaining() {
            return Err(self.ended());
        }
        let start = self.pos;
        self.pos += count;
        Ok(start..self.pos)
    }

    /// Reads an unsigned integer in the prefix encoding. The number of trailing zero bits in the first byte is the
    /// number of bytes that follow.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64> {
        match self.file.get(self.pos) {
            // Most integers take one byte.
            Some(&first) if first & 1 == 1 && self.pos < self.end => {
                self.pos += 1;
                Ok(u64::from(first >> 1))
            }
            // Most integers that take more than one byte take two bytes.
            Some(&first) if first & 2 == 2 && self.end - self.pos >= 2 => {
                let all = u16::from_le_bytes([first, self.file[self.pos + 1]]);
                self.pos += 2;
                Ok(u64::from(all >> 2))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let first = self.byte()?;
        let extra = if first == 0 { 8 } else { first.trailing_zeros() as usize };
        let range = self.take(extra)?;
        let mut bytes = [0; 8];
        if let Some(next) = self.file.get(range.start..range.start + 8) {
            // Copy 8 bytes instead of `extra` bytes, because a copy of constant length is faster.
            bytes.copy_from_slice(next);
        } else {
            bytes[..extra].copy_from_slice(&self.file[range]);
        }
        let all = u64::from_le_bytes(bytes);
        if extra == 8 {
            return Ok(all);
        }
        // The first byte holds the lowest `7 - extra` bits of the value above the marker bit.
        Ok((all & ((1 << (8 * extra)) - 1)) << (7 - extra) | u64::from(first) >> (extra + 1))
    }

    /// Reads a signed integer in zigzag encoding.
    #[inline]
    pub(super) fn svarint(&mut self) -> Result<i64> {
        let raw = self.varint()?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// Reads an integer with a flag in its lowest bit. Returns the remaining bits and the flag.
    #[inline]
    pub(super) fn flagged(&mut self) -> Result<(u64, bool)> {
        let raw = self.varint()?;
        Ok((raw >> 1, raw & 1 == 1))
    }

    /// Reads an integer that must fit into a `usize`, such as an index or a length.
    #[inline]
    pub(super) fn index(&mut self) -> Result<usize> {
        let value = self.varint()?;
        usize::try_from(value).map_err(|_| self.out_of_range(value))
    }

    /// Reads the number of elements that follow. Each element takes at least one byte, so a count that is larger than
    /// the rest of the section is an error.
    #[inline]
    pub(super) fn count(&mut self) -> Result<usize> {
        let value = self.varint()?;
        self.check_count(value)
    }

    /// Returns `value` as a `usize`. Returns an error if it is larger than the rest of the section, as [`Self::count`]
    /// does.
    #[inline]
    pub(super) fn check_count(&self, value: u64) -> Result<usize> {
        match usize::try_from(value) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(self.too_many(value)),
        }
    }

    /// Reads the number of elements, and then calls `item` to read each element.
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count()?;
        let mut items = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads a length, skips this many bytes, and returns their range.
    pub(super) fn blob(&mut self) -> Result<Range<usize>> {
        let length = self.index()?;
        self.take(length)
    }

    /// Reads a NUL-terminated string. Returns its range without the NUL.
    pub(super) fn c_string(&mut self) -> Result<Range<usize>> {
        let start = self.pos;
        let length = self.file[start..self.end].iter().position(|&b| b == 0).ok_or_else(|| self.ended())?;
        self.pos += length + 1;
        Ok(start..start + length)
    }

    /// Reads an integer of this bit width. The file does not store the width, because the type determines it. Returns
    /// only the lowest 64 bits of a wider integer.
    pub(super) fn int_of_width(&mut self, width: u32) -> Result<i64> {
        match width {
            0 => Ok(0),
            1..=8 => {
                let byte = self.byte()?;
                // The bits above `width` need not repeat the sign bit, so sign-extend here.
                let shift = 8 - width;
                Ok(i64::from((byte << shift).cast_signed() >> shift))
            }
            9..=64 => self.svarint(),
            _ => {
                let words = self.list(Self::svarint)?;
                Ok(words.first().copied().unwrap_or(0))
            }
        }
    }

    /// Skips padding up to the next file offset that is a multiple of `alignment`.
    pub(super) fn align(&mut self, alignment: u64) -> Result<()> {
        let Some(alignment) = usize::try_from(alignment).ok().filter(|a| a.is_power_of_two()) else {
            return Err(self.error(format_args!("alignment {alignment} is not a power of two")));
        };
        while self.pos & (alignment - 1) != 0 {
            if self.byte()? != 0xCB {
                return Err(Error::at(ErrorKind::Encoding, self.pos - 1, "alignment padding must be 0xCB"));
            }
        }
        Ok(())
    }

    /// Reads a section header. Returns the section id and a cursor over the content.
    pub(super) fn section(&mut self) -> Result<(u8, Cursor<'a>)> {
        let head = self.byte()?;
        let length = self.index()?;
        if head & 0x80 != 0 {
            let alignment = self.varint()?;
            self.align(alignment)?;
        }
        let range = self.take(length)?;
        Ok((head & 0x7F, Cursor::new(self.file, range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(bytes: &[u8]) -> Cursor<'_> {
        Cursor::new(bytes, 0..bytes.len())
    }

    #[test]
    fn varints_of_every_length() {
        assert_eq!(cursor(&[2 * 5 + 1]).varint().unwrap(), 5);
        // The two bytes are `300 << 2 | 0b10` in little-endian order.
        assert_eq!(cursor(&[0xB2, 0x04]).varint().unwrap(), 300);
        for extra in 1..8u32 {
            let value = (1u64 << (7 * (extra + 1))) - 1;
            let raw = u128::from(value) << (extra + 1) | 1 << extra;
            assert_eq!(cursor(&raw.to_le_bytes()[..=extra as usize]).varint().unwrap(), value, "{extra}");
        }
        assert_eq!(cursor(&[0, 1, 2, 3, 4, 5, 6, 7, 8]).varint().unwrap(), 0x0807_0605_0403_0201);
        assert!(cursor(&[0, 1]).varint().is_err());
        assert!(cursor(&[]).varint().is_err());
    }

    #[test]
    fn signed_integers() {
        assert_eq!(cursor(&[1]).svarint().unwrap(), 0);
        assert_eq!(cursor(&[3]).svarint().unwrap(), -1);
        assert_eq!(cursor(&[5]).svarint().unwrap(), 1);
        assert_eq!(cursor(&[0, 255, 255, 255, 255, 255, 255, 255, 255]).svarint().unwrap(), i64::MIN);
        assert_eq!(cursor(&[0x0F]).int_of_width(4).unwrap(), -1);
        assert_eq!(cursor(&[0xFF]).int_of_width(8).unwrap(), -1);
    }

    #[test]
    fn counts_are_capped_by_input() {
        assert!(cursor(&[2 * 3 + 1, 0, 0]).count().is_err());
        assert_eq!(cursor(&[2 * 2 + 1, 0, 0]).count().unwrap(), 2);
    }
}
