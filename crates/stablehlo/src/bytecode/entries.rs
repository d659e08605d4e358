//! The attribute and type tables. Entries are decoded at their first use and then cached.
//!
//! Entries refer to each other by index, so a malicious file can nest them without end or make the expansion grow
//! exponentially. The reader limits the depth, and charges every copy to a [`Budget`].

use std::sync::Arc;

use bytes::Bytes;

use super::append::append;
use super::container::{Container, Dialect, Resource};
use super::cursor::Cursor;
use crate::attributes::{Budget, enumeration, float_attribute, weight};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes, ElementType, Literal, TensorType, Type, ValueTypes};
use crate::print::{attribute_text, float_text};
use crate::types::Ty;

/// Maximum nesting depth of attributes and types. It bounds the stack that the recursive decoder needs.
pub(super) const MAX_DEPTH: usize = 32;

/// Maximum number of decoded attributes for which the reader reserves memory before it starts. Most attributes of a
/// file are locations, which stay encoded.
const FIRST_ATTRIBUTES: usize = 64;

/// The tables of a file, with the entries that are already decoded. `budget` limits the memory for copies of entries.
pub(super) struct Tables<'a> {
    pub(super) container: Container<'a>,
    pub(super) program: &'a Bytes,
    /// For each attribute, its index in `loaded` plus one, or 0 if the attribute is not decoded yet.
    attributes: Vec<u32>,
    /// Decoded attributes, each with the cost of a copy.
    loaded: Vec<(Attribute, usize)>,
    /// Decoded types, each with the cost of a copy. A type that values have is in `value_types` instead.
    pub(super) types: Vec<Option<(Ty, usize)>>,
    pub(super) value_types: Vec<Option<ValueType>>,
    budget: Budget,
}

/// A type that values can have, and its position among the interned types of a function.
#[derive(Clone)]
pub(super) struct ValueType {
    ty: Arc<Type>,
    /// Cost of a copy of the type.
    weight: usize,
    /// Ordinal of the last function that had a value of this type, and the index of the type among that function's
    /// interned types.
    interned: (u32, u32),
}

impl ValueType {
    pub(super) fn shared(&self) -> &Arc<Type> {
        &self.ty
    }
}

impl<'a> Tables<'a> {
    pub(super) fn new(program: &'a Bytes) -> Result<Self> {
        let container = Container::read(program)?;
        Ok(Self {
            attributes: vec![0; container.attributes.len()],
            loaded: Vec::with_capacity(container.attributes.len().min(FIRST_ATTRIBUTES)),
            types: vec![None; container.types.len()],
            value_types: vec![None; container.types.len()],
            container,
            program,
            budget: Budget::new(program.len()),
        })
    }

    /// Decodes an attribute if necessary, and charges the budget for one copy of it.
    pub(super) fn load(&mut self, cursor: &Cursor<'_>, index: usize) -> Result<()> {
        self.load_attribute(cursor.pos(), index, 0)?;
        self.charge(cursor.pos(), self.weight(index))
    }

    fn find(&self, index: usize) -> Option<&(Attribute, usize)> {
        self.loaded.get((*self.attributes.get(index)? as usize).checked_sub(1)?)
    }

    /// Returns the cost of copying a decoded attribute, or 0 if the attribute is not decoded yet.
    pub(super) fn weight(&self, index: usize) -> usize {
        self.find(index).map_or(0, |(_, weight)| *weight)
    }

    /// Returns the attribute with this index. [`Self::load`] must have decoded it before.
    pub(super) fn loaded(&self, index: usize) -> &Attribute {
        const MISSING: &Attribute = &Attribute::Unit;
        self.find(index).map_or(MISSING, |(attribute, _)| attribute)
    }

    /// Returns the type with this index. Returns an error if a value cannot have this type.
    pub(super) fn value_type(&mut self, offset: usize, index: usize) -> Result<&Arc<Type>> {
        Ok(&self.shared_type(offset, index)?.ty)
    }

    fn shared_type(&mut self, offset: usize, index: usize) -> Result<&mut ValueType> {
        if !matches!(self.value_types.get(index), Some(Some(_))) {
            self.load_type(offset, index, 0)?;
            let (ty, weight) = match self.types.get_mut(index).and_then(Option::take) {
                Some((Ty::Value(ty), weight)) => (Arc::new(ty), weight),
                Some((other, _)) => {
                    return Err(Error::at(
                        ErrorKind::Encoding,
                        offset,
                        format_args!("{} is not the type of a value", other.into_type()),
                    ));
                }
                None => return Err(self.missing_type(offset, index)),
            };
            self.value_types[index] = Some(ValueType { ty, weight, interned: (0, 0) });
        }
        match &mut self.value_types[index] {
            Some(shared) => Ok(shared),
            None => Err(Error::at(ErrorKind::Encoding, offset, "the type of a value is missing")),
        }
    }

    /// Interns the type with this index in `values`, which holds the value types of one function. `func` is the ordinal
    /// of this function in the program, starting at 1. Returns the index of the type among the interned types.
    #[inline]
    pub(super) fn interned_type(
        &mut self,
        offset: usize,
        index: usize,
        func: u32,
        values: &mut ValueTypes,
    ) -> Result<u32> {
        if let Some(Some(ValueType { interned: (last, position), .. })) = self.value_types.get(index)
            && *last == func
        {
            return Ok(*position);
        }
        let shared = self.shared_type(offset, index)?;
        let position = values.intern(shared.ty.clone(), false);
        shared.interned = (func, position);
        Ok(position)
    }

    /// Returns the cost of a copy of a type. Returns `None` if the type is not decoded yet.
    pub(super) fn type_weight(&self, index: usize) -> Option<usize> {
        match (self.types.get(index)?, self.value_types.get(index)?) {
            (Some((_, weight)), _) | (None, Some(ValueType { weight, .. })) => Some(*weight),
            (None, None) => None,
        }
    }

    /// Returns the index of the type that a type attribute contains. `index` is the index of the attribute. Returns
    /// `None` if the attribute is not a type attribute of VHLO.
    pub(super) fn type_of_attribute(&self, index: usize) -> Option<usize> {
        let entry = self.container.attributes.get(index)?;
        let mut cursor = Cursor::new(self.container.file, entry.range.clone());
        let is_type = entry.encoded && entry.dialect == Dialect::Vhlo && cursor.varint().ok()? == 17;
        let ty = cursor.index().ok()?;
        (is_type && cursor.is_empty()).then_some(ty)
    }

    /// Returns the input types and the result types of the function type with this index. Returns `Ok(None)` if the
    /// type is not a function type.
    pub(super) fn function_type(&mut self, offset: usize, index: usize) -> Result<Option<[&[Arc<Type>]; 2]>> {
        if self.type_weight(index).is_none() {
            self.load_type(offset, index, 0)?;
        }
        Ok(match self.types.get(index) {
            Some(Some((Ty::Function(inputs, results), _))) => Some([inputs, results]),
            _ => None,
        })
    }

    #[inline]
    pub(super) fn charge(&mut self, offset: usize, weight: usize) -> Result<()> {
        self.budget.charge(weight).map_err(|e| e.with_offset(offset))
    }

    /// Returns the table entry of the attribute with this index. `offset` is the file offset for an error.
    pub(super) fn attribute_entry(&self, offset: usize, index: usize) -> Result<super::container::Entry> {
        let entries = &self.container.attributes;
        entries.get(index).cloned().ok_or_else(|| {
            Error::at(
                ErrorKind::Reference,
                offset,
                format_args!("attribute {index} does not exist; the program has {}", entries.len()),
            )
        })
    }

    fn load_attribute(&mut self, offset: usize, index: usize, depth: usize) -> Result<()> {
        if let Some(1..) = self.attributes.get(index) {
            return Ok(());
        }
        let entry = self.attribute_entry(offset, index)?;
        if depth > MAX_DEPTH {
            return Err(Error::at(
                ErrorKind::Limit,
                entry.range.start,
                format_args!("attributes nest deeper than {MAX_DEPTH}"),
            ));
        }
        let mut cursor = Cursor::new(self.container.file, entry.range.clone());
        let attribute = if entry.encoded {
            let attribute = match entry.dialect {
                Dialect::Builtin => self.builtin_attribute(&mut cursor, depth)?,
                Dialect::Vhlo => self.vhlo_attribute(&mut cursor, depth)?,
                Dialect::Shardy => self.shardy_attribute(&mut cursor, depth)?,
                Dialect::Stablehlo | Dialect::Other => {
                    return Err(cursor.error("an attribute of a dialect other than vhlo, builtin and sdy"));
                }
            };
            if !cursor.is_empty() {
                return Err(cursor.error(format_args!("{} bytes left over in an attribute", cursor.remaining())));
            }
            attribute
        } else {
            Attribute::Other(self.assembly(entry.range))
        };
        let weight = weight(&attribute);
        self.charge(cursor.pos(), weight)?;
        self.loaded.push((attribute, weight));
        self.attributes[index] = u32::try_from(self.loaded.len())
            .map_err(|_| Error::at(ErrorKind::Limit, offset, "more than 2^32 attributes"))?;
        Ok(())
    }

    /// Returns the MLIR text in a range of the file, without the NUL at its end.
    pub(super) fn assembly(&self, range: std::ops::Range<usize>) -> String {
        let bytes = &self.container.file[range];
        String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(bytes)).into_owned()
    }

    /// Reads the index of an attribute, and returns a copy of this attribute. `depth` is the nesting depth of the
    /// parent.
    pub(super) fn child(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let index = cursor.index()?;
        self.child_at(cursor, index, depth)
    }

    /// Returns a copy of the attribute with this index. `depth` is the nesting depth of the attribute that refers to
    /// it.
    pub(super) fn child_at(&mut self, cursor: &Cursor<'_>, index: usize, depth: usize) -> Result<Attribute> {
        self.load_attribute(cursor.pos(), index, depth + 1)?;
        self.charge(cursor.pos(), self.weight(index))?;
        Ok(self.loaded(index).clone())
    }

    pub(super) fn children(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Attribute>> {
        cursor.list(|cursor| self.child(cursor, depth))
    }

    /// Reads the index of a string attribute or of a symbol, and returns its text.
    pub(super) fn child_text(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<String> {
        match self.child(cursor, depth)? {
            // The attribute's bytes are a slice of the program, but the returned string is a copy, so charge for it.
            Attribute::String(bytes) => {
                self.charge(cursor.pos(), bytes.len())?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Attribute::Symbol(name) => Ok(name),
            _ => Err(cursor.error("expected a string attribute")),
        }
    }

    pub(super) fn child_type(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Ty> {
        let index = cursor.index()?;
        self.type_at(cursor.pos(), index, depth + 1)
    }

    fn string(&self, cursor: &mut Cursor<'_>) -> Result<Bytes> {
        Ok(self.program.slice(self.container.string(cursor)?))
    }

    fn builtin_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        Ok(match cursor.varint()? {
            0 => Attribute::Array(self.children(cursor, depth)?),
            1 => self.dictionary(cursor, depth)?,
            2 => Attribute::String(self.string(cursor)?),
            3 => {
                let string = self.string(cursor)?;
                cursor.index()?;
                Attribute::String(string)
            }
            4 => Attribute::Symbol(self.child_text(cursor, depth)?),
            5 => {
                let mut name = self.child_text(cursor, depth)?;
                for nested in self.children(cursor, depth)? {
                    if let Attribute::Symbol(nested) = nested {
                        name = format!("{name}::@{nested}");
                    }
                }
                Attribute::Symbol(name)
            }
            6 => Attribute::Type(self.child_type(cursor, depth)?.into_type()),
            7 => Attribute::Unit,
            8 => self.integer(cursor, depth)?,
            9 => self.float(cursor, depth)?,
            10 | 11 | 12 | 13 | 14 | 15 | 22 => {
                // The attribute is a location. The IR does not keep the fields of locations that occur in attributes.
                cursor.take(cursor.remaining())?;
                Attribute::Other("loc(unknown)".to_owned())
            }
            16 => self.dense_resource(cursor, depth)?,
            17 => self.dense_array(cursor, depth)?,
            18 => self.dense(cursor, depth)?,
            21 => self.child(cursor, depth)?,
            code => return Err(self.unknown(cursor, "builtin attribute", code)),
        })
    }

    /// Creates the error for an unknown `code`, which a newer producer may have written. `what` names the kind of code.
    pub(super) fn unknown(&self, cursor: &Cursor<'_>, what: &str, code: u64) -> Error {
        cursor.error(format_args!("unknown {what} code {code} in an artifact of {}", self.container.producer))
    }

    fn dictionary(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let entries: Attributes =
            cursor.list(|cursor| Ok((self.child_text(cursor, depth)?, self.child(cursor, depth)?)))?;
        Ok(Attribute::Dictionary(entries))
    }

    fn integer(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let ty = self.child_type(cursor, depth)?;
        let (width, element) = match &ty {
            Ty::Element(element) if element.is_integer() || *element == ElementType::Bool => {
                (element.bit_width(), Some(*element))
            }
            Ty::Value(Type::Other(text)) => {
                let width = text.trim_start_matches(['s', 'u', 'i']).parse().ok();
                (width.ok_or_else(|| cursor.error(format_args!("an integer of type {text}")))?, None)
            }
            other => return Err(cursor.error(format_args!("an integer of type {}", other.clone().into_type()))),
        };
        let value = cursor.int_of_width(width)?;
        Ok(match element {
            Some(ElementType::Bool) => Attribute::Bool(value & 1 == 1),
            Some(element) if element.is_unsigned_integer() && width < 64 => {
                Attribute::Integer(value & ((1 << width) - 1), element)
            }
            // An integer of fewer than 64 bits is sign-extended.
            Some(element) if width < 64 => Attribute::Integer(value << (64 - width) >> (64 - width), element),
            Some(element) => Attribute::Integer(value, element),
            // No [`ElementType`] has this width, so the IR keeps the attribute as text.
            None => Attribute::Other(format!("{value} : {}", ty.into_type())),
        })
    }

    fn float(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let Ty::Element(element) = self.child_type(cursor, depth)? else {
            return Err(cursor.error("a float of a type that is not one"));
        };
        if !element.is_float() {
            return Err(cursor.error(format_args!("a float of type {element}")));
        }
        let bits = cursor.int_of_width(element.bit_width())?.cast_unsigned();
        let width = element.bit_width();
        let bits = if width < 64 { bits & ((1 << width) - 1) } else { bits };
        Ok(float_attribute(bits, element))
    }

    /// Reads the tensor type of a dense constant. The inner `Err` holds the text of a type that [`TensorType`] cannot
    /// represent.
    fn tensor_type(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Result<TensorType, String>> {
        Ok(match self.child_type(cursor, depth)?.into_type() {
            Type::Tensor(tensor) => Ok(tensor),
            other => Err(other.to_string()),
        })
    }

    /// Reads a dense constant. Its data is a slice of the program. Elements narrower than a byte are unpacked into a
    /// copy.
    fn dense(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let ty = self.tensor_type(cursor, depth)?;
        let offset = cursor.pos();
        let raw = self.program.slice(cursor.blob()?);
        self.literal(offset, ty, raw)
    }

    fn literal(&mut self, offset: usize, ty: Result<TensorType, String>, raw: Bytes) -> Result<Attribute> {
        match ty {
            Ok(ty) => {
                let literal = Literal::from_raw(ty, raw).map_err(|e| e.with_offset(offset))?;
                // Elements narrower than a byte are unpacked into a copy. A file can refer to one resource many times,
                // so charge for the copy.
                if literal.ty.element.bit_width() < 8 {
                    self.charge(offset, literal.data.len())?;
                }
                Ok(Attribute::Tensor(literal))
            }
            Err(text) => Ok(Attribute::Other(format!("dense<...> : {text}"))),
        }
    }

    fn dense_resource(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let ty = self.tensor_type(cursor, depth)?;
        let index = cursor.index()?;
        match self.container.resources.get(index).cloned() {
            Some(Resource::Blob(range)) => {
                let offset = range.start;
                let raw = self.program.slice(range);
                self.literal(offset, ty, raw)
            }
            _ => Err(cursor.error(format_args!("resource {index} does not exist or is not a blob"))),
        }
    }

    fn dense_array(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let ty = self.child_type(cursor, depth)?;
        let count = cursor.varint()?;
        let offset = cursor.pos();
        let raw = self.program.slice(cursor.blob()?);
        let Ty::Element(element) = ty else { return Err(cursor.error("an array of a type that is not a number")) };
        let count = i64::try_from(count).map_err(|_| cursor.error("an array too long"))?;
        if usize::try_from(count).ok().and_then(|n| n.checked_mul(element.byte_size())) != Some(raw.len()) {
            return Err(Error::at(
                ErrorKind::Encoding,
                offset,
                format_args!("an array of {count} {element} holds {} bytes", raw.len()),
            ));
        }
        // Dense arrays are not packed. Every boolean takes one byte.
        let literal = Literal::new(TensorType::new([count], element), raw).map_err(|e| e.with_offset(offset))?;
        Ok(Attribute::DenseArray(literal))
    }

    fn vhlo_attribute(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Attribute> {
        let code = cursor.varint()?;
        if let Some((_, family, words)) = ENUMERATIONS.iter().find(|(known, ..)| *known == code) {
            let value = cursor.index()?;
            let word = words.split(' ').nth(value);
            let word = word.ok_or_else(|| cursor.error(format_args!("unknown {family} {value}")))?;
            return Ok(enumeration(family, word));
        }
        Ok(match code {
            1 => Attribute::Array(self.children(cursor, depth)?),
            2 => Attribute::Bool(cursor.varint()? != 0),
            5 => Attribute::Integer(i64::try_from(cursor.varint()?).unwrap_or(-1), ElementType::I32),
            6 => self.dictionary(cursor, depth)?,
            8 => self.float(cursor, depth)?,
            9 => self.integer(cursor, depth)?,
            14 => Attribute::String(self.string(cursor)?),
            15 => self.dense(cursor, depth)?,
            17 => Attribute::Type(self.child_type(cursor, depth)?.into_type()),
            code => {
                let mut text = String::new();
                self.vhlo_text(&mut text, cursor, depth, code)?;
                Attribute::Other(text)
            }
        })
    }

    /// Reads the fields of the VHLO attribute with this code, and appends its MLIR text. The IR keeps such an attribute
    /// as text.
    fn vhlo_text(&mut self, out: &mut String, cursor: &mut Cursor<'_>, depth: usize, code: u64) -> Result<()> {
        let pattern = match code {
            10 => {
                "#stablehlo.output_operand_alias<output_tuple_indices = [%I], operand_index = %i, \
                 operand_tuple_indices = [%I]>"
            }
            18 => "#stablehlo.bounds<%B>",
            20 => {
                let (atol, rtol) = (cursor.svarint()?.cast_unsigned(), cursor.svarint()?.cast_unsigned());
                let ulps = cursor.svarint()?;
                let Attribute::Other(mode) = self.child(cursor, depth)? else {
                    return Err(cursor.error("a result accuracy without a mode"));
                };
                let mode = mode.trim_end_matches('>').rsplit(' ').next().unwrap_or_default();
                out.push_str("#stablehlo.result_accuracy<");
                for (name, bits) in [("atol", atol), ("rtol", rtol)] {
                    if bits != 0 {
                        append(out, format_args!("{name} = {}, ", float_text(bits, ElementType::F64)));
                    }
                }
                if ulps != 0 {
                    append(out, format_args!("ulps = {ulps}, "));
                }
                append(out, format_args!("mode = #stablehlo.result_accuracy_mode<{mode}>>"));
                ""
            }
            21 => "(%i)%i",
            22 => {
                self.fill(out, "#stablehlo.axis_ref<name = %q", cursor, depth)?;
                if cursor.varint()? != 0 { ", sub_axis_info = %o>" } else { ">" }
            }
            23 => {
                out.push_str("#stablehlo.replica_group_mesh_axes<mesh = ");
                match self.child(cursor, depth)? {
                    Attribute::String(name) => append(out, format_args!("@{}", String::from_utf8_lossy(&name))),
                    Attribute::Symbol(name) => append(out, format_args!("@{name}")),
                    Attribute::Other(text) => out.push_str(&text),
                    _ => return Err(cursor.error("expected a mesh")),
                }
                ", axes = [%x]>"
            }
            24 => "#stablehlo.mesh_axis<name = %q, size = %i>",
            25 => {
                self.fill(out, "#stablehlo.mesh<axes = [%x]", cursor, depth)?;
                let (index, present) = cursor.flagged()?;
                if present {
                    let index = usize::try_from(index).map_err(|_| cursor.error("attribute index out of range"))?;
                    let devices = self.child_at(cursor, index, depth)?;
                    append(out, format_args!(", device_ids = {}", attribute_text(&devices)));
                }
                ">"
            }
            code => return Err(self.unknown(cursor, "vhlo attribute", code)),
        };
        self.fill(out, pattern, cursor, depth)
    }
}

/// The enumerations. Each row contains the code of the attribute, the name of the enumeration, and the keywords of the
/// values in ascending order, starting at the value 0.
const ENUMERATIONS: &[(u64, &str, &str)] = &[
    (3, "comparison_direction", "EQ NE GE GT LE LT"),
    (4, "comparison_type", "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED WEAKORDER"),
    (7, "fft_type", "FFT IFFT RFFT IRFFT"),
    (11, "precision", "DEFAULT HIGH HIGHEST"),
    (12, "rng_algorithm", "DEFAULT THREE_FRY PHILOX"),
    // The value 0 of this enumeration has no name, so the first keyword is empty.
    (13, "rng_distribution", " UNIFORM NORMAL"),
    (16, "transpose", "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT"),
    (19, "result_accuracy_mode", "DEFAULT HIGHEST TOLERANCE"),
];
