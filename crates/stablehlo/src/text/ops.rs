//! One op: what all forms share, and the generic form.

use super::canonical::split;
use super::parser::Parser;
use super::scope::Scope;
use crate::attributes::Named;
use crate::error::{Error, Result};
use crate::ir::*;
use crate::ops::Code;
use crate::typed::{Raw, kind};
use crate::types::Ty;

/// The types after the colon.
#[derive(Default)]
pub(super) enum Types {
    /// None given.
    #[default]
    None,
    /// `T, T`: of the results, or of whatever the op's form says.
    List(Vec<Type>),
    /// `(T) -> T`.
    Function(Vec<Type>, Vec<Type>),
}

/// An op as read, before it is typed.
#[derive(Default)]
pub(super) struct GenericOp {
    pub(super) start: usize,
    pub(super) location: LocationId,
    /// Full name without version.
    pub(super) name: String,
    /// Values numbered for the named results.
    pub(super) reserved: Vec<ValueId>,
    pub(super) operands: Vec<ValueId>,
    /// Attributes in `<{...}>` or in words of the op's own.
    pub(super) listed: Attributes,
    /// Attributes in the dictionary.
    pub(super) rest: Attributes,
    pub(super) regions: Vec<Region>,
    pub(super) types: Types,
}

impl GenericOp {
    pub(super) fn list(&mut self, name: &str, value: Attribute) {
        self.listed.push((name.to_owned(), value));
    }
}

/// Names an op may have in text, brought to one.
pub(super) fn canonical_name(name: &str) -> String {
    match name {
        "func.call" | "call" => "stablehlo.call".to_owned(),
        "func.return" | "return" | "sdy.return" => "stablehlo.return".to_owned(),
        _ if !name.contains('.') => format!("stablehlo.{name}"),
        _ => name.to_owned(),
    }
}

/// The code of a full name.
pub(super) fn code_of(name: &str) -> Code {
    name.strip_prefix("stablehlo.").map_or(Code::Other, Code::from_name)
}

impl<'a> Parser<'a> {
    /// `%name` or `%name#1`, in sight.
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

    /// `"name"(operands) <{properties}> ({regions}) {attributes} : (T) -> T`.
    pub(super) fn generic_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp) -> Result<()> {
        op.name = canonical_name(&String::from_utf8_lossy(self.raw_string()?));
        self.generic_start(scope, op).map_err(|e| e.with_op(&op.name))?;
        if self.peek() == b'(' {
            self.generic_regions(scope, op)?;
        }
        self.generic_end(op).map_err(|e| e.with_op(&op.name))
    }

    fn generic_start(&mut self, scope: &Scope<'a>, op: &mut GenericOp) -> Result<()> {
        op.operands = self.list("(", ")", |p| p.operand(scope))?;
        if self.peek() == b'[' {
            return Err(self.error("branches between blocks have no place in StableHLO"));
        }
        if self.eat("<") {
            op.listed = self.generic_properties()?;
        }
        Ok(())
    }

    /// `{attributes} : (T) -> T`.
    pub(super) fn generic_end(&mut self, op: &mut GenericOp) -> Result<()> {
        op.rest = self.optional_dictionary()?;
        self.expect(":")?;
        let start = self.pos;
        match self.ty()? {
            Ty::Function(inputs, outputs) => op.types = Types::Function(inputs, outputs),
            _ => return Err(Error::at(start, "expected a type of the form `(T) -> T`")),
        }
        Ok(())
    }

    fn generic_regions(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp) -> Result<()> {
        self.expect("(")?;
        loop {
            op.regions.push(self.region(scope)?);
            if !self.eat(",") {
                return self.expect(")");
            }
        }
    }

    /// The optional `: types` that ends most forms.
    pub(super) fn types_tail(&mut self, op: &mut GenericOp) -> Result<()> {
        if !self.eat(":") {
            return Ok(());
        }
        if self.peek() == b'(' {
            match self.ty()? {
                Ty::Function(inputs, outputs) => op.types = Types::Function(inputs, outputs),
                _ => return Err(self.expected("a function type")),
            }
            return Ok(());
        }
        let mut types = vec![self.value_type()?];
        while self.eat(",") {
            types.push(self.value_type()?);
        }
        op.types = if self.eat("->") { Types::Function(types, self.result_types()?) } else { Types::List(types) };
        Ok(())
    }

    /// Gives the op its location, result types and kind.
    pub(super) fn finish_op(&mut self, scope: &mut Scope<'a>, mut op: Box<GenericOp>) -> Result<Op> {
        if let Some(location) = self.optional_location()? {
            op.location = location;
        }
        let (start, name) = (op.start, std::mem::take(&mut op.name));
        self.typed_op(scope, op, &name).map_err(|e| e.with_offset(start).with_op(&name))
    }

    fn typed_op(&mut self, scope: &mut Scope<'a>, mut op: Box<GenericOp>, name: &str) -> Result<Op> {
        let code = code_of(name);
        if code == Code::Other && name == "builtin.unrealized_conversion_cast" {
            return Err(Error::new("a cast between dialects has no meaning in text; use its operand"));
        }
        let (own, discardable) = split(name, std::mem::take(&mut op.listed), std::mem::take(&mut op.rest))?;
        let types = result_types(scope, &mut op, code, &own)?;
        let results = if op.reserved.is_empty() { scope.add(types)? } else { assign(scope, op.reserved, types)? };
        let named: Vec<(&str, &Attribute)> = own.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let raw = Raw { code, name, attributes: Named(&named), operands: &op.operands, values: &scope.values };
        let (kind, mut attributes) = kind(&raw)?;
        attributes.extend(discardable);
        Ok(Op { kind, operands: op.operands, results, regions: op.regions, attributes, location: op.location })
    }
}

/// Gives the reserved values their types.
fn assign(scope: &mut Scope<'_>, reserved: Vec<ValueId>, types: Vec<Type>) -> Result<Vec<ValueId>> {
    if reserved.len() != types.len() {
        return Err(Error::new(format!("{} results are named, but the op has {}", reserved.len(), types.len())));
    }
    for (value, ty) in reserved.iter().zip(types) {
        scope.values[value.0 as usize] = ty;
    }
    Ok(reserved)
}

/// The types of the results, as the form of the op gives them.
fn result_types(scope: &Scope<'_>, op: &mut GenericOp, code: Code, own: &Attributes) -> Result<Vec<Type>> {
    let named = op.reserved.len();
    match std::mem::take(&mut op.types) {
        Types::Function(inputs, outputs) => {
            let actual = op.operands.iter().map(|&v| scope.ty(v));
            if !actual.clone().eq(&inputs) {
                let actual: Vec<Type> = actual.cloned().collect();
                return Err(Error::new(format!(
                    "operands are written as ({}) but are ({})",
                    type_list(&inputs),
                    type_list(&actual)
                )));
            }
            Ok(outputs)
        }
        Types::None => match (code, own.iter().find(|(name, _)| name == "value")) {
            (Code::Constant, Some((_, Attribute::Tensor(literal)))) => Ok(vec![Type::Tensor(literal.ty.clone())]),
            (Code::Constant, _) => Err(Error::new("the value must be a tensor of a known element type")),
            _ if named == 0 => Ok(Vec::new()),
            _ => Err(Error::new("the types of the results are missing")),
        },
        Types::List(types) => match code {
            Code::Return => {
                let actual: Vec<Type> = op.operands.iter().map(|&v| scope.ty(v).clone()).collect();
                if actual != types {
                    return Err(Error::new(format!(
                        "operands are written as {} but are {}",
                        type_list(&types),
                        type_list(&actual)
                    )));
                }
                Ok(Vec::new())
            }
            Code::Select => Ok(types.into_iter().last().into_iter().collect()),
            Code::Other if named == 0 => Ok(Vec::new()),
            _ if named == 0 || types.len() == named => Ok(types),
            _ => Err(Error::new(format!("{named} results are named, but {} types are given", types.len()))),
        },
    }
}

fn type_list(types: &[Type]) -> String {
    let mut text = String::new();
    let _ = crate::types::write_list(&mut text, types);
    text
}
