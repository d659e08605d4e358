//! Writes the primitives of MLIR's bytecode format.

/// Bytes of a section or another part of the file.
#[derive(Clone, Default)]
pub(super) struct Buffer(pub(super) Vec<u8>);

impl Buffer {
    /// Creates an empty buffer with room for this many bytes.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Writes an unsigned integer in the prefix encoding. The number of trailing zero bits in the first byte is the
    /// number of bytes that follow.
    #[inline]
    pub(super) fn varint(&mut self, value: u64) {
        // Most integers are indices that take one byte.
        if value < 1 << 7 {
            self.0.push((value << 1 | 1).to_le_bytes()[0]);
        } else {
            self.long_varint(value);
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, value: u64) {
        if value < 1 << 14 {
            let [low, high, ..] = (value << 2 | 2).to_le_bytes();
            self.0.extend_from_slice(&[low, high]);
            return;
        }
        let bits = 64 - value.leading_zeros();
        let bytes = bits.div_ceil(7);
        if bytes > 8 {
            self.0.push(0);
            self.0.extend_from_slice(&value.to_le_bytes());
            return;
        }
        let raw = (value << 1 | 1) << (bytes - 1);
        self.0.extend_from_slice(&raw.to_le_bytes()[..bytes as usize]);
    }

    pub(super) fn size(&mut self, value: usize) {
        self.varint(u64::try_from(value).unwrap_or(u64::MAX));
    }

    /// Writes a signed integer in zigzag encoding.
    pub(super) fn svarint(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63).cast_unsigned());
    }

    /// Writes an integer with a flag in its lowest bit.
    pub(super) fn flagged(&mut self, value: usize, flag: bool) {
        self.varint(u64::try_from(value).unwrap_or(u64::MAX) << 1 | u64::from(flag));
    }

    /// Writes the number of elements, and then calls `item` for each element to write it.
    pub(super) fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        self.size(items.len());
        for value in items {
            item(self, value);
        }
    }

    pub(super) fn svarints(&mut self, values: &[i64]) {
        self.list(values.iter(), |b, &v| b.svarint(v));
    }

    pub(super) fn indices(&mut self, values: &[usize]) {
        self.list(values.iter(), |b, &v| b.size(v));
    }

    /// Writes an integer of this bit width. The file does not store the width, because the type determines it.
    pub(super) fn int_of_width(&mut self, bits: u64, width: u32) {
        let bits = if width < 64 { bits & ((1 << width) - 1) } else { bits };
        match width {
            ..=8 => self.0.push(bits.to_le_bytes()[0]),
            _ => self.svarint(bits.cast_signed()),
        }
    }

    /// Writes a section: its id, its length and its content.
    pub(super) fn section(&mut self, id: u8, content: &[u8]) {
        self.section_start(id, content.len());
        self.0.extend_from_slice(content);
    }

    /// Writes the id and the length of a section.
    pub(super) fn section_start(&mut self, id: u8, length: usize) {
        self.byte(id);
        self.size(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_varints() {
        let bytes = |value| {
            let mut buffer = Buffer::default();
            buffer.varint(value);
            buffer.0
        };
        assert_eq!(bytes(5), [11]);
        assert_eq!(bytes(127), [0xFF]);
        assert_eq!(bytes(300), [0xB2, 0x04]);
        assert_eq!(bytes((1 << 14) - 1), [0xFE, 0xFF]);
        assert_eq!(bytes(1 << 14), [0x04, 0x00, 0x02]);
        assert_eq!(bytes((1 << 56) - 1).len(), 8);
        assert_eq!(bytes(1 << 56), [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let mut buffer = Buffer::default();
        buffer.svarint(-1);
        assert_eq!(buffer.0, [3]);
        buffer.int_of_width((-1i64).cast_unsigned(), 4);
        assert_eq!(buffer.0, [3, 0x0F]);
    }
}
