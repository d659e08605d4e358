//! Parses types.

use std::sync::Arc;

use smallvec::SmallVec;

use super::parser::Parser;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{DYNAMIC, ElementType, TensorType, Type};
use crate::types::Ty;

/// Normalizes the text of a tensor type with an encoding or quantized elements, so that equal types have equal texts.
/// Bounds get their short form, and fractional numbers get MLIR's printed form. One space follows each comma, except in
/// a list of per-axis scales.
fn canonical_type(text: &str) -> String {
    let text = text.replace("#stablehlo.type_extensions<bounds = [", "#stablehlo.bounds<").replace("]>>", ">>");
    let mut canonical = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let (mut depth, mut per_axis) = (0usize, false);
    while let Some(next) = rest.chars().next() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        if number > 0 {
            let (mut digits, mut after) = rest.split_at(number);
            let exponent = after.strip_prefix(['e', 'E']).map(|tail| tail.strip_prefix(['+', '-']).unwrap_or(tail));
            if let Some(tail) =
                exponent.filter(|tail| digits.contains('.') && tail.starts_with(|c: char| c.is_ascii_digit()))
            {
                let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
                digits = &rest[..rest.len() - tail.len() + end];
                after = &tail[end..];
            }
            match digits.parse::<f64>() {
                Ok(value) if digits.contains('.') => {
                    canonical.push_str(&crate::print::float_text(value.to_bits(), ElementType::F64));
                }
                _ => canonical.push_str(digits),
            }
            rest = after;
            continue;
        }
        rest = &rest[next.len_utf8()..];
        match next {
            '{' => {
                depth += 1;
                // Blockwise scales are nested one level deeper. MLIR prints spaces in those lists.
                per_axis = depth == 1 && canonical.ends_with(", ") && !rest.trim_start().starts_with('{');
            }
            '}' => {
                depth = depth.saturating_sub(1);
                per_axis = false;
            }
            _ => {}
        }
        if !next.is_whitespace() {
            canonical.push(next);
        }
        if next == ',' && !per_axis {
            canonical.push(' ');
        }
    }
    canonical
}

/// Types of an op's operands or results.
pub(super) type TypeList = SmallVec<[Arc<Type>; 4]>;

impl<'a> Parser<'a> {
    /// Parses the type of a value. Programs often repeat the same types, so the text is first looked up in a cache.
    pub(super) fn value_type(&mut self) -> Result<Arc<Type>> {
        self.ws();
        let start = self.pos;
        let plain = self.plain_type();
        if let Some(ty) = self.types.get(plain) {
            self.pos += plain.len();
            return Ok(ty.clone());
        }
        match self.ty()? {
            Ty::Value(ty) => {
                let ty = Arc::new(ty);
                if !plain.is_empty() && self.pos == start + plain.len() {
                    self.types.insert(plain, ty.clone());
                }
                Ok(ty)
            }
            other => {
                self.pos = start;
                Err(self.error(format_args!("{} is not the type of a value", other.into_type())))
            }
        }
    }

    /// Returns the text of a tensor type that contains no alias, so that its meaning depends only on the text. Returns
    /// an empty string if any other type comes next, or if the text is longer than 128 bytes.
    fn plain_type(&self) -> &'a str {
        let rest = &self.bytes()[self.pos..];
        if !rest.starts_with(b"tensor<") {
            return "";
        }
        // Limit the search, because finding the end of each of many long types could take quadratic time. Long types
        // are rare.
        let mut depth = 0usize;
        for (i, byte) in rest.iter().enumerate().take(128).skip(6) {
            match byte {
                b'<' => depth += 1,
                b'>' => depth -= 1,
                b'!' | b'#' | b'"' | b'-' | b'\n' => break,
                _ => {}
            }
            if depth == 0 {
                return &self.text[self.pos..=self.pos + i];
            }
        }
        ""
    }

    /// Parses the parser's whole text as a type.
    pub(super) fn whole_type(mut self) -> Result<Ty> {
        let ty = self.ty()?;
        if self.at_end() { Ok(ty) } else { Err(self.expected("the end of the type")) }
    }

    /// Parses a type.
    pub(super) fn ty(&mut self) -> Result<Ty> {
        self.enter()?;
        let ty = match self.peek() {
            b'(' => self.function_type(),
            b'!' => self.dialect_type(),
            _ => self.named_type(),
        };
        self.leave();
        ty
    }

    fn function_type(&mut self) -> Result<Ty> {
        let (inputs, results) = self.function_types()?;
        Ok(Ty::Function(inputs.into_vec(), results.into_vec()))
    }

    /// Parses `(T) -> T`. Returns the inputs and the results.
    pub(super) fn function_types(&mut self) -> Result<(TypeList, TypeList)> {
        let inputs = self.type_list()?;
        self.expect("->")?;
        Ok((inputs, self.result_types()?))
    }

    /// Parses `(T, T)`.
    fn type_list(&mut self) -> Result<TypeList> {
        let mut types = TypeList::new();
        self.each("(", ")", |p| {
            types.push(p.value_type()?);
            Ok(())
        })?;
        Ok(types)
    }

    /// Parses `T` or `(T, T)`.
    pub(super) fn result_types(&mut self) -> Result<TypeList> {
        if self.peek() == b'(' { self.type_list() } else { Ok([self.value_type()?].into_iter().collect()) }
    }

    fn dialect_type(&mut self) -> Result<Ty> {
        let start = self.pos;
        let name = self.sigil(b'!', "a type")?;
        if self.here() == b'<' {
            let inside = self.angle_body()?;
            let tensors = || {
                inside[1..].split(", ").all(|part| part.trim_start().starts_with("tensor<") || part.starts_with('#'))
            };
            if name == "stablehlo.future" && !tensors() {
                return Err(Error::at(
                    ErrorKind::Syntax,
                    start,
                    format_args!("a future must be of tensors, not `{inside}`"),
                ));
            }
            return Ok(Ty::Value(Type::Other(self.text[start..self.pos].to_owned())));
        }
        match name {
            "stablehlo.token" | "mhlo.token" => Ok(Ty::Value(Type::Token)),
            _ => match self.type_aliases.get(name).cloned() {
                Some(ty) => {
                    self.budget.charge(ty.weight()).map_err(|e| e.with_offset(start))?;
                    Ok(ty)
                }
                None if name.starts_with("stablehlo.") => {
                    Err(Error::at(ErrorKind::Syntax, start, format_args!("unknown type `!{name}`")))
                }
                None => Ok(Ty::Value(Type::Other(format!("!{name}")))),
            },
        }
    }

    fn named_type(&mut self) -> Result<Ty> {
        let start = self.pos;
        let name = self.word();
        if name.is_empty() {
            return Err(self.expected("a type"));
        }
        self.pos += name.len();
        match name {
            "tensor" => self.tensor_type(start),
            "tuple" => Ok(Ty::Value(Type::Tuple(self.list("<", ">", |p| p.value_type().map(Arc::unwrap_or_clone))?))),
            "complex" => self.complex_type(start),
            "none" => Ok(Ty::Value(Type::Other("none".to_owned()))),
            _ if self.here() == b'<' => {
                self.angle_body()?;
                Ok(Ty::Value(Type::Other(self.text[start..self.pos].to_owned())))
            }
            _ => match ElementType::from_name(name) {
                Some(element) => Ok(Ty::Element(element)),
                // MLIR has integer types of any width, so the IR keeps a type of another width as text.
                None if name.trim_start_matches(['s', 'u', 'i']).parse::<u32>().is_ok() => {
                    Ok(Ty::Value(Type::Other(name.to_owned())))
                }
                None => {
                    self.pos = start;
                    Err(self.error(format_args!("unknown type `{name}`")))
                }
            },
        }
    }

    fn complex_type(&mut self, start: usize) -> Result<Ty> {
        self.expect("<")?;
        let part = self.ty()?;
        self.expect(">")?;
        Ok(match part {
            Ty::Element(ElementType::F32) => Ty::Element(ElementType::ComplexF32),
            Ty::Element(ElementType::F64) => Ty::Element(ElementType::ComplexF64),
            _ => Ty::Value(Type::Other(self.text[start..self.pos].to_owned())),
        })
    }

    /// Parses the rest of `tensor<2x?xf32>`. The IR keeps a type that [`TensorType`] cannot represent as text.
    fn tensor_type(&mut self, start: usize) -> Result<Ty> {
        self.expect("<")?;
        if self.eat("*x") {
            self.ty()?;
            self.expect(">")?;
            return Ok(Ty::Value(Type::Other(self.text[start..self.pos].to_owned())));
        }
        let mut shape = Vec::new();
        loop {
            let extent = match self.peek() {
                b'?' => {
                    self.pos += 1;
                    DYNAMIC
                }
                b'0'..=b'9' => self.extent()?,
                _ => break,
            };
            shape.push(extent);
            if self.here() != b'x' {
                return Err(self.expected("`x` after an extent"));
            }
            self.pos += 1;
        }
        let element = self.ty()?;
        let encoded = self.eat(",");
        if encoded {
            self.attribute()?;
        }
        self.expect(">")?;
        match element {
            Ty::Element(element) if !encoded => Ok(Ty::Value(Type::Tensor(TensorType { shape, element }))),
            _ => Ok(Ty::Value(Type::Other(canonical_type(&self.text[start..self.pos])))),
        }
    }

    /// Parses an extent. Accepts only decimal digits, because in `0x4xf32` the first `x` is a separator.
    fn extent(&mut self) -> Result<i64> {
        let rest = &self.bytes()[self.pos..];
        let length = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        let text = &self.text[self.pos..self.pos + length];
        let extent = text.parse().map_err(|_| self.error(format_args!("extent `{text}` is too large")))?;
        self.pos += length;
        Ok(extent)
    }
}
