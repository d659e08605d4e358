//! Parses `dense<...>` constants.

use bytes::Bytes;

use super::parser::{Parser, hex};
use crate::error::{Error, ErrorKind, Result};
use crate::float::encode;
use crate::ir::{Attribute, ElementType, Literal, TensorType};

impl Parser<'_> {
    /// Parses `dense<...> : type`. The type follows the elements but determines how they are read, so the elements are
    /// skipped first.
    pub(super) fn dense(&mut self) -> Result<Attribute> {
        let start = self.pos;
        self.keyword("dense");
        if self.peek() != b'<' {
            return Err(self.expected("`<`"));
        }
        let body = self.pos + 1;
        self.angle_body()?;
        let end = self.pos - 1;
        let ty = self.constant_type()?;
        let after = self.pos;
        let Ok(ty) = ty else { return Ok(Attribute::Other(self.text[start..after].to_owned())) };
        let Some(count) = ty.num_elements() else {
            return Err(Error::at(
                ErrorKind::Type,
                start,
                format_args!("a constant of type {ty} has no fixed number of elements"),
            ));
        };
        self.pos = body;
        let literal = if self.peek() == b'"' { self.hex_elements(ty) } else { self.elements(ty, count, end) };
        let literal = literal.map_err(|e| e.with_offset(start))?;
        if self.peek() != b'>' || self.pos != end {
            return Err(self.expected("the end of the constant"));
        }
        self.pos = after;
        Ok(Attribute::Tensor(literal))
    }

    /// Parses the raw bytes of a constant, `"0x..."`.
    fn hex_elements(&mut self, ty: TensorType) -> Result<Literal> {
        let raw = self.raw_string()?;
        let bytes = raw.strip_prefix(b"0x").and_then(decode_hex);
        Literal::from_raw(
            ty,
            bytes.ok_or_else(|| {
                Error::new(ErrorKind::Syntax, "a string constant must be `0x` and pairs of hexadecimal digits")
            })?,
        )
    }

    /// Parses `dense_resource<name> : type`.
    pub(super) fn dense_resource(&mut self) -> Result<Attribute> {
        let start = self.pos;
        self.keyword("dense_resource");
        self.expect("<")?;
        let name = self.ident("a resource name")?;
        self.expect(">")?;
        let Ok(ty) = self.constant_type()? else { return Ok(Attribute::Other(self.text[start..self.pos].to_owned())) };
        let Some(blob) = self.resources.get(name) else {
            return Err(Error::at(
                ErrorKind::Reference,
                start,
                format_args!("resource `{name}` is not defined in the program's resource section"),
            ));
        };
        let literal = Literal::from_raw(ty, blob.clone()).map_err(|e| e.with_offset(start))?;
        // Elements narrower than a byte are unpacked into a copy. A program can refer to one resource many times, so
        // charge for the copy.
        if literal.ty.element.bit_width() < 8 {
            self.budget.charge(literal.data.len()).map_err(|e| e.with_offset(start))?;
        }
        Ok(Attribute::Tensor(literal))
    }

    /// Parses a nested list with the shape of the type, or a single element that is repeated.
    fn elements(&mut self, ty: TensorType, count: usize, end: usize) -> Result<Literal> {
        let rank = ty.rank();
        if self.peek() == b'>' && count == 0 {
            return Literal::new(ty, Bytes::new());
        }
        if rank == 0 || self.peek() != b'[' {
            let mut data = Vec::new();
            self.element(ty.element, &mut data)?;
            return if count == 0 { Literal::new(ty, Bytes::new()) } else { Literal::new(ty, data) };
        }
        // Each element takes at least one character, so the length of the text limits the allocation.
        let mut data =
            Vec::with_capacity(count.min(end.saturating_sub(self.pos)).saturating_mul(ty.element.byte_size()));
        // Number of elements so far in each open list.
        let mut open: Vec<i64> = Vec::with_capacity(rank);
        loop {
            if self.eat("[") {
                if open.len() == rank {
                    return Err(self.error(format_args!("a list nested deeper than the {rank} dimensions of {ty}")));
                }
                open.push(0);
                if self.peek() != b']' {
                    continue;
                }
            } else if open.len() == rank {
                self.element(ty.element, &mut data)?;
                open[rank - 1] += 1;
            } else {
                return Err(self.expected("`[`"));
            }
            loop {
                if self.eat(",") {
                    break;
                }
                self.expect("]")?;
                let seen = open.pop();
                let expected = ty.shape[open.len()];
                if seen != Some(expected) {
                    return Err(
                        self.error(format_args!("a list has {} items, but {ty} needs {expected}", seen.unwrap_or(0)))
                    );
                }
                match open.last_mut() {
                    Some(outer) => *outer += 1,
                    None => return Literal::new(ty, data),
                }
            }
        }
    }

    /// Parses one element, and appends it in the byte format of [`Literal`].
    fn element(&mut self, element: ElementType, data: &mut Vec<u8>) -> Result<()> {
        if let Some(part) = element.complex_part() {
            self.expect("(")?;
            self.scalar(part, data)?;
            self.expect(",")?;
            self.scalar(part, data)?;
            return self.expect(")");
        }
        self.scalar(element, data)
    }

    pub(super) fn scalar(&mut self, element: ElementType, data: &mut Vec<u8>) -> Result<()> {
        let word = self.word();
        if matches!(word, "true" | "false") && (element == ElementType::Bool || element.is_integer()) {
            self.pos += word.len();
            return push(data, element, u64::from(word == "true"), word);
        }
        let start = self.pos;
        let text = self.number()?;
        let bits = if element.is_float() { float_bits(text, element) } else { integer_bits(text, element) };
        let bits = bits
            .ok_or_else(|| Error::at(ErrorKind::Syntax, start, format_args!("`{text}` is not a value of {element}")))?;
        push(data, element, bits, text)
    }
}

fn push(data: &mut Vec<u8>, element: ElementType, bits: u64, text: &str) -> Result<()> {
    match element.byte_size() {
        size @ (1 | 2 | 4 | 8) => {
            data.extend_from_slice(&bits.to_le_bytes()[..size]);
            Ok(())
        }
        _ => Err(Error::new(ErrorKind::Syntax, format_args!("`{text}` is not a value of {element}"))),
    }
}

/// Returns the bit pattern of a floating-point number. A decimal number is rounded to the type. A hexadecimal number is
/// the bit pattern itself.
pub(super) fn float_bits(text: &str, element: ElementType) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().filter(|bits| fits(*bits, element.bit_width())),
        None => encode(text.parse().ok()?, element),
    }
}

fn fits(bits: u64, width: u32) -> bool {
    width >= 64 || bits >> width == 0
}

/// Returns an integer, sign- or zero-extended to 64 bits. Returns `None` if the type cannot represent the integer.
pub(super) fn integer_bits(text: &str, element: ElementType) -> Option<u64> {
    let width = element.bit_width();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |d| (true, d));
    let magnitude = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    if negative {
        let value = 0i64.checked_sub_unsigned(magnitude)?;
        (element.is_signed_integer() && value >> (width - 1) == -1 || value == 0).then_some(value.cast_unsigned())
    } else if !fits(magnitude, width) {
        None
    } else if element.is_signed_integer() && width < 64 {
        // As in MLIR, a negative number may also be written as the unsigned number with the same bits.
        let shift = 64 - width;
        Some(((magnitude << shift).cast_signed() >> shift).cast_unsigned())
    } else {
        Some(magnitude)
    }
}

/// Decodes pairs of hexadecimal digits to bytes. Returns `None` for any other text.
pub(super) fn decode_hex(digits: &[u8]) -> Option<Bytes> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let bytes: Option<Vec<u8>> = pairs.iter().map(|&[high, low]| Some(hex(high)? << 4 | hex(low)?)).collect();
    bytes.map(Bytes::from)
}
