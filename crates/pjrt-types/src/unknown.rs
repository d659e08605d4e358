//! Keeps the protobuf fields of compile options that this SDK does not use.

use std::fmt;

use crate::proto::{BUILD_OPTIONS, COMPILE_OPTIONS, EXECUTABLE_BUILD_OPTIONS};

/// Encoded fields of compile options that [`CompileOptions`](crate::CompileOptions) lacks, in particular XLA's debug
/// options.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct UnknownFields {
    /// Unknown fields of `CompileOptionsProto`.
    options: Vec<u8>,
    /// Unknown fields of the message `executable_build_options` in `CompileOptionsProto`.
    build: Vec<u8>,
}

/// Number of the field `debug_options` of `ExecutableBuildOptionsProto`.
const DEBUG_OPTIONS: u64 = 3;

impl UnknownFields {
    /// Collects the unknown fields of an encoded `CompileOptionsProto`. Ignores all bytes after the first invalid
    /// field.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        for field in Fields(bytes) {
            if field.number == EXECUTABLE_BUILD_OPTIONS {
                let unknown = Fields(field.value).filter(|field| !BUILD_OPTIONS.contains(&field.number));
                unknown.for_each(|field| found.build.extend(field.bytes));
            } else if !COMPILE_OPTIONS.contains(&field.number) {
                found.options.extend(field.bytes);
            }
        }
        found
    }

    /// Appends the fields to an encoded `CompileOptionsProto`. If `executable_build_options` then occurs twice,
    /// decoders merge the two occurrences.
    pub(crate) fn append(&self, bytes: &mut Vec<u8>) {
        bytes.extend(&self.options);
        if !self.build.is_empty() {
            prost::encoding::encode_key(3, prost::encoding::WireType::LengthDelimited, bytes);
            prost::encoding::encode_varint(self.build.len() as u64, bytes);
            bytes.extend(&self.build);
        }
    }

    /// Returns whether there are no unknown fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.options.is_empty() && self.build.is_empty()
    }

    /// Returns the value of a field of `CompileOptionsProto`: the content of a string, bytes or message field, or the
    /// encoded value of a numeric field. If the field is repeated, returns the last value.
    #[must_use]
    pub fn field(&self, number: u64) -> Option<&[u8]> {
        Fields(&self.options).filter(|field| field.number == number).last().map(|field| field.value)
    }

    /// Returns the value of a field of `ExecutableBuildOptionsProto`, in the form that [`Self::field`] describes.
    #[must_use]
    pub fn build_field(&self, number: u64) -> Option<&[u8]> {
        Fields(&self.build).filter(|field| field.number == number).last().map(|field| field.value)
    }

    /// Returns the values of an integer field of XLA's `DebugOptions`, in the order of their bytes. Decoders merge all
    /// occurrences of the message and use the last value. Returns `None` if the bytes of the message are not fields
    /// that this SDK can read.
    #[must_use]
    pub fn debug_option(&self, number: u64) -> Option<Vec<i64>> {
        let mut values = Vec::new();
        for options in Fields(&self.build).filter(|field| field.number == DEBUG_OPTIONS) {
            let mut fields = Fields(options.value);
            for field in fields.by_ref().filter(|field| field.number == number) {
                values.push(varint(field.value)?.0.cast_signed());
            }
            if !fields.0.is_empty() {
                return None;
            }
        }
        Some(values)
    }

    /// Returns XLA's serialized `DebugOptions`, for backends that are built on XLA.
    #[must_use]
    pub fn debug_options(&self) -> Option<&[u8]> {
        self.build_field(DEBUG_OPTIONS)
    }
}

impl fmt::Debug for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = |bytes| Fields(bytes).map(|field| field.number).collect::<Vec<_>>();
        let (options, build) = (numbers(&self.options), numbers(&self.build));
        f.debug_struct("UnknownFields").field("options", &options).field("build", &build).finish()
    }
}

/// A field of an encoded message.
struct Field<'a> {
    number: u64,
    value: &'a [u8],
    /// The encoded field, which consists of its key and its value.
    bytes: &'a [u8],
}

/// Iterates over the fields of an encoded message, up to its end or the first invalid field.
struct Fields<'a>(&'a [u8]);

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(7 * index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let (key, key_size) = varint(self.0)?;
        let after = &self.0[key_size..];
        // Offsets of the start and the end of the value in `after`. In a length-delimited field, the length precedes
        // the value.
        let (start, end) = match key & 7 {
            0 => (0, varint(after)?.1),
            1 => (0, 8),
            2 => {
                let (len, size) = varint(after)?;
                (size, size.checked_add(usize::try_from(len).ok()?)?)
            }
            5 => (0, 4),
            _ => return None,
        };
        let value = after.get(start..end)?;
        let (bytes, rest) = self.0.split_at(key_size + end);
        self.0 = rest;
        Some(Field { number: key >> 3, value, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_type_is_kept() {
        let mut bytes = vec![0x58, 0x96, 0x01];
        bytes.extend([0x61, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([0x6d, 1, 2, 3, 4]);
        bytes.extend([0x72, 2, b'h', b'i', 0x72, 1, b'!']);
        let unknown = UnknownFields::of(&bytes);
        assert_eq!(unknown.field(11), Some(&[0x96, 0x01][..]));
        assert_eq!(unknown.field(12), Some(&[1, 2, 3, 4, 5, 6, 7, 8][..]));
        assert_eq!(unknown.field(13), Some(&[1, 2, 3, 4][..]));
        assert_eq!(unknown.field(14), Some(&b"!"[..]));
        assert_eq!((unknown.field(15), unknown.build_field(11), unknown.debug_options()), (None, None, None));
        let mut again = Vec::new();
        unknown.append(&mut again);
        assert_eq!(again, bytes);
        assert_eq!(format!("{unknown:?}"), "UnknownFields { options: [11, 12, 13, 14, 14], build: [] }");
        assert!(UnknownFields::default().is_empty() && !unknown.is_empty());
    }

    #[test]
    fn integers_of_debug_options() {
        // Two occurrences of `executable_build_options` with `debug_options`, whose field 323 is -1, 7 and 2.
        let minus_one = [0x98, 0x14, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let mut bytes = vec![0x1a, 17, 0x1a, 15];
        bytes.extend(minus_one);
        bytes.extend([0x98, 0x14, 7, 0x1a, 5, 0x1a, 3, 0x98, 0x14, 2]);
        let unknown = UnknownFields::of(&bytes);
        assert_eq!(unknown.debug_option(323), Some(vec![-1, 7, 2]));
        assert_eq!(unknown.debug_option(293), Some(vec![]));
        assert_eq!(UnknownFields::default().debug_option(323), Some(vec![]));
        // A group, which decoders skip, and a text.
        assert_eq!(UnknownFields::of(&[0x1a, 7, 0x1a, 5, 0x0b, 0x0c, 0x98, 0x14, 2]).debug_option(323), None);
        assert_eq!(UnknownFields::of(&[0x1a, 6, 0x1a, 4, 0x9a, 0x14, 1, 0x80]).debug_option(323), None);
    }

    #[test]
    fn truncated_field_is_left_out() {
        let whole = [0x5a, 3, b'a', b'b', b'c', 0x61, 1, 2, 3, 4, 5, 6, 7, 8];
        for cut in 0..whole.len() {
            let unknown = UnknownFields::of(&whole[..cut]);
            assert_eq!(unknown.field(11).is_some(), cut >= 5, "{cut}");
            assert!(unknown.field(12).is_none());
        }
        assert!(UnknownFields::of(&[0xff; 32]).is_empty());
    }
}
