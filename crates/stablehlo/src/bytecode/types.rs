//! Decodes the type table.

use std::sync::Arc;

use bytes::Bytes;

use super::container::Dialect;
use super::cursor::Cursor;
use super::entries::{MAX_DEPTH, Tables};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, DYNAMIC, ElementType, TensorType, Type};
use crate::print::float_text;
use crate::types::{Ty, cloned_types};

/// Returns the text of each type in an artifact's type table. Omits types that this crate cannot read.
pub(crate) fn type_texts(program: &Bytes) -> Vec<String> {
    let Ok(mut tables) = Tables::new(program) else { return Vec::new() };
    (0..tables.types.len())
        .filter_map(|index| Some(tables.type_at(0, index, 0).ok()?.into_type().to_string()))
        .collect()
}

impl Tables<'_> {
    /// Returns a copy of a type. Decodes the type if necessary, and charges the budget for the copy.
    pub(super) fn type_at(&mut self, offset: usize, index: usize, depth: usize) -> Result<Ty> {
        self.load_type(offset, index, depth)?;
        match (self.types.get(index), self.value_types.get(index)) {
            (Some(Some((ty, _))), _) => Ok(ty.clone()),
            (_, Some(Some(value))) => Ok(Ty::Value((**value.shared()).clone())),
            _ => Err(self.missing_type(offset, index)),
        }
    }

    /// Returns a type like [`Self::type_at`], behind an `Arc`. If values have this type, the `Arc` is theirs.
    fn shared_type_at(&mut self, offset: usize, index: usize, depth: usize) -> Result<Arc<Type>> {
        self.load_type(offset, index, depth)?;
        match (self.types.get(index), self.value_types.get(index)) {
            (Some(Some((ty, _))), _) => Ok(Arc::new(ty.clone().into_type())),
            (_, Some(Some(value))) => Ok(value.shared().clone()),
            _ => Err(self.missing_type(offset, index)),
        }
    }

    #[cold]
    pub(super) fn missing_type(&self, offset: usize, index: usize) -> Error {
        Error::at(
            ErrorKind::Reference,
            offset,
            format_args!("type {index} does not exist; the program has {}", self.types.len()),
        )
    }

    /// Decodes a type if necessary, and charges the budget for one copy of it.
    pub(super) fn load_type(&mut self, offset: usize, index: usize, depth: usize) -> Result<()> {
        if let Some(weight) = self.type_weight(index) {
            return self.charge(offset, weight);
        }
        let Some(entry) = self.container.types.get(index).cloned() else {
            return Err(self.missing_type(offset, index));
        };
        if depth > MAX_DEPTH {
            return Err(Error::at(
                ErrorKind::Limit,
                entry.range.start,
                format_args!("types nest deeper than {MAX_DEPTH}"),
            ));
        }
        let mut cursor = Cursor::new(self.container.file, entry.range.clone());
        let ty = if entry.encoded {
            let ty = match entry.dialect {
                Dialect::Builtin => self.builtin_type(&mut cursor, depth)?,
                Dialect::Vhlo => self.vhlo_type(&mut cursor, depth)?,
                Dialect::Stablehlo => match cursor.varint()? {
                    0 => Ty::Value(Type::Token),
                    code => return Err(self.unknown(&cursor, "stablehlo type", code)),
                },
                Dialect::Shardy | Dialect::Other => {
                    return Err(cursor.error("a type of a dialect other than vhlo, stablehlo and builtin"));
                }
            };
            if !cursor.is_empty() {
                return Err(cursor.error(format_args!("{} bytes left over in a type", cursor.remaining())));
            }
            ty
        } else {
            let text = self.assembly(entry.range);
            match ElementType::from_name(&text) {
                Some(element) => Ty::Element(element),
                None if text == "!stablehlo.token" => Ty::Value(Type::Token),
                // Keep the text of any other type. The verifier checks this text.
                None => Ty::Value(Type::Other(text)),
            }
        };
        let weight = ty.weight();
        self.charge(cursor.pos(), 2 * weight)?;
        self.types[index] = Some((ty, weight));
        Ok(())
    }

    fn types(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Type>> {
        Ok(cloned_types(&self.shared_types(cursor, depth)?))
    }

    fn shared_types(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Arc<Type>>> {
        cursor.list(|cursor| {
            let index = cursor.index()?;
            self.shared_type_at(cursor.pos(), index, depth + 1)
        })
    }

    fn function(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Ty> {
        Ok(Ty::Function(self.shared_types(cursor, depth)?, self.shared_types(cursor, depth)?))
    }

    fn complex(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Ty> {
        Ok(match self.child_type(cursor, depth)? {
            Ty::Element(ElementType::F32) => Ty::Element(ElementType::ComplexF32),
            Ty::Element(ElementType::F64) => Ty::Element(ElementType::ComplexF64),
            other => Ty::Value(Type::Other(format!("complex<{}>", other.into_type()))),
        })
    }

    /// Reads a tensor type. The IR keeps the type as text if the element type is not an [`ElementType`], or if the
    /// tensor has an encoding.
    fn tensor(&mut self, cursor: &mut Cursor<'_>, depth: usize, encoding: Option<String>) -> Result<Ty> {
        let shape = cursor.list(Cursor::svarint)?;
        let element = self.child_type(cursor, depth)?;
        if let (Ty::Element(element), None) = (&element, &encoding) {
            return Ok(Ty::Value(Type::Tensor(TensorType { shape, element: *element })));
        }
        if matches!(element, Ty::Value(Type::Tensor(_) | Type::Token | Type::Tuple(_)) | Ty::Function(..)) {
            return Err(cursor.error(format_args!("a tensor of {}", element.into_type())));
        }
        if let Some(extent) = shape.iter().find(|&&extent| extent < 0 && extent != DYNAMIC) {
            return Err(cursor.error(format_args!("a tensor with the extent {extent}")));
        }
        let mut text = String::from("tensor<");
        for extent in shape {
            text.push_str(&if extent == DYNAMIC { "?x".to_owned() } else { format!("{extent}x") });
        }
        text.push_str(&element.into_type().to_string());
        if let Some(encoding) = encoding {
            text.push_str(", ");
            text.push_str(&encoding);
        }
        text.push('>');
        Ok(Ty::Value(Type::Other(text)))
    }

    fn encoding(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Option<String>> {
        Ok(Some(match self.child(cursor, depth)? {
            Attribute::Other(text) => text,
            Attribute::String(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes)),
            _ => "#unknown".to_owned(),
        }))
    }

    fn builtin_type(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Ty> {
        use ElementType as E;
        Ok(match cursor.varint()? {
            0 => {
                let raw = cursor.varint()?;
                let (width, sign) = (raw >> 2, if raw & 3 == 2 { "ui" } else { "i" });
                let name = format!("{sign}{width}");
                ElementType::from_name(&name).map_or(Ty::Value(Type::Other(name)), Ty::Element)
            }
            1 => Ty::Element(E::Index),
            2 => self.function(cursor, depth)?,
            3 => Ty::Element(E::Bf16),
            4 => Ty::Element(E::F16),
            5 => Ty::Element(E::F32),
            6 => Ty::Element(E::F64),
            9 => self.complex(cursor, depth)?,
            12 => Ty::Value(Type::Other("none".to_owned())),
            13 => self.tensor(cursor, depth, None)?,
            14 => {
                let encoding = self.encoding(cursor, depth)?;
                self.tensor(cursor, depth, encoding)?
            }
            15 => Ty::Value(Type::Tuple(self.types(cursor, depth)?)),
            18 => Ty::Value(Type::Other(format!("tensor<*x{}>", self.child_type(cursor, depth)?.into_type()))),
            code => return Err(self.unknown(cursor, "builtin type", code)),
        })
    }

    fn vhlo_type(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Ty> {
        use ElementType as E;
        Ok(match cursor.varint()? {
            0 => Ty::Element(E::Bool),
            1 => self.complex(cursor, depth)?,
            2 => Ty::Element(E::Bf16),
            3 => Ty::Element(E::F16),
            4 => Ty::Element(E::F32),
            5 => Ty::Element(E::F64),
            6 => Ty::Element(E::F8E4M3FN),
            7 => Ty::Element(E::F8E5M2),
            8 => self.function(cursor, depth)?,
            9 => Ty::Element(E::Index),
            10 => Ty::Element(E::I4),
            11 => Ty::Element(E::I8),
            12 => Ty::Element(E::I16),
            13 => Ty::Element(E::I32),
            14 => Ty::Element(E::I64),
            15 => Ty::Element(E::Ui4),
            16 => Ty::Element(E::Ui8),
            17 => Ty::Element(E::Ui16),
            18 => Ty::Element(E::Ui32),
            19 => Ty::Element(E::Ui64),
            20 => self.tensor(cursor, depth, None)?,
            21 => {
                let encoding = self.encoding(cursor, depth)?;
                self.tensor(cursor, depth, encoding)?
            }
            22 => Ty::Value(Type::Token),
            23 => Ty::Value(Type::Tuple(self.types(cursor, depth)?)),
            24 => self.quantized(cursor, depth, false)?,
            25 => Ty::Value(Type::Other(format!("tensor<*x{}>", self.child_type(cursor, depth)?.into_type()))),
            26 => Ty::Value(Type::Other("!shape.witness".to_owned())),
            27 => Ty::Element(E::F8E4M3FNUZ),
            28 => Ty::Element(E::F8E5M2FNUZ),
            29 => Ty::Element(E::F8E4M3B11FNUZ),
            30 => self.quantized(cursor, depth, true)?,
            31 => Ty::Element(E::I2),
            32 => Ty::Element(E::Ui2),
            33 => Ty::Value(Type::Other("none".to_owned())),
            34 => Ty::Element(E::Tf32),
            35 => Ty::Element(E::F8E4M3),
            36 => Ty::Element(E::F8E3M4),
            37 => Ty::Element(E::F4E2M1FN),
            38 => Ty::Element(E::F6E2M3FN),
            39 => Ty::Element(E::F6E3M2FN),
            40 => Ty::Element(E::F8E8M0FNU),
            41 => {
                let Ty::Value(tensor) = self.tensor(cursor, depth, None)? else {
                    return Err(cursor.error("a buffer type without a shape"));
                };
                Ty::Value(Type::Other(tensor.to_string().replacen("tensor<", "memref<", 1)))
            }
            42 => {
                let mut text = String::from("!stablehlo.future<");
                let _ = crate::ir::write_list(&mut text, &self.types(cursor, depth)?);
                text.push('>');
                Ty::Value(Type::Other(text))
            }
            code => return Err(self.unknown(cursor, "vhlo type", code)),
        })
    }

    fn quantized(&mut self, cursor: &mut Cursor<'_>, depth: usize, per_axis: bool) -> Result<Ty> {
        // The only defined flag indicates that the storage type is signed.
        let signed = cursor.varint()? & 1 == 1;
        let storage = self.child_type(cursor, depth)?.into_type().to_string();
        let width = storage.trim_start_matches(['u', 'i']).parse::<u32>().unwrap_or(64).clamp(1, 63);
        let storage = format!("{}{width}", if signed { "i" } else { "u" });
        let all = if signed { (-1i64 << (width - 1), i64::MAX >> (64 - width)) } else { (0, i64::MAX >> (63 - width)) };
        let range = |min: i64, max: i64| if (min, max) == all { String::new() } else { format!("<{min}:{max}>") };
        let step = |scale: f64, zero: i64| {
            let scale = float_text(scale.to_bits(), ElementType::F64);
            if zero == 0 { scale } else { format!("{scale}:{zero}") }
        };
        let expressed = self.child_type(cursor, depth)?.into_type();
        let f64_of = |cursor: &mut Cursor<'_>| Ok(f64::from_bits(cursor.svarint()?.cast_unsigned()));
        let text = if per_axis {
            let dimension = cursor.varint()?;
            let (min, max) = (cursor.svarint()?, cursor.svarint()?);
            let scales = cursor.list(f64_of)?;
            let zeros = cursor.list(Cursor::svarint)?;
            let steps: Vec<_> = scales.iter().zip(&zeros).map(|(&scale, &zero)| step(scale, zero)).collect();
            format!("!quant.uniform<{storage}{}:{expressed}:{dimension}, {{{}}}>", range(min, max), steps.join(","))
        } else {
            let scale = f64_of(cursor)?;
            let zero = cursor.svarint()?;
            let (min, max) = (cursor.svarint()?, cursor.svarint()?);
            format!("!quant.uniform<{storage}{}:{expressed}, {}>", range(min, max), step(scale, zero))
        };
        Ok(Ty::Value(Type::Other(text)))
    }
}
