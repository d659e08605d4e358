//! Parses the keywords of each op's pretty form. About forty forms share the loop in [`Parser::items`].

use bytes::Bytes;

use super::canonical::convolution;
use super::ops::{GenericOp, canonical_name};
use super::parser::{Parser, parse_integer};
use super::scope::Scope;
use crate::attributes::{enumeration, int};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{
    Attribute, ChannelHandle, ComparisonDirection, ComparisonType, Dims, ElementType, FftType, ReplicaGroups,
    RngAlgorithm, RngDistribution, TransposeA,
};
use crate::ops::Opcode;
use crate::ops::fields::{
    Bits, Bool, Channel, Config, Count64, DimList, Flag, Float, Groups, IdPairs, Index, Index32, IndexOrZero, Layouts,
    List, OptionalDims, OptionalWord, ReadField, Symbol, Text, UnitFlag, Word,
};

impl<'a> Parser<'a> {
    /// Parses an op in its pretty form.
    pub(super) fn pretty_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        op.called(canonical_name(self.ident("an op")?));
        self.pretty_form(scope, op).map_err(|e| if op.regions.is_empty() { e.with_op(&op.name) } else { e })
    }

    fn pretty_form(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        match op.code {
            Opcode::While => self.while_op(scope, op),
            Opcode::Reduce => self.reduce_op(scope, op),
            Opcode::Other if op.name == "sdy.manual_computation" => self.manual_computation(scope, op),
            Opcode::Other if op.name == "chlo.scan" => self.scan_op(scope, op),
            Opcode::Composite => self.composite_op(scope, op),
            Opcode::Constant => self.constant_op(op),
            code => self.flat_form(scope, op, code),
        }
    }

    /// Parses a form without regions.
    fn flat_form(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>, code: Opcode) -> Result<()> {
        match code {
            Opcode::Compare => self.compare(scope, op)?,
            Opcode::Call | Opcode::CustomCall => self.callee(scope, op, code)?,
            Opcode::Convolution => self.convolution_op(scope, op)?,
            _ => self.items(scope, op, code)?,
        }
        let dictionary = self.optional_dictionary()?;
        op.rest.extend(dictionary);
        self.types_tail(op)
    }

    /// Parses `{attributes} dense<...> : T`, where `T` is the type of the value.
    fn constant_op(&mut self, op: &mut GenericOp<'a>) -> Result<()> {
        if self.eat("(") {
            // The general syntax of ops: `() {value = dense<...> : T} : () -> T`.
            self.expect(")")?;
            op.rest = if self.eat("<") { self.generic_properties()? } else { self.optional_dictionary()? };
            return self.types_tail(op);
        }
        op.rest = self.optional_dictionary()?;
        let value = self.attribute()?;
        op.list("value", value);
        Ok(())
    }

    /// Parses `EQ, %0, %1, FLOAT`.
    fn compare(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        let direction = self.ident("a comparison direction such as `EQ`")?;
        op.list("comparison_direction", enumeration("comparison_direction", direction));
        for _ in 0..2 {
            self.expect(",")?;
            op.operands.push(self.operand(scope)?);
        }
        if self.eat(",") {
            let compare_type = self.ident("a comparison type such as `FLOAT`")?;
            op.list("compare_type", enumeration("comparison_type", compare_type));
        }
        Ok(())
    }

    /// Parses `@name(%0, %1)`.
    fn callee(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>, code: Opcode) -> Result<()> {
        let name = self.symbol()?;
        let attribute = if code == Opcode::Call { "callee" } else { "call_target_name" };
        op.list(attribute, Attribute::String(name.into_bytes().into()));
        self.operands(scope, op)
    }

    /// Parses `(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {...}`.
    fn convolution_op(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        self.operands(scope, op)?;
        if !(self.keyword("dim_numbers") && self.eat("=")) {
            return Err(self.expected("`dim_numbers =`"));
        }
        self.ws();
        let start = self.pos;
        for part in 0..3 {
            if part == 1 {
                self.expect("x")?;
            } else if part == 2 {
                self.expect("->")?;
            }
            self.skip_brackets()?;
        }
        op.listed.extend(convolution(&self.text[start..self.pos]).map_err(|e| e.with_offset(start))?);
        self.expect(",")?;
        if !(self.keyword("window") && self.eat("=")) {
            return Err(self.expected("`window =`"));
        }
        let fields = self.list("{", "}", |p| {
            let start = p.pos;
            let name = match p.ident("a window field")? {
                "stride" => "window_strides",
                "pad" => "padding",
                "lhs_dilate" => "lhs_dilation",
                "rhs_dilate" => "rhs_dilation",
                "reverse" => "window_reversal",
                other => {
                    return Err(Error::at(ErrorKind::Syntax, start, format_args!("unknown window field `{other}`")));
                }
            };
            p.expect("=")?;
            Ok((name.to_owned(), p.attribute()?))
        })?;
        op.listed.extend(fields);
        Ok(())
    }

    fn skip_brackets(&mut self) -> Result<()> {
        self.expect("[")?;
        let rest = &self.bytes()[self.pos..];
        match rest.iter().position(|&b| b == b']') {
            Some(length) => {
                self.pos += length + 1;
                Ok(())
            }
            None => Err(self.expected("`]`")),
        }
    }

    /// Parses operands and `word = value` pairs, separated by commas. Also parses the text that follows the operand in
    /// the forms of some ops (see [`Parser::after_operand`]).
    pub(super) fn items(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>, code: Opcode) -> Result<()> {
        // Some ops of other dialects have their operands in parentheses, such as `chlo.top_k(%0, k = 2)`.
        let wrapped = self.eat("(");
        loop {
            match self.peek() {
                b'%' => {
                    op.operands.push(self.operand(scope)?);
                    self.after_operand(op, code)?;
                }
                _ if self.word() == "dense" => {
                    let value = self.attribute()?;
                    op.list("value", value);
                }
                _ if !self.word().is_empty() && self.word() != "loc" && self.word_is_key() => {
                    let start = self.pos;
                    let word = self.ident("a word")?;
                    self.expect("=")?;
                    self.item(op, code, word, start)?;
                }
                _ => break,
            }
            if !self.eat(",") {
                break;
            }
        }
        if wrapped { self.expect(")") } else { Ok(()) }
    }

    /// Returns whether the next word is followed by `=`. The next op may directly follow an op without operands and
    /// types. In that case, the next word is an op name.
    fn word_is_key(&mut self) -> bool {
        let start = self.pos;
        self.pos += self.word().len();
        let key = self.peek() == b'=';
        self.pos = start;
        key
    }

    /// Parses `[1:2]` of `slice`, `[1]` of `get_tuple_element`, or `<@mesh, [...]>` of Shardy's sharding constraint.
    fn after_operand(&mut self, op: &mut GenericOp<'a>, code: Opcode) -> Result<()> {
        match (code, self.peek()) {
            (Opcode::Slice, b'[') => {
                let bounds = self.list("[", "]", Self::slice_bounds)?;
                for (i, name) in ["start_indices", "limit_indices", "strides"].into_iter().enumerate() {
                    let list = bounds.iter().map(|b| int(b[i])).collect();
                    op.list(name, Attribute::Array(list));
                }
            }
            (Opcode::GetTupleElement, b'[') => {
                self.expect("[")?;
                let index = self.integer()?;
                self.expect("]")?;
                op.list("index", int(index));
            }
            (Opcode::Other, b'<') if op.name.starts_with("sdy.") => {
                let sharding = format!("#sdy.sharding{}", self.angle_body()?);
                op.list("sharding", Attribute::Other(sharding));
            }
            _ => {}
        }
        Ok(())
    }

    /// Parses `start:limit` or `start:limit:stride`.
    fn slice_bounds(&mut self) -> Result<[i64; 3]> {
        let start = self.integer()?;
        self.expect(":")?;
        let limit = self.integer()?;
        let stride = if self.eat(":") { self.integer()? } else { 1 };
        Ok([start, limit, stride])
    }

    /// Parses the value after `word =`, and stores it under its attribute name in portable artifacts.
    fn item(&mut self, op: &mut GenericOp<'a>, code: Opcode, word: &str, start: usize) -> Result<()> {
        if let Some((attribute, family)) = attribute_of(code, word) {
            if let Some(family) = family {
                return self.enumerated(op, attribute, family);
            }
            let value = self.bare_value()?;
            op.list(attribute, value);
            return Ok(());
        }
        let name = match (word, code) {
            ("batching_dims", _) => return self.crossed(op, "batching_dimensions"),
            ("contracting_dims", _) => return self.crossed(op, "contracting_dimensions"),
            ("precision", _) => {
                let words = self.list("[", "]", |p| Ok(enumeration("precision", p.ident("a precision")?)))?;
                op.list("precision_config", Attribute::Array(words));
                return Ok(());
            }
            ("algorithm", Opcode::DotGeneral) => {
                if self.peek() != b'<' {
                    return Err(self.expected("`<`"));
                }
                let algorithm = self.structured_attribute("dot_algorithm")?;
                op.list("algorithm", algorithm);
                return Ok(());
            }
            ("format", Opcode::ReducePrecision) => return self.format(op),
            ("dim", Opcode::TorchIndexSelect) => "dim",
            ("dim", Opcode::Other) if !op.name.starts_with("stablehlo.") => word,
            ("dim", _) => "dimension",
            ("dims", Opcode::DynamicBroadcastInDim) => "broadcast_dimensions",
            ("dims", Opcode::Map) => "dimensions",
            ("sizes", Opcode::Broadcast) => "broadcast_sizes",
            ("batch_dims", Opcode::TorchIndexSelect) => word,
            // For ops of other dialects, the word is the attribute's name.
            _ if code == Opcode::Other => word,
            _ => return Err(Error::at(ErrorKind::Syntax, start, format_args!("unknown word `{word}`"))),
        };
        let value = self.bare_value()?;
        op.list(name, value);
        Ok(())
    }

    /// Parses a value without a type. A colon after the value begins the types of the op.
    fn bare_value(&mut self) -> Result<Attribute> {
        if self.peek() == b'"' {
            return Ok(Attribute::String(self.string()?));
        }
        if self.at_number() {
            let start = self.pos;
            let text = self.number()?;
            let float = text.contains('.').then(|| Some(Attribute::Float(text.parse().ok()?, ElementType::F64)));
            let number = float.unwrap_or_else(|| parse_integer(text).map(int));
            return number.ok_or_else(|| Error::at(ErrorKind::Syntax, start, format_args!("`{text}` is out of range")));
        }
        self.attribute()
    }

    /// Parses `[0] x [1]`.
    fn crossed(&mut self, op: &mut GenericOp<'a>, name: &str) -> Result<()> {
        let lhs = self.attribute()?;
        self.expect("x")?;
        let rhs = self.attribute()?;
        op.list(&format!("lhs_{name}"), lhs);
        op.list(&format!("rhs_{name}"), rhs);
        Ok(())
    }

    fn enumerated(&mut self, op: &mut GenericOp<'a>, attribute: &str, family: &str) -> Result<()> {
        let word = self.ident("a word")?;
        op.list(attribute, enumeration(family, word));
        Ok(())
    }

    /// Parses a floating-point format such as `e5m10`, which has 5 exponent bits and 10 mantissa bits.
    fn format(&mut self, op: &mut GenericOp<'a>) -> Result<()> {
        let start = self.pos;
        let word = self.ident("a format such as `e5m10`")?;
        let parts = word.strip_prefix('e').and_then(|rest| rest.split_once('m'));
        let (Some(Ok(exponent)), Some(Ok(mantissa))) = (parts.map(|p| p.0.parse()), parts.map(|p| p.1.parse())) else {
            return Err(Error::at(ErrorKind::Syntax, start, format_args!("`{word}` is not a format such as `e5m10`")));
        };
        op.list("exponent_bits", Attribute::Integer(exponent, ElementType::I32));
        op.list("mantissa_bits", Attribute::Integer(mantissa, ElementType::I32));
        Ok(())
    }
}

/// Returns the attribute that follows a keyword of an op's form, and its family if it is an enumeration. Searches the
/// rows of `op_table!`.
fn attribute_of(code: Opcode, word: &str) -> Option<(&'static str, Option<&'static str>)> {
    let (.., field) = WORDS.iter().find(|row| row.0 == code && row.1 == word)?;
    let (.., attribute, family) = FIELDS.iter().find(|row| row.0 == code && row.1 == *field)?;
    Some((attribute, *family))
}

macro_rules! words {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $($own:tt)* }
    ) => {
        /// Keywords of the ops' forms: op, keyword, field.
        const WORDS: &[(Opcode, &str, &str)] = &[$($($((Opcode::$op, $word, stringify!($of)),)*)?)*];
        /// Fields: op, field, attribute, and family if the field is an enumeration.
        const FIELDS: &[(Opcode, &str, &str, Option<&str>)] =
            &[$($($((Opcode::$op, stringify!($field), $attribute, <$codec as ReadField<$ty>>::FAMILY),)+)?)*];
    };
}

op_table!(words);
