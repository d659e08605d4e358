//! Visits the functions, regions and ops of a module, and checks them.

use super::constants::Constants;
use super::level::VerifyLevel;
use super::shapes::verify_type;
use super::site::{Site, ensure, returned};
use super::{calls, contractions, control, shapes};
use crate::compatible::{all_compatible, list};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::limits::MAX_NESTING;

/// Checks a module. [`parse`](crate::parse) and the other readers call this function. Call it yourself for modules that
/// you build or change.
pub fn verify(module: &Module, level: VerifyLevel) -> Result<()> {
    if let Some(rules) = level.full() {
        (rules.module)(module)?;
    }
    let mut calls = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        calls.push(verify_func(module, func, level).map_err(|e| e.with_func(&func.name))?);
    }
    calls::verify(module, &calls)
}

/// Checks one op of a function under construction at level [`VerifyLevel::FULL`]. Does not check the op's regions,
/// because they are checked when they are built. Skips the rules that require the module or the values of constants.
#[cfg(feature = "builder")]
pub(crate) fn check_op(func: &Func, op: &Op) -> Result<()> {
    let site = Site { func, op, module: None, constants: None, quantized: true, wanted: None };
    control::verify(&site)?;
    shapes::verify(&site)?;
    contractions::verify(&site)?;
    VerifyLevel::FULL.full().map_or(Ok(()), |rules| (rules.op)(&site))
}

/// Checks a type at level [`VerifyLevel::FULL`].
#[cfg(feature = "builder")]
pub(crate) fn check_type(ty: &Type) -> Result<()> {
    verify_type(ty, VerifyLevel::FULL)
}

/// Checks a function. Returns its ops that call other functions.
fn verify_func<'a>(module: &'a Module, func: &'a Func, level: VerifyLevel) -> Result<Vec<&'a Op>> {
    let args = func.body.args.len();
    ensure!(
        Structure,
        func.arg_attributes.len() == args,
        "{} attribute dictionaries for {args} arguments",
        func.arg_attributes.len()
    );
    let (attributes, results) = (func.result_attributes.len(), func.results.len());
    ensure!(Structure, attributes == results, "{attributes} attribute dictionaries for {results} results");
    let mut quantized = false;
    for ty in func.values.distinct() {
        verify_type(ty, level).map_err(|e| made_by(module, func, level, e))?;
        // The IR keeps quantized types as text.
        quantized |= matches!(ty, Type::Other(_));
    }
    if let Some(rules) = level.full() {
        (rules.func)(func).map_err(|e| e.with_location(module.location(func.location)))?;
    }
    let constants = Constants::default();
    let mut walk = Walk {
        level,
        constants: &constants,
        module,
        func,
        quantized,
        state: vec![State::New; func.values.len()],
        scope: Vec::with_capacity(func.values.len()),
        calls: Vec::new(),
        sound: Vec::new(),
    };
    walk.region(&func.body, 0)?;
    let returned = returned(&func.body)?;
    let actual = returned.iter().map(|&v| func.ty(v));
    ensure!(
        Type,
        all_compatible(actual.clone(), &func.results),
        "returns ({}) but is declared to return ({})",
        list(actual),
        list(&func.results)
    );
    Ok(walk.calls)
}

/// Finds the first value with an invalid type, and adds the op that defines it and the op's location to the error. For
/// an argument, adds the enclosing op or the function.
#[cold]
fn made_by(module: &Module, func: &Func, level: VerifyLevel, error: Error) -> Error {
    let Some(value) = func.values.iter().position(|ty| verify_type(ty, level).is_err()) else { return error };
    let is = |v: &ValueId| v.0 as usize == value;
    let defines = |op: &&Op| op.results.iter().chain(op.regions.iter().flat_map(|region| &region.args)).any(is);
    match func.body.all_ops().find(defines) {
        Some(op) => error.with_op(&op.kind.name()).with_location(module.location(op.location)),
        None => error.with_location(module.location(func.location)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    InScope,
    Gone,
}

struct Walk<'a, 'c> {
    level: VerifyLevel,
    constants: &'c Constants,
    module: &'a Module,
    func: &'a Func,
    /// Whether values of the function may have quantized types.
    quantized: bool,
    state: Vec<State>,
    /// Values in scope, in the order of their definition.
    scope: Vec<ValueId>,
    /// Ops that call other functions.
    calls: Vec<&'a Op>,
    /// Bit set for each type, by the type's position. A set bit means that an elementwise op was checked for this type
    /// and is valid.
    sound: Vec<u64>,
}

impl<'a> Walk<'a, '_> {
    fn region(&mut self, region: &'a Region, depth: usize) -> Result<()> {
        ensure!(Limit, depth <= MAX_NESTING, "regions nest deeper than {MAX_NESTING}");
        ensure!(
            Structure,
            region.args.is_empty() || !region.ops.is_empty(),
            "a region with arguments must end in a return"
        );
        let mark = self.scope.len();
        for &value in &region.args {
            self.define(value)?;
        }
        let last = region.ops.len().saturating_sub(1);
        for (i, op) in region.ops.iter().enumerate() {
            self.op(op, i == last, depth)?;
        }
        for value in self.scope.drain(mark..) {
            self.state[value.0 as usize] = State::Gone;
        }
        Ok(())
    }

    fn define(&mut self, value: ValueId) -> Result<()> {
        match self.state.get_mut(value.0 as usize) {
            Some(state @ State::New) => *state = State::InScope,
            Some(_) => {
                return Err(Error::new(ErrorKind::Reference, format_args!("value {} is defined twice", value.0)));
            }
            None => return Err(Error::new(ErrorKind::Reference, format_args!("value {} has no type", value.0))),
        }
        self.scope.push(value);
        Ok(())
    }

    fn op(&mut self, op: &'a Op, last: bool, depth: usize) -> Result<()> {
        self.flat(op, last).map_err(|e| e.of_op(op, self.func, self.module))?;
        for region in &op.regions {
            self.region(region, depth + 1)?;
        }
        self.finish(op).map_err(|e| e.of_op(op, self.func, self.module))
    }

    /// Runs the checks that do not depend on the op's regions.
    fn flat(&self, op: &'a Op, last: bool) -> Result<()> {
        ensure!(
            Structure,
            matches!(op.kind, OpKind::Return) == last,
            "{}",
            if last { "a region must end in a return" } else { "a return must end its region" }
        );
        for &value in &op.operands {
            match self.state.get(value.0 as usize) {
                Some(State::InScope) => {}
                Some(State::New) | None => {
                    return Err(Error::new(
                        ErrorKind::Reference,
                        format_args!("operand value {} is used before it is defined", value.0),
                    ));
                }
                Some(State::Gone) => {
                    return Err(Error::new(
                        ErrorKind::Reference,
                        format_args!("operand value {} is used outside its region", value.0),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds the op's results to the scope, and runs the checks that require valid regions.
    fn finish(&mut self, op: &'a Op) -> Result<()> {
        for &value in &op.results {
            self.define(value)?;
        }
        match op.kind {
            OpKind::Call { .. } | OpKind::Composite { .. } => self.calls.push(op),
            OpKind::Unary(_) | OpKind::Binary(_) => return self.elementwise(op),
            _ => {}
        }
        self.alone(op)
    }

    /// Applies the rules for an op's operands, results, attributes and regions.
    fn alone(&self, op: &'a Op) -> Result<()> {
        let (module, constants) = (Some(self.module), Some(self.constants));
        let site = Site { func: self.func, op, module, constants, quantized: self.quantized, wanted: None };
        control::verify(&site)?;
        shapes::verify(&site)?;
        contractions::verify(&site)?;
        self.level.full().map_or(Ok(()), |rules| (rules.op)(&site))
    }

    /// Checks an elementwise op, but only once for each combination of op and type. Most ops of a program are
    /// elementwise.
    fn elementwise(&mut self, op: &'a Op) -> Result<()> {
        let types = &self.func.values;
        // An op with attributes has additional rules, so check it separately.
        if !op.attributes.is_empty() {
            return self.alone(op);
        }
        let bit = match (&op.kind, &op.operands[..], &op.results[..], &op.regions[..]) {
            (OpKind::Unary(unary), &[x], &[result], []) if types.position(x) == types.position(result) => {
                *unary as usize
            }
            (OpKind::Binary(binary), &[x, y], &[result], [])
                if types.position(x) == types.position(result) && types.position(y) == types.position(result) =>
            {
                Unary::ALL.len() + *binary as usize
            }
            _ => return self.alone(op),
        };
        const { assert!(Unary::ALL.len() + Binary::ALL.len() <= u64::BITS as usize) };
        let position = types.position(op.results[0]) as usize;
        if self.sound.get(position).is_some_and(|sound| sound >> bit & 1 == 1) {
            return Ok(());
        }
        self.alone(op)?;
        if self.sound.len() <= position {
            self.sound.resize(position + 1, 0);
        }
        self.sound[position] |= 1 << bit;
        Ok(())
    }
}
