//! Types of the VHLO dialect and of MLIR's builtin dialect.

use super::bytes::Buffer;
use super::encoder::{Dialect, Encoder};
use super::texts::{self, Quantized};
use super::versions::needs;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{ElementType, TensorType, Type, Version};
use crate::text::whole_type;
use crate::types::{Ty, cloned_types};

/// Returns the code of an element type in artifacts, and the StableHLO version that added the type.
fn element_code(element: ElementType) -> (u64, Version) {
    use ElementType::*;
    let first = Version::OLDEST;
    match element {
        Bool => (0, first),
        ComplexF32 | ComplexF64 => (1, first),
        Bf16 => (2, first),
        F16 => (3, first),
        F32 => (4, first),
        F64 => (5, first),
        F8E4M3FN => (6, first),
        F8E5M2 => (7, first),
        Index => (9, first),
        I4 => (10, first),
        I8 => (11, first),
        I16 => (12, first),
        I32 => (13, first),
        I64 => (14, first),
        Ui4 => (15, first),
        Ui8 => (16, first),
        Ui16 => (17, first),
        Ui32 => (18, first),
        Ui64 => (19, first),
        F8E4M3FNUZ => (27, Version(0, 10, 0)),
        F8E5M2FNUZ => (28, Version(0, 10, 0)),
        F8E4M3B11FNUZ => (29, Version(0, 11, 0)),
        I2 => (31, Version(1, 2, 0)),
        Ui2 => (32, Version(1, 2, 0)),
        Tf32 => (34, Version(1, 6, 0)),
        F8E4M3 => (35, Version(1, 7, 0)),
        F8E3M4 => (36, Version(1, 7, 0)),
        F4E2M1FN => (37, Version(1, 8, 0)),
        F6E2M3FN => (38, Version(1, 8, 0)),
        F6E3M2FN => (39, Version(1, 8, 0)),
        F8E8M0FNU => (40, Version(1, 8, 0)),
    }
}

impl Encoder {
    fn vhlo(&mut self, code: u64, fields: impl FnOnce(&mut Buffer)) -> usize {
        let mut buffer = self.buffer();
        buffer.varint(code);
        fields(&mut buffer);
        self.ty(Dialect::Vhlo, buffer)
    }

    pub(super) fn vhlo_element(&mut self, element: ElementType) -> Result<usize> {
        if let Some(&(_, index)) = self.elements.iter().find(|(known, _)| *known == element) {
            return Ok(index);
        }
        let (code, since) = element_code(element);
        needs(self.version, since, || format!("type {element}"))?;
        let index = match element.complex_part() {
            Some(part) => {
                let part = self.vhlo_element(part)?;
                self.vhlo(code, |b| b.size(part))
            }
            None => self.vhlo(code, |_| {}),
        };
        self.elements.push((element, index));
        Ok(index)
    }

    pub(super) fn vhlo_tensor(&mut self, shape: &[i64], element: ElementType) -> Result<usize> {
        let element = self.vhlo_element(element)?;
        Ok(self.vhlo(20, |b| {
            b.svarints(shape);
            b.size(element);
        }))
    }

    /// Adds a type of the VHLO dialect to the type table, and returns its index.
    pub(super) fn vhlo_type(&mut self, ty: &Type) -> Result<usize> {
        match ty {
            Type::Tensor(TensorType { shape, element }) => self.vhlo_tensor(shape, *element),
            Type::Token => Ok(self.vhlo(22, |_| {})),
            Type::Tuple(types) => {
                let types = self.vhlo_types(types)?;
                Ok(self.vhlo(23, |b| b.indices(&types)))
            }
            Type::Other(text) => self.vhlo_text(text),
        }
    }

    pub(super) fn vhlo_types(&mut self, types: &[Type]) -> Result<Vec<usize>> {
        types.iter().map(|ty| self.vhlo_type(ty)).collect()
    }

    fn vhlo_function_of(&mut self, inputs: &[Type], results: &[Type]) -> Result<usize> {
        let (inputs, results) = (self.vhlo_types(inputs)?, self.vhlo_types(results)?);
        Ok(self.vhlo_function(&inputs, &results))
    }

    /// Adds a function type to the type table, and returns its index. `inputs` and `results` are indices of types.
    pub(super) fn vhlo_function(&mut self, inputs: &[usize], results: &[usize]) -> usize {
        self.vhlo(8, |b| {
            b.indices(inputs);
            b.indices(results);
        })
    }

    /// Adds the type `none` to the type table, and returns its index. The type represents an absent type attribute.
    pub(super) fn vhlo_none(&mut self) -> Result<usize> {
        needs(self.version, Version(1, 6, 0), || "type none".to_owned())?;
        Ok(self.vhlo(33, |_| {}))
    }

    /// Adds a type that the IR keeps as text to the type table, and returns its index.
    fn vhlo_text(&mut self, text: &str) -> Result<usize> {
        if let Some(parts) = texts::tensor(text) {
            return self.vhlo_encoded_tensor(text, &parts);
        }
        if let Some(element) = text.strip_prefix("tensor<*x").and_then(|rest| rest.strip_suffix('>')) {
            let element = self.vhlo_text(element)?;
            return Ok(self.vhlo(25, |b| b.size(element)));
        }
        if let Some(list) = text.strip_prefix("!stablehlo.future<").and_then(|rest| rest.strip_suffix('>')) {
            needs(self.version, Version(1, 15, 0), || format!("type {text}"))?;
            let types = texts::split(list).into_iter().map(|one| self.vhlo_text(one)).collect::<Result<Vec<_>>>()?;
            return Ok(self.vhlo(42, |b| b.indices(&types)));
        }
        if text.starts_with("!quant.") {
            return self.vhlo_quantized(text);
        }
        match text {
            "none" => return self.vhlo_none(),
            "!shape.witness" => return Ok(self.vhlo(26, |_| {})),
            _ => {}
        }
        match whole_type(text) {
            Some(Ty::Element(element)) => self.vhlo_element(element),
            Some(Ty::Function(inputs, results)) => {
                self.vhlo_function_of(&cloned_types(&inputs), &cloned_types(&results))
            }
            Some(Ty::Value(ty)) if !matches!(&ty, Type::Other(other) if other == text) => self.vhlo_type(&ty),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format_args!("type {text} cannot be expressed in a portable artifact"),
            )),
        }
    }

    /// Adds a tensor type that the IR keeps as text or a buffer type to the type table, and returns its index. Examples
    /// are `tensor<2x!quant...>`, `tensor<?xf32, #stablehlo.bounds<4>>` and `memref<2xf32>`.
    fn vhlo_encoded_tensor(&mut self, text: &str, parts: &texts::Tensor<'_>) -> Result<usize> {
        let element = self.vhlo_text(parts.element)?;
        if parts.buffer {
            needs(self.version, Version(1, 13, 0), || format!("type {text}"))?;
            if parts.encoding.is_some() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format_args!("type {text} cannot be expressed in a portable artifact"),
                ));
            }
            return Ok(self.vhlo(41, |b| {
                b.svarints(&parts.shape);
                b.size(element);
            }));
        }
        let Some(encoding) = parts.encoding else {
            return Ok(self.vhlo(20, |b| {
                b.svarints(&parts.shape);
                b.size(element);
            }));
        };
        let Some(bounds) = texts::bounds(encoding) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format_args!("encoding {encoding} of a tensor cannot be expressed in a portable artifact"),
            ));
        };
        let mut extensions = Buffer::default();
        extensions.varint(18);
        extensions.svarints(&bounds);
        let extensions = self.attribute(Dialect::Vhlo, extensions);
        Ok(self.vhlo(21, |b| {
            b.size(extensions);
            b.svarints(&parts.shape);
            b.size(element);
        }))
    }

    fn vhlo_quantized(&mut self, text: &str) -> Result<usize> {
        let Some(q) = texts::quantized(text) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format_args!("type {text} cannot be expressed in a portable artifact"),
            ));
        };
        let Quantized { storage, signed, expressed, range: (min, max), axis, steps } = q;
        if axis.is_some() {
            needs(self.version, Version(0, 18, 0), || format!("type {text}"))?;
        }
        let storage = self.vhlo_element(storage)?;
        let expressed = self.vhlo_element(expressed)?;
        Ok(self.vhlo(if axis.is_some() { 30 } else { 24 }, |b| {
            b.varint(u64::from(signed));
            b.size(storage);
            b.size(expressed);
            match axis {
                Some(axis) => {
                    b.varint(axis);
                    b.svarint(min);
                    b.svarint(max);
                    b.list(steps.iter(), |b, (scale, _)| b.svarint(scale.to_bits().cast_signed()));
                    b.list(steps.iter(), |b, &(_, zero)| b.svarint(zero));
                }
                None => {
                    let (scale, zero) = steps.first().copied().unwrap_or((1.0, 0));
                    b.svarint(scale.to_bits().cast_signed());
                    b.svarint(zero);
                    b.svarint(min);
                    b.svarint(max);
                }
            }
        }))
    }

    fn builtin(&mut self, code: u64, fields: impl FnOnce(&mut Buffer)) -> usize {
        let mut buffer = self.buffer();
        buffer.varint(code);
        fields(&mut buffer);
        self.ty(Dialect::Builtin, buffer)
    }

    pub(super) fn builtin_element(&mut self, element: ElementType) -> usize {
        use ElementType as E;
        let plain = match element {
            E::Index => 1,
            E::Bf16 => 3,
            E::F16 => 4,
            E::F32 => 5,
            E::F64 => 6,
            E::ComplexF32 | E::ComplexF64 => {
                let part = self.builtin_element(if element == E::ComplexF32 { E::F32 } else { E::F64 });
                return self.builtin(9, |b| b.size(part));
            }
            _ if element.is_float() => return self.type_text(element.name()),
            _ => {
                let sign = if element.is_unsigned_integer() { 2 } else { 0 };
                return self.builtin(0, |b| b.varint(u64::from(element.bit_width()) << 2 | sign));
            }
        };
        self.builtin(plain, |_| {})
    }

    /// Adds a type of MLIR's builtin dialect to the type table, and returns its index. The writer uses such types in
    /// ops of dialects other than StableHLO.
    pub(super) fn builtin_type(&mut self, ty: &Type) -> usize {
        match ty {
            Type::Tensor(TensorType { shape, element }) => {
                let element = self.builtin_element(*element);
                self.builtin(13, |b| {
                    b.svarints(shape);
                    b.size(element);
                })
            }
            Type::Token => self.type_text("!stablehlo.token"),
            Type::Tuple(types) => {
                let types: Vec<usize> = types.iter().map(|ty| self.builtin_type(ty)).collect();
                self.builtin(15, |b| b.indices(&types))
            }
            Type::Other(text) => match ElementType::from_name(text) {
                Some(element) => self.builtin_element(element),
                None => self.type_text(text),
            },
        }
    }
}
