//! Parses the syntax that all ops share, and the generic form.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::canonical::split;
use super::parser::Parser;
use super::scope::Scope;
use super::types::TypeList;
use crate::attributes::Named;
use crate::compatible::list;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::op_builder::{UntypedOp, kind};
use crate::ops::Opcode;

/// Types after the colon.
#[derive(Default)]
pub(super) enum Types {
    /// The op has no types.
    #[default]
    None,
    /// `T, T`: types of the results or of other values. The op's form determines which values.
    List(TypeList),
    /// Operand and result types, `(T) -> T`.
    Function(TypeList, TypeList),
}

/// A parsed op whose attributes are not converted to an [`OpKind`] yet.
#[derive(Default)]
pub(super) struct GenericOp<'a> {
    pub(super) start: usize,
    pub(super) code: Opcode,
    /// Line and column of the op's start.
    pub(super) place: (u64, u64),
    /// Full name without the version.
    pub(super) name: Cow<'a, str>,
    /// Names of the results, and the number of results per name.
    pub(super) named: SmallVec<[(&'a str, usize); 2]>,
    /// Values that are reserved for the named results.
    pub(super) reserved: ValueIds,
    pub(super) operands: ValueIds,
    /// Attributes in `<{...}>` or in keywords of the op's pretty form.
    pub(super) listed: Attributes,
    /// Attributes in the op's dictionary.
    pub(super) rest: Attributes,
    pub(super) regions: Vec<Region>,
    pub(super) types: Types,
}

impl<'a> GenericOp<'a> {
    pub(super) fn called(&mut self, name: Cow<'a, str>) {
        self.code = opcode_of(&name);
        self.name = name;
    }

    /// Clears the op, but keeps the capacity of its lists.
    pub(super) fn clear(&mut self) {
        self.name = Cow::Borrowed("");
        self.named.clear();
        self.reserved.clear();
        self.operands.clear();
        self.listed.clear();
        self.rest.clear();
        self.regions.clear();
        self.types = Types::None;
    }

    pub(super) fn list(&mut self, name: &str, value: Attribute) {
        self.listed.push((name.to_owned(), value));
    }
}

/// Returns the canonical name of an op, which can have several names in text.
pub(super) fn canonical_name(name: &str) -> Cow<'_, str> {
    match name {
        "func.call" | "call" => Cow::Borrowed("stablehlo.call"),
        "func.return" | "return" | "sdy.return" => Cow::Borrowed("stablehlo.return"),
        _ if !name.contains('.') => Cow::Owned(format!("stablehlo.{name}")),
        _ => Cow::Borrowed(name),
    }
}

/// Returns the opcode of an op's full name.
pub(super) fn opcode_of(name: &str) -> Opcode {
    name.strip_prefix("stablehlo.").map_or(Opcode::Other, Opcode::from_name)
}

impl<'a> Parser<'a> {
    /// Parses `%name` or `%name#1`, which must refer to a value in scope.
    pub(super) fn operand(&mut self, scope: &Scope<'a>) -> Result<ValueId> {
        let start = self.pos;
        let name = self.sigil(b'%', "a value such as `%0`")?;
        let index = if self.here() == b'#' {
            self.pos += 1;
            Some(self.integer()?)
        } else {
            None
        };
        scope.find(name, index).map_err(|e| e.with_offset(start))
    }

    /// Parses `(%0, %1)`.
    pub(super) fn operands(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        self.each("(", ")", |p| {
            op.operands.push(p.operand(scope)?);
            Ok(())
        })
    }

    /// Parses `"name"(operands) <{properties}> ({regions}) {attributes} : (T) -> T`.
    pub(super) fn generic_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        op.called(canonical_name(self.op_name()?));
        self.generic_start(scope, op).map_err(|e| e.with_op(&op.name))?;
        if self.peek() == b'(' {
            self.generic_regions(scope, op)?;
        }
        self.generic_end(op).map_err(|e| e.with_op(&op.name))
    }

    /// Parses an op name in quotes. The name must not contain escapes.
    pub(super) fn op_name(&mut self) -> Result<&'a str> {
        self.ws();
        let start = self.pos + 1;
        let length = self.raw_string()?.len();
        let name = &self.text[start..start + length];
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
            return Err(Error::at(ErrorKind::Syntax, start, format_args!("{name:?} is not the name of an op")));
        }
        Ok(name)
    }

    fn generic_start(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        self.operands(scope, op)?;
        if self.peek() == b'[' {
            return Err(self.error("StableHLO does not support branches between blocks"));
        }
        if self.eat("<") {
            op.listed = self.generic_properties()?;
        }
        Ok(())
    }

    /// Parses `{attributes} : (T) -> T`.
    pub(super) fn generic_end(&mut self, op: &mut GenericOp<'a>) -> Result<()> {
        op.rest = self.optional_dictionary()?;
        self.expect(":")?;
        let start = self.pos;
        if self.peek() != b'(' {
            return Err(Error::at(ErrorKind::Syntax, start, "expected a type of the form `(T) -> T`"));
        }
        let (inputs, outputs) = self.function_types()?;
        op.types = Types::Function(inputs, outputs);
        Ok(())
    }

    pub(super) fn generic_regions(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        self.expect("(")?;
        loop {
            op.regions.push(self.region(scope)?);
            if !self.eat(",") {
                return self.expect(")");
            }
        }
    }

    /// Parses the optional `: types` at the end of most forms.
    pub(super) fn types_tail(&mut self, op: &mut GenericOp<'a>) -> Result<()> {
        if !self.eat(":") {
            return Ok(());
        }
        if self.peek() == b'(' {
            let (inputs, outputs) = self.function_types()?;
            op.types = Types::Function(inputs, outputs);
            return Ok(());
        }
        let mut types = TypeList::new();
        types.push(self.value_type()?);
        while self.eat(",") {
            types.push(self.value_type()?);
        }
        op.types = if self.eat("->") { Types::Function(types, self.result_types()?) } else { Types::List(types) };
        Ok(())
    }

    /// Builds the op: sets its location, its result types and its kind.
    pub(super) fn finish_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<Op> {
        let location = match self.optional_location()? {
            Some(location) => location,
            None => self.add_place(op.place)?,
        };
        let (start, name) = (op.start, std::mem::take(&mut op.name));
        self.typed_op(scope, op, &name, location).map_err(|e| e.with_offset(start).with_op(&name))
    }

    fn typed_op(
        &mut self,
        scope: &mut Scope<'a>,
        op: &mut GenericOp<'a>,
        name: &str,
        location: LocationId,
    ) -> Result<Op> {
        let code = op.code;
        if code == Opcode::Other && name == "builtin.unrealized_conversion_cast" {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "text does not support casts between dialects; use the operand",
            ));
        }
        let (own, discardable) = split(name, std::mem::take(&mut op.listed), std::mem::take(&mut op.rest))?;
        let types = result_types(scope, op, code, &own)?;
        let reserved = std::mem::take(&mut op.reserved);
        let results = if reserved.is_empty() { scope.add(types)? } else { assign(scope, reserved, types)? };
        let named: SmallVec<[(&str, &Attribute); 8]> = own.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let raw = UntypedOp { code, name, attributes: Named(&named), operands: &op.operands, values: &scope.values };
        let (kind, mut attributes) = kind(&raw)?;
        attributes.extend(discardable);
        let (operands, regions) = (std::mem::take(&mut op.operands), std::mem::take(&mut op.regions));
        Ok(Op { kind, operands, results, regions, attributes, location })
    }
}

/// Sets the types of the values that are reserved for an op's results, and returns these values. Returns an error if
/// the numbers of values and types differ.
fn assign(scope: &mut Scope<'_>, reserved: ValueIds, types: TypeList) -> Result<ValueIds> {
    if reserved.len() != types.len() {
        return Err(Error::new(
            ErrorKind::Structure,
            format_args!("{} results are named, but the op has {}", reserved.len(), types.len()),
        ));
    }
    for (value, ty) in reserved.iter().zip(types) {
        scope.set_type(*value, ty);
    }
    Ok(reserved)
}

/// Returns the types of the results. The op's form determines how the text specifies them.
fn result_types(scope: &Scope<'_>, op: &mut GenericOp<'_>, code: Opcode, own: &Attributes) -> Result<TypeList> {
    let named = op.reserved.len();
    match std::mem::take(&mut op.types) {
        Types::Function(inputs, outputs) => {
            if !scope.have(&op.operands, &inputs) {
                return Err(Error::new(
                    ErrorKind::Type,
                    format_args!(
                        "operands are written as ({}) but are ({})",
                        list(inputs.iter().map(|ty| &**ty)),
                        list(op.operands.iter().map(|&v| scope.ty(v)))
                    ),
                ));
            }
            Ok(outputs)
        }
        Types::None => match (code, own.iter().find(|(name, _)| name == "value")) {
            // This also applies to constants of other dialects, such as `arith.constant`.
            (Opcode::Constant | Opcode::Other, Some((_, Attribute::Tensor(literal)))) => {
                Ok([Arc::new(Type::Tensor(literal.ty.clone()))].into_iter().collect())
            }
            (Opcode::Constant, _) => {
                Err(Error::new(ErrorKind::Attribute, "the value must be a tensor of a known element type"))
            }
            _ if named == 0 => Ok(TypeList::new()),
            _ => Err(Error::new(ErrorKind::Structure, "the types of the results are missing")),
        },
        Types::List(types) => match code {
            Opcode::Return => {
                if !scope.have(&op.operands, &types) {
                    return Err(Error::new(
                        ErrorKind::Type,
                        format_args!(
                            "operands are written as {} but are {}",
                            list(types.iter().map(|ty| &**ty)),
                            list(op.operands.iter().map(|&v| scope.ty(v)))
                        ),
                    ));
                }
                Ok(TypeList::new())
            }
            Opcode::Select if types.len() != 2 => Err(Error::new(
                ErrorKind::Structure,
                format_args!("needs the types of predicate and result, not {} types", types.len()),
            )),
            Opcode::Select => Ok(types.into_iter().last().into_iter().collect()),
            Opcode::Other if named == 0 => Ok(TypeList::new()),
            _ if named == 0 || types.len() == named => Ok(types),
            _ => Err(Error::new(
                ErrorKind::Structure,
                format_args!("{named} results are named, but {} types are given", types.len()),
            )),
        },
    }
}
