//! Prints attributes and constants.

use super::float::float_text;
use super::printer::Printer;
use crate::attributes::sorted;
use crate::ir::{Attribute, Attributes, ElementType, Literal, TensorType};

impl Printer<'_> {
    pub(super) fn tensor_type(&mut self, ty: &TensorType) {
        self.push("tensor<");
        for &extent in &ty.shape {
            if extent == crate::ir::DYNAMIC {
                self.push("?x");
            } else {
                self.integer(extent);
                self.push("x");
            }
        }
        self.push(ty.element.name());
        self.push(">");
    }

    /// Prints an integer. A program contains many small integers, most of them in shapes. A single digit is therefore
    /// printed without `fmt`, which is slow.
    pub(super) fn integer(&mut self, value: i64) {
        match u8::try_from(value) {
            Ok(digit @ 0..=9) => self.out.push(char::from(b'0' + digit)),
            _ => self.number(value),
        }
    }

    /// Prints a space and a dictionary: ` {a = 1 : i32}`. Prints nothing if the dictionary is empty.
    pub(super) fn dictionary_after_space(&mut self, attributes: &Attributes) {
        if !attributes.is_empty() {
            self.push(" ");
            self.dictionary(attributes);
        }
    }

    /// Prints a dictionary, sorted by name: `{a = 1 : i32, b}`.
    pub(super) fn dictionary(&mut self, attributes: &Attributes) {
        self.push("{");
        self.list(sorted(attributes), |p, (name, value)| p.entry(name, value));
        self.push("}");
    }

    pub(super) fn entry(&mut self, name: &str, value: &Attribute) {
        self.key(name);
        if *value != Attribute::Unit {
            self.push(" = ");
            self.attribute(value);
        }
    }

    fn key(&mut self, name: &str) {
        if is_bare(name) { self.push(name) } else { self.string(name.as_bytes()) }
    }

    pub(super) fn attribute(&mut self, attribute: &Attribute) {
        self.attribute_in(attribute, false);
    }

    /// Prints an attribute. Inside arrays, the types of 64-bit numbers are omitted, as in MLIR.
    fn attribute_in(&mut self, attribute: &Attribute, in_array: bool) {
        match attribute {
            Attribute::Unit => self.push("unit"),
            Attribute::Bool(value) => self.push(if *value { "true" } else { "false" }),
            Attribute::Integer(value, element) => {
                if element.is_unsigned_integer() {
                    self.number(value.cast_unsigned());
                } else {
                    self.integer(*value);
                }
                if !in_array || *element != ElementType::I64 {
                    self.push(" : ");
                    self.push(element.name());
                }
            }
            Attribute::Float(value, element) => {
                let bits = crate::float::encode(*value, *element).unwrap_or(0);
                self.push(&float_text(bits, *element));
                if !in_array || *element != ElementType::F64 {
                    self.push(" : ");
                    self.push(element.name());
                }
            }
            Attribute::String(bytes) => self.string(bytes),
            Attribute::Symbol(name) => self.symbol(name),
            Attribute::Type(ty) => self.ty(Some(ty)),
            Attribute::Array(items) => {
                self.push("[");
                self.list(items, |p, item| p.attribute_in(item, true));
                self.push("]");
            }
            Attribute::Dictionary(entries) => self.dictionary(entries),
            Attribute::Tensor(literal) => self.dense(literal),
            Attribute::DenseArray(literal) => self.dense_array(literal),
            Attribute::Other(text) => self.push(text),
        }
    }

    /// Prints a symbol: `@name`. Quotes names that MLIR cannot read without quotes.
    pub(super) fn symbol(&mut self, name: &str) {
        for (i, part) in name.split("::@").enumerate() {
            self.push(if i > 0 { "::@" } else { "@" });
            if is_bare(part) { self.push(part) } else { self.string(part.as_bytes()) }
        }
    }

    /// Prints a string with escaped special characters.
    pub(super) fn string(&mut self, bytes: &[u8]) {
        self.push("\"");
        let mut rest = bytes;
        while !rest.is_empty() {
            let plain = rest.iter().take_while(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\')).count();
            let (text, tail) = rest.split_at(plain);
            self.push(&String::from_utf8_lossy(text));
            rest = tail;
            if let Some((&byte, tail)) = rest.split_first() {
                if byte == b'\\' {
                    self.push("\\\\")
                } else {
                    self.push(&format!("\\{byte:02X}"))
                }
                rest = tail;
            }
        }
        self.push("\"");
    }

    /// Prints a dense array: `array<i64: 1, 2>`.
    pub(super) fn dense_array(&mut self, literal: &Literal) {
        self.push("array<");
        self.push(literal.ty.element.name());
        let count = literal.ty.num_elements().unwrap_or(0);
        for i in 0..count {
            self.push(if i == 0 { ": " } else { ", " });
            self.element(literal, if literal.splat { 0 } else { i });
        }
        self.push(">");
    }

    /// Prints a dense constant: `dense<...> : type`.
    pub(super) fn dense(&mut self, literal: &Literal) {
        let ty = &literal.ty;
        let size = ty.element.byte_size();
        let uniform = literal.splat || literal.data.len() >= size && is_uniform(&literal.data, size);
        let count = ty.num_elements().unwrap_or(0);
        if self.options.elide_elements_above.is_some_and(|limit| count > limit && !uniform) {
            self.push("dense_resource<__elided__>");
        } else if uniform {
            self.push("dense<");
            self.element(literal, 0);
            self.push(">");
        } else if count == 0 {
            self.push("dense<>");
        } else if count > self.options.hex_elements_above && ty.element != ElementType::Bool {
            self.push("dense<\"0x");
            self.hexadecimal(&literal.data);
            self.push("\">");
        } else {
            self.push("dense<");
            self.nested(literal, 0, &mut 0);
            self.push(">");
        }
        self.push(" : ");
        self.tensor_type(ty);
    }

    fn hexadecimal(&mut self, data: &[u8]) {
        const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
        self.out.reserve(2 * data.len());
        for &byte in data {
            self.out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            self.out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }

    /// Prints the elements as nested lists, with one nesting level for each dimension from `dimension` on. `next` is
    /// the index of the next element in row-major order.
    fn nested(&mut self, literal: &Literal, dimension: usize, next: &mut usize) {
        let Some(&extent) = literal.ty.shape.get(dimension) else {
            self.element(literal, *next);
            *next += 1;
            return;
        };
        self.push("[");
        for i in 0..extent {
            self.push(if i > 0 { ", " } else { "" });
            self.nested(literal, dimension + 1, next);
        }
        self.push("]");
    }

    fn element(&mut self, literal: &Literal, index: usize) {
        let element = literal.ty.element;
        let size = element.byte_size();
        let Some(bytes) = literal.data.get(index * size..(index + 1) * size) else {
            return self.push("<<no data>>");
        };
        match element.complex_part() {
            Some(part) => {
                let (real, imaginary) = bytes.split_at(size / 2);
                self.push("(");
                self.push(&float_text(bits(real), part));
                self.push(",");
                self.push(&float_text(bits(imaginary), part));
                self.push(")");
            }
            None if element == ElementType::Bool => self.push(if bytes[0] != 0 { "true" } else { "false" }),
            None if element.is_float() => self.push(&float_text(bits(bytes), element)),
            None if element.is_signed_integer() => {
                let shift = 64 - 8 * u32::try_from(size).unwrap_or(8);
                self.number((bits(bytes) << shift).cast_signed() >> shift);
            }
            None => self.number(bits(bytes)),
        }
    }

    /// Prints the part of `#dialect.name<...>` that starts at `<`. Some ops print an attribute without its name.
    pub(super) fn body(&mut self, attribute: &Attribute) {
        if let Attribute::Other(text) = attribute {
            self.push(text.find('<').map_or(text.as_str(), |at| &text[at..]));
        }
    }
}

/// Returns whether all elements of `size` bytes in `data` have the same bytes.
fn is_uniform(data: &[u8], size: usize) -> bool {
    data.len().is_multiple_of(size) && data[size..] == data[..data.len() - size]
}

/// Decodes up to eight bytes as a little-endian integer.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Returns whether MLIR can read the name without quotes.
fn is_bare(name: &str) -> bool {
    name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
}
