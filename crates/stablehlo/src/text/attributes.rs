//! Parses attributes and locations.

use super::dense::{float_bits, integer_bits};
use super::parser::{Parser, parse_integer};
use crate::attributes::{float_attribute, weight};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes, ElementType, Literal, Location, LocationId, TensorType};
use crate::types::Ty;

impl<'a> Parser<'a> {
    /// Parses an attribute.
    pub(super) fn attribute(&mut self) -> Result<Attribute> {
        self.enter()?;
        let attribute = match self.peek() {
            b'"' => self.string_attribute(),
            b'[' => self.list("[", "]", Self::attribute).map(Attribute::Array),
            b'{' => self.dictionary().map(Attribute::Dictionary),
            b'@' => self.symbol().map(Attribute::Symbol),
            b'#' => self.hash_attribute(),
            b'!' | b'(' => self.ty().map(|ty| Attribute::Type(ty.into_type())),
            b'-' | b'0'..=b'9' => self.number_attribute(),
            _ => self.word_attribute(),
        };
        self.leave();
        attribute
    }

    /// Parses the parser's whole text as an attribute. Rejects any text after the attribute, even white space.
    pub(super) fn whole_attribute(mut self) -> Result<Attribute> {
        let attribute = self.attribute()?;
        if self.pos == self.text.len() { Ok(attribute) } else { Err(self.expected("the end of the attribute")) }
    }

    fn string_attribute(&mut self) -> Result<Attribute> {
        let string = self.string()?;
        if self.peek() == b':' && !self.looking_at("::") {
            self.pos += 1;
            self.ty()?;
        }
        Ok(Attribute::String(string))
    }

    fn word_attribute(&mut self) -> Result<Attribute> {
        let start = self.pos;
        let word = self.word();
        match word {
            "true" | "false" => {
                self.pos += word.len();
                Ok(Attribute::Bool(word == "true"))
            }
            "unit" => {
                self.pos += word.len();
                Ok(Attribute::Unit)
            }
            "dense" => self.dense(),
            "dense_resource" => self.dense_resource(),
            "array" => self.array(),
            "loc" => {
                self.location()?;
                Ok(Attribute::Other("loc(unknown)".to_owned()))
            }
            "affine_map" | "affine_set" | "sparse" | "strided" | "opaque" | "distinct" => {
                self.pos += word.len();
                if self.peek() != b'<' {
                    return Err(self.expected("`<`"));
                }
                self.angle_body()?;
                if self.eat(":") {
                    self.ty()?;
                }
                Ok(Attribute::Other(self.text[start..self.pos].to_owned()))
            }
            "" => Err(self.expected("an attribute")),
            _ => Ok(Attribute::Type(self.ty()?.into_type())),
        }
    }

    /// Parses `#alias`, `#dialect<...>` or `#dialect.name<...>`.
    fn hash_attribute(&mut self) -> Result<Attribute> {
        let start = self.pos;
        let name = self.sigil(b'#', "an attribute")?;
        if self.here() == b'<' {
            return match name.strip_prefix("stablehlo.") {
                Some(name) => self.structured_attribute(name),
                None => {
                    self.angle_body()?;
                    Ok(Attribute::Other(self.text[start..self.pos].to_owned()))
                }
            };
        }
        let Some(attribute) = self.attribute_aliases.get(name) else {
            return Ok(Attribute::Other(self.text[start..self.pos].to_owned()));
        };
        self.budget.charge(weight(attribute)).map_err(|e| e.with_offset(start))?;
        Ok(attribute.clone())
    }

    fn number_attribute(&mut self) -> Result<Attribute> {
        let start = self.pos;
        let text = self.number()?;
        let ty = if self.eat(":") { Some(self.ty()?) } else { None };
        let wrong = || Error::at(ErrorKind::Syntax, start, format_args!("`{text}` is out of range"));
        let element = match &ty {
            Some(Ty::Element(element)) => Some(*element),
            _ => None,
        };
        if element.is_some_and(ElementType::is_float) || text.contains('.') {
            let element = element.unwrap_or(ElementType::F64);
            let bits = if element.is_float() { float_bits(text, element) } else { None };
            return Ok(float_attribute(bits.ok_or_else(wrong)?, element));
        }
        let value = parse_integer(text).ok_or_else(wrong)?;
        match (element, ty) {
            (Some(ElementType::Bool), _) if (-1..=1).contains(&value) => Ok(Attribute::Bool(value != 0)),
            (Some(element), _) => {
                let bits = integer_bits(text, element).ok_or_else(wrong)?;
                Ok(Attribute::Integer(bits.cast_signed(), element))
            }
            (None, None) => Ok(Attribute::Integer(value, ElementType::I64)),
            // No [`ElementType`] has this width, so the IR keeps the attribute as text.
            (None, Some(ty)) => Ok(Attribute::Other(format!("{text} : {}", ty.into_type()))),
        }
    }

    /// Parses `array<i64: 1, 2>`.
    fn array(&mut self) -> Result<Attribute> {
        let start = self.pos;
        self.keyword("array");
        self.expect("<")?;
        let Ty::Element(element) = self.ty()? else {
            return Err(self.error("an array must hold numbers"));
        };
        let mut data = Vec::new();
        let mut count = 0;
        if self.eat(":") {
            loop {
                self.scalar(element, &mut data)?;
                count += 1;
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.expect(">")?;
        let literal = Literal::new(TensorType::new([count], element), data).map_err(|e| e.with_offset(start))?;
        Ok(Attribute::DenseArray(literal))
    }

    /// Parses `{name = attribute, unit}`.
    pub(super) fn dictionary(&mut self) -> Result<Attributes> {
        self.list("{", "}", Self::entry)
    }

    fn entry(&mut self) -> Result<(String, Attribute)> {
        let name = if self.peek() == b'"' {
            String::from_utf8_lossy(&self.string()?).into_owned()
        } else {
            self.ident("an attribute name")?.to_owned()
        };
        let value = if self.eat("=") { self.attribute()? } else { Attribute::Unit };
        Ok((name, value))
    }

    /// Parses a dictionary `{...}` if it comes next. Otherwise returns an empty dictionary.
    pub(super) fn optional_dictionary(&mut self) -> Result<Attributes> {
        if self.peek() == b'{' { self.dictionary() } else { Ok(Attributes::new()) }
    }

    /// Parses `name = attribute, ...` up to the end of the parser's text, which is the body of a structured attribute.
    pub(super) fn fields(&mut self) -> Result<Attributes> {
        let mut fields = Attributes::new();
        while !self.at_end() {
            let name = self.ident("a field name")?.to_owned();
            let value = if !self.eat("=") {
                Attribute::Unit
            } else if self.peek() == b'<' {
                Attribute::Other(self.angle_body()?.to_owned())
            } else {
                self.attribute()?
            };
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(self.error(format_args!("field `{name}` is given twice")));
            }
            fields.push((name, value));
            if !self.eat(",") && !self.at_end() {
                return Err(self.expected("`,`"));
            }
        }
        Ok(fields)
    }

    /// Parses a colon and a tensor type. The inner `Err` holds the text of a type that [`TensorType`] cannot represent.
    pub(super) fn constant_type(&mut self) -> Result<Result<TensorType, String>> {
        self.expect(":")?;
        Ok(match self.ty()?.into_type() {
            crate::ir::Type::Tensor(tensor) => Ok(tensor),
            other => Err(other.to_string()),
        })
    }

    /// Parses a trailing `loc(...)` if it comes next.
    pub(super) fn optional_location(&mut self) -> Result<Option<LocationId>> {
        if self.word() == "loc" { self.location().map(Some) } else { Ok(None) }
    }

    /// Parses `loc(...)`.
    pub(super) fn location(&mut self) -> Result<LocationId> {
        if !self.keyword("loc") {
            return Err(self.expected("`loc`"));
        }
        self.expect("(")?;
        let id = self.location_body()?;
        self.expect(")")?;
        Ok(id)
    }

    fn location_body(&mut self) -> Result<LocationId> {
        self.enter()?;
        let id = match self.peek() {
            b'#' => {
                let name = self.sigil(b'#', "a location alias")?;
                self.location_alias(name)
            }
            b'"' => self.named_location(),
            _ => self.word_location(),
        };
        self.leave();
        id
    }

    /// Returns the location id of an alias. The alias may be defined later in the text, so the first use reserves an
    /// id.
    pub(super) fn location_alias(&mut self, name: &'a str) -> Result<LocationId> {
        if let Some(&id) = self.location_aliases.get(name) {
            return Ok(id);
        }
        let id = self.add_location(Location::Unknown)?;
        self.location_aliases.insert(name, id);
        Ok(id)
    }

    fn named_location(&mut self) -> Result<LocationId> {
        let name = String::from_utf8_lossy(&self.string()?).into_owned();
        if self.eat("(") {
            let child = self.location_body()?;
            self.expect(")")?;
            return self.add_location(Location::Name(name, child));
        }
        if !self.eat(":") {
            return self.add_location(Location::Name(name, LocationId(0)));
        }
        let line = self.position()?;
        let column = if self.eat(":") { self.position()? } else { 0 };
        if self.keyword("to") {
            if self.at_number() {
                self.position()?;
            }
            if self.eat(":") {
                self.position()?;
            }
        }
        self.add_location(Location::File { file: name, line, column })
    }

    fn position(&mut self) -> Result<u64> {
        let value = self.integer()?;
        u64::try_from(value).map_err(|_| self.error("lines and columns are not negative"))
    }

    fn word_location(&mut self) -> Result<LocationId> {
        if self.keyword("unknown") {
            return Ok(LocationId(0));
        }
        if self.keyword("callsite") {
            self.expect("(")?;
            let callee = self.location_body()?;
            if !self.keyword("at") {
                return Err(self.expected("`at`"));
            }
            let caller = self.location_body()?;
            self.expect(")")?;
            return self.add_location(Location::CallSite(callee, caller));
        }
        if self.keyword("fused") {
            if self.peek() == b'<' {
                self.angle_body()?;
            }
            let places = self.list("[", "]", Self::location_body)?;
            return self.add_location(Location::Fused(places));
        }
        if self.word() == "loc" {
            return self.location();
        }
        Err(self.expected("a location"))
    }
}
