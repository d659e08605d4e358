//! Constants: checked construction and element access.

use std::fmt;

use bytes::Bytes;

use super::types::{ElementType, TensorType};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of elements to which [`Literal::integers`] expands a splat. A splat in an op's attribute is far
/// shorter, because its length is proportional to the rank of an operand.
const MAX_LIST: usize = 4096;

/// A constant tensor. `data` holds the elements in row-major order, little-endian. Each element takes whole bytes.
/// Sub-byte types are sign- or zero-extended to one byte, a boolean is one byte (0 or 1), and a complex number is the
/// real part followed by the imaginary part. `data` holds either all elements, or a single element that is repeated (a
/// splat). A tensor with one element is not a splat.
#[derive(Clone, PartialEq, Eq)]
pub struct Literal {
    /// Type of the tensor.
    pub ty: TensorType,
    /// Bytes of the elements. If the program stores the elements in this format, the bytes are a slice of the program.
    pub data: Bytes,
    /// Whether `data` holds one element that all elements of the tensor are equal to.
    pub splat: bool,
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Literal({:?}, {} bytes{})", self.ty, self.data.len(), if self.splat { ", splat" } else { "" })
    }
}

impl Literal {
    /// Creates a constant from `data` in the byte format of [`Literal`]. `data` holds all elements or exactly one.
    ///
    /// # Errors
    ///
    /// Returns an error if the type is not static, or if `data` has neither the size of all elements nor the size of
    /// one element.
    pub fn new(ty: TensorType, data: impl Into<Bytes>) -> Result<Self> {
        let data = data.into();
        let Some(count) = ty.num_elements() else {
            return Err(Error::new(
                ErrorKind::Type,
                format_args!("a constant of type {ty} has no fixed number of elements"),
            ));
        };
        let size = ty.element.byte_size();
        let splat = data.len() == size && count > 1;
        if splat || count.checked_mul(size) == Some(data.len()) {
            return Ok(Self { ty, data, splat });
        }
        Err(Error::new(
            ErrorKind::Type,
            format_args!("a constant of type {ty} has {} bytes, but must have {count} elements or one", data.len()),
        ))
    }

    /// Creates a constant from MLIR's raw format. This format packs eight booleans into a byte, and leaves the unused
    /// bits of sub-byte elements unspecified.
    pub(crate) fn from_raw(ty: TensorType, raw: Bytes) -> Result<Self> {
        let data = match ty.element {
            // Producers may write one element for an empty tensor.
            element if raw.len() == element.byte_size() && ty.num_elements() == Some(0) => Bytes::new(),
            ElementType::Bool => unpack_booleans(&ty, raw)?,
            ElementType::I2 | ElementType::I4 | ElementType::Ui2 | ElementType::Ui4 => normalise(ty.element, raw),
            _ => raw,
        };
        Self::new(ty, data)
    }

    /// Returns the elements as integers. Returns `None` if they are neither integers nor booleans, or if the constant
    /// is a splat of more than 4096 elements.
    #[must_use]
    pub fn integers(&self) -> Option<Vec<i64>> {
        let element = self.ty.element;
        if !(element.is_integer() || element == ElementType::Bool) {
            return None;
        }
        let size = element.byte_size();
        let signed = element.is_signed_integer();
        let mut values: Vec<i64> = self.data.chunks_exact(size).map(|chunk| integer(chunk, signed)).collect();
        if self.splat {
            let count = self.ty.num_elements().filter(|&n| n <= MAX_LIST)?;
            values = vec![values[0]; count];
        }
        Some(values)
    }
}

/// Decodes a little-endian integer of up to eight bytes.
fn integer(bytes: &[u8], signed: bool) -> i64 {
    let negative = signed && bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut wide = [if negative { 0xFF } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}

/// Returns one byte per boolean, or a single byte for a splat. MLIR packs eight booleans into a byte, least significant
/// bit first, and writes a splat as 0x00 or 0xFF. Some producers wrote one byte per boolean.
fn unpack_booleans(ty: &TensorType, raw: Bytes) -> Result<Bytes> {
    let Some(count) = ty.num_elements() else { return Ok(raw) };
    let packed = count.div_ceil(8);
    match raw[..] {
        [byte @ (0 | 1 | 0xFF)] if count > 8 || byte != 1 => Ok(Bytes::from(vec![byte & 1])),
        _ if raw.len() == packed => {
            let mut data = Vec::with_capacity(count);
            data.extend((0..count).map(|i| raw[i / 8] >> (i % 8) & 1));
            Ok(Bytes::from(data))
        }
        _ if raw.len() == count && raw.iter().all(|&b| b <= 1) => Ok(raw),
        _ if raw.len() == count => Ok(raw.iter().map(|&b| u8::from(b != 0)).collect()),
        _ => Err(Error::new(
            ErrorKind::Type,
            format_args!("a constant of type {ty} holds {} bytes, expected {packed}", raw.len()),
        )),
    }
}

/// Sign- or zero-extends sub-byte integers to one byte.
pub(crate) fn normalise(element: ElementType, raw: Bytes) -> Bytes {
    let width = element.bit_width();
    let fix = |byte: u8| {
        let shifted = byte << (8 - width);
        if element.is_signed_integer() {
            (shifted.cast_signed() >> (8 - width)).cast_unsigned()
        } else {
            shifted >> (8 - width)
        }
    };
    if raw.iter().all(|&b| fix(b) == b) { raw } else { raw.iter().map(|&b| fix(b)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(shape: &[i64], element: ElementType, bytes: &[u8]) -> Result<(Vec<u8>, bool)> {
        let literal = Literal::from_raw(TensorType::new(shape, element), Bytes::copy_from_slice(bytes))?;
        Ok((literal.data.to_vec(), literal.splat))
    }

    #[test]
    fn booleans_unpack() {
        let b = ElementType::Bool;
        assert_eq!(raw(&[3], b, &[0b101]).unwrap(), (vec![1, 0, 1], false));
        assert_eq!(raw(&[9], b, &[0xFF, 1]).unwrap(), (vec![1; 9], false));
        assert_eq!(raw(&[9], b, &[0xFF]).unwrap(), (vec![1], true));
        assert_eq!(raw(&[4], b, &[0]).unwrap(), (vec![0], true));
        assert_eq!(raw(&[], b, &[0xFF]).unwrap(), (vec![1], false));
        assert_eq!(raw(&[1], b, &[1]).unwrap(), (vec![1], false));
        assert_eq!(raw(&[4], b, &[1, 0, 1, 1]).unwrap(), (vec![1, 0, 1, 1], false));
        assert_eq!(raw(&[0], b, &[]).unwrap(), (vec![], false));
        assert!(raw(&[9], b, &[1, 2, 3]).is_err());
        assert!(raw(&[20], b, &[7]).is_err());
    }

    #[test]
    fn size_mismatch() {
        let f = ElementType::F32;
        assert_eq!(raw(&[2, 2], f, &[0; 16]).unwrap(), (vec![0; 16], false));
        assert_eq!(raw(&[2, 2], f, &[0; 4]).unwrap(), (vec![0; 4], true));
        assert_eq!(raw(&[0], f, &[]).unwrap(), (vec![], false));
        assert_eq!(raw(&[3, 0], f, &[0; 4]).unwrap(), (vec![], false));
        assert!(raw(&[0], f, &[0; 8]).is_err());
        assert!(raw(&[2, 2], f, &[0; 15]).is_err());
        assert!(raw(&[2, 2], f, &[0; 8]).is_err());
        assert!(raw(&[crate::ir::DYNAMIC], f, &[0; 4]).is_err());
        assert!(raw(&[i64::MAX, 8], f, &[0; 12]).is_err());
    }

    #[test]
    fn sub_byte_integers() {
        assert_eq!(raw(&[2], ElementType::I4, &[0x0F, 0x07]).unwrap().0, vec![0xFF, 0x07]);
        assert_eq!(raw(&[2], ElementType::Ui4, &[0xFF, 0x07]).unwrap().0, vec![0x0F, 0x07]);
    }

    #[test]
    fn splats_expand_up_to_limit() {
        let list =
            |n: i64| Literal::new(TensorType::new([n], ElementType::I64), (-5i64).to_le_bytes().to_vec()).unwrap();
        assert_eq!(list(3).integers(), Some(vec![-5; 3]));
        assert_eq!(list(1 << 40).integers(), None);
    }
}
