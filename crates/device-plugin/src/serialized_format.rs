//! The serialization format of topologies, executables and lists of devices. The serialized data begins with a magic
//! line, which contains the version of the format. Integers of 8 bytes and byte strings follow. An integer before each
//! byte string contains its length. The last 8 bytes are a checksum of all preceding bytes.

use crate::{Error, NamedValue, Result, Value};

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(magic: &[u8]) -> Self {
        Self(magic.to_vec())
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn count(&mut self, value: usize) {
        self.0.extend((value as u64).to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn values(&mut self, values: &[NamedValue]) {
        self.count(values.len());
        for value in values {
            self.text(&value.name);
            match &value.value {
                Value::Int64(value) => {
                    self.int(1);
                    self.int(*value);
                }
                Value::Int64List(list) => {
                    self.int(2);
                    self.count(list.len());
                    list.iter().for_each(|value| self.int(*value));
                }
                Value::Float(value) => {
                    self.int(3);
                    self.int(value.to_bits().into());
                }
                Value::Bool(value) => {
                    self.int(4);
                    self.int((*value).into());
                }
                value => {
                    self.int(0);
                    self.text(&value.to_string());
                }
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = checksum(&self.0);
        self.0.extend(sum.to_le_bytes());
        self.0
    }
}

/// Computes the FNV-1a hash, which detects accidental damage but not manipulation.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

pub(crate) struct Reader<'a> {
    left: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], magic: &[u8], what: &'static str) -> Result<Self> {
        let Some(left) = bytes.strip_prefix(magic) else {
            return Err(Error::invalid_argument(format!(
                "the bytes are not {what} that this version of the plugin serialized"
            )));
        };
        let reader = Self { left, what };
        let Some((body, sum)) = bytes.split_last_chunk::<8>().filter(|(body, _)| body.len() >= magic.len()) else {
            return Err(reader.fault());
        };
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err(reader.fault());
        }
        Ok(Self { left: &left[..left.len() - sum.len()], ..reader })
    }

    fn fault(&self) -> Error {
        Error::invalid_argument(format!("the bytes of {} are truncated or damaged", self.what))
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(size).ok_or_else(|| self.fault())?;
        self.left = left;
        Ok(taken)
    }

    fn word(&mut self) -> Result<[u8; 8]> {
        let word = self.take(8)?;
        word.try_into().map_err(|_| self.fault())
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        self.word().map(i64::from_le_bytes)
    }

    pub(crate) fn int32(&mut self) -> Result<i32> {
        i32::try_from(self.int()?).map_err(|_| self.fault())
    }

    /// Reads the length of a list or of a byte string. A length above the number of remaining bytes is an error,
    /// because each element occupies at least one byte. Damaged data therefore cannot cause huge allocations.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = u64::from_le_bytes(self.word()?);
        usize::try_from(count).ok().filter(|count| *count <= self.left.len()).ok_or_else(|| self.fault())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let size = self.count()?;
        self.take(size)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.fault())
    }

    pub(crate) fn values(&mut self) -> Result<Vec<NamedValue>> {
        let mut values = Vec::new();
        for _ in 0..self.count()? {
            let name = self.text()?;
            let value = match self.int()? {
                0 => Value::String(self.text()?),
                1 => Value::Int64(self.int()?),
                2 => Value::Int64List((0..self.count()?).map(|_| self.int()).collect::<Result<_>>()?),
                3 => Value::Float(f32::from_bits(u32::try_from(self.int()?).map_err(|_| self.fault())?)),
                4 => Value::Bool(self.int()? != 0),
                _ => return Err(self.fault()),
            };
            values.push(NamedValue::new(name, value));
        }
        Ok(values)
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.left.is_empty() { Ok(()) } else { Err(self.fault()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_damage() {
        let values = vec![
            NamedValue::new("a", 1i64),
            NamedValue::new("b", "text"),
            NamedValue::new("c", [1i64, -2]),
            NamedValue::new("d", 0.5f32),
            NamedValue::new("e", true),
        ];
        let mut out = Writer::new(b"m");
        out.values(&values);
        out.bytes(&[7; 3]);
        let bytes = out.finish();
        let read = |bytes: &[u8]| -> Result<Vec<NamedValue>> {
            let mut from = Reader::new(bytes, b"m", "a test")?;
            let values = from.values()?;
            assert_eq!(from.bytes()?, [7; 3]);
            from.finish()?;
            Ok(values)
        };
        assert_eq!(read(&bytes).unwrap(), values);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
