//! Verification of the IR, for both readers.
//!
//! [`verify`] checks structure: values are defined before use and in scope, regions end in a return and there are as
//! many as the op needs, callees exist and do not recurse, types agree where control passes from op to op. `shapes`,
//! `contractions` and `untyped_ops` work out the shape of each op's results and check dimension numbers, `elements` checks
//! element types. A rule is added by adding an arm there.

mod asynchronous;
mod attributes;
mod calls;
mod chlo;
mod constants;
mod contractions;
mod control;
mod custom_call;
mod dynamic;
mod elements;
mod infer;
mod quantized;
mod shapes;
mod string_attributes;
mod untyped_ops;

use crate::MAX_NESTING;
use crate::error::{Error, Result};
use crate::ir::*;
use constants::Constants;
use infer::{Slot, Wanted};
pub use infer::{infer, infer_op};

/// Whether to check the rules that frameworks check before they write an artifact, and that devices do not rely on:
/// quantized types, CHLO, custom calls, ops without their own kind, string attributes, constants that are shapes. Small
/// libraries that read only artifacts omit these checks.
const FULL: bool = cfg!(feature = "text");

/// Checks a module. [`parse`](crate::parse) has done so already; this is for modules built or changed by hand.
pub fn verify(module: &Module) -> Result<()> {
    if FULL {
        attributes::module(module)?;
    }
    let mut calls = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        calls.push(verify_func(module, func).map_err(|e| e.with_func(&func.name))?);
    }
    calls::verify(module, &calls)
}

/// The context for the checks of one op.
pub(super) struct Site<'a> {
    pub(super) func: &'a Func,
    pub(super) op: &'a Op,
    /// The module, if there is one.
    pub(super) module: Option<&'a Module>,
    /// The function's integer constants. `None` if there is no function.
    pub(super) constants: Option<&'a Constants>,
    /// Set if the types of the results are inferred instead of checked.
    pub(super) wanted: Option<&'a Wanted>,
}

impl<'a> Site<'a> {
    /// Type of an operand.
    pub(super) fn operand(&self, index: usize) -> Result<&'a Type> {
        match self.op.operands.get(index) {
            Some(&value) => Ok(self.func.ty(value)),
            None => Err(Error::new(format!("needs at least {} operands, has {}", index + 1, self.op.operands.len()))),
        }
    }

    /// Type of a result.
    pub(super) fn result(&self, index: usize) -> Result<&'a Type> {
        match self.op.results.get(index) {
            Some(&value) => Ok(self.func.ty(value)),
            None => Err(Error::new(format!("needs at least {} results, has {}", index + 1, self.op.results.len()))),
        }
    }

    /// Tensor type of an operand. `None` for a type that this crate does not model and does not check.
    pub(super) fn operand_tensor(&self, index: usize) -> Result<Option<&'a TensorType>> {
        tensor(self.operand(index)?, "operand", index)
    }

    /// Tensor type of a result, likewise.
    pub(super) fn result_tensor(&self, index: usize) -> Result<Option<&'a TensorType>> {
        // Rules that need the result do not apply to inference.
        if self.wanted.is_some() {
            return Ok(None);
        }
        tensor(self.result(index)?, "result", index)
    }

    /// The slot of a result, for a rule.
    pub(super) fn slot(&self, index: usize) -> Result<Option<Slot<'a>>> {
        match self.wanted {
            Some(wanted) => Ok(Some(Slot::Wanted(wanted, index))),
            None => Ok(self.result_tensor(index)?.map(Slot::There)),
        }
    }

    /// The elements of an operand that is an integer constant.
    pub(super) fn known(&self, index: usize) -> Option<&'a [i64]> {
        self.constants.filter(|_| FULL)?.find(self.func, *self.op.operands.get(index)?)
    }

    pub(super) fn operands(&self) -> impl ExactSizeIterator<Item = &'a Type> + Clone {
        self.op.operands.iter().map(|&v| self.func.ty(v))
    }

    pub(super) fn results(&self) -> impl ExactSizeIterator<Item = &'a Type> + Clone {
        self.op.results.iter().map(|&v| self.func.ty(v))
    }
}

fn tensor<'a>(ty: &'a Type, what: &str, index: usize) -> Result<Option<&'a TensorType>> {
    match ty {
        Type::Tensor(tensor) => Ok(Some(tensor)),
        Type::Other(_) => Ok(None),
        other => Err(Error::new(format!("{what} {index} must be a tensor, not {other}"))),
    }
}

/// Fails with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::error::Error::new(format!($($message)+)));
        }
    };
}
pub(super) use ensure;

/// Checks a function; the ops that call others.
fn verify_func<'a>(module: &'a Module, func: &'a Func) -> Result<Vec<&'a Op>> {
    let args = func.body.args.len();
    ensure!(
        func.arg_attributes.len() == args,
        "{} attribute dictionaries for {args} arguments",
        func.arg_attributes.len()
    );
    let (attributes, results) = (func.result_attributes.len(), func.results.len());
    ensure!(attributes == results, "{attributes} attribute dictionaries for {results} results");
    func.values.distinct().try_for_each(shapes::verify_type).map_err(|e| made_by(module, func, e))?;
    if FULL {
        attributes::func(func).map_err(|e| e.with_location(module.location(func.location)))?;
    }
    let constants = Constants::default();
    let mut walk = Walk {
        constants: &constants,
        module,
        func,
        state: vec![State::New; func.values.len()],
        scope: Vec::new(),
        calls: Vec::new(),
        sound: Vec::new(),
    };
    walk.region(&func.body, 0)?;
    let returned = returned(&func.body)?;
    let actual: Vec<&Type> = returned.iter().map(|&v| func.ty(v)).collect();
    ensure!(
        all_compatible(actual.iter().copied(), &func.results),
        "returns ({}) but is declared to return ({})",
        list(actual.iter().copied()),
        list(&func.results)
    );
    Ok(walk.calls)
}

/// Adds the op that defines the first value of an invalid type, and its place. For an argument, this is the enclosing
/// op or the function.
#[cold]
fn made_by(module: &Module, func: &Func, error: Error) -> Error {
    let Some(value) = func.values.iter().position(|ty| shapes::verify_type(ty).is_err()) else { return error };
    let is = |v: &ValueId| v.0 as usize == value;
    // With a stack of its own, since the regions' depth is not checked yet.
    let mut regions = vec![&func.body];
    while let Some(region) = regions.pop() {
        for op in &region.ops {
            if op.results.iter().any(is) || op.regions.iter().any(|region| region.args.iter().any(is)) {
                return error.with_op(&op.kind.name()).with_location(module.location(op.location));
            }
            regions.extend(&op.regions);
        }
    }
    error.with_location(module.location(func.location))
}

/// Operands of the return that ends a region.
pub(super) fn returned(region: &Region) -> Result<&[ValueId]> {
    match region.ops.last() {
        Some(Op { kind: OpKind::Return, operands, .. }) => Ok(operands),
        _ => Err(Error::new("a region must end in a return")),
    }
}

/// Whether types agree in all known parts. A value of static shape may be used as one of dynamic shape.
pub(super) fn compatible(a: &Type, b: &Type) -> bool {
    // Values mostly share their types.
    if std::ptr::eq(a, b) {
        return true;
    }
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => a.element == b.element && shapes::agree(&a.shape, &b.shape),
        (Type::Other(a), b) if a.starts_with("tensor<") => loosely(a, b),
        (a, Type::Other(b)) if b.starts_with("tensor<") => loosely(b, a),
        (a, b) => a == b,
    }
}

/// Whether a tensor type with bounds or quantized elements is compatible with the other type. If only one type has
/// them, only the ranks are compared. Otherwise the texts are compared, except for dynamic extents.
#[cold]
fn loosely(text: &str, other: &Type) -> bool {
    match other {
        Type::Other(other) => other == text || text.contains('?') || other.contains('?'),
        Type::Tensor(other) => unbounded(text)
            .is_some_and(|(shape, element)| element == other.element && shapes::agree(&shape, &other.shape)),
        _ => false,
    }
}

/// The shape and the element type of `tensor<4x?xf32, …>`. `None` if the elements are not numbers, such as quantized
/// ones.
pub(super) fn unbounded(text: &str) -> Option<(Vec<i64>, ElementType)> {
    let mut rest = text.strip_prefix("tensor<")?.split([',', '>']).next()?.trim();
    let mut shape = Vec::new();
    while let Some((extent, after)) =
        rest.split_once('x').filter(|(extent, _)| !extent.contains(|c: char| c.is_ascii_alphabetic()))
    {
        shape.push(if extent == "?" { DYNAMIC } else { extent.parse().ok()? });
        rest = after;
    }
    let element = match rest {
        "complex<f32" => ElementType::ComplexF32,
        "complex<f64" => ElementType::ComplexF64,
        name => ElementType::from_name(name)?,
    };
    Some((shape, element))
}

/// [`compatible`] for lists.
pub(crate) fn all_compatible<'a>(a: impl IntoIterator<Item = &'a Type>, b: impl IntoIterator<Item = &'a Type>) -> bool {
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if compatible(a, b) => {}
            _ => return false,
        }
    }
}

/// Types separated by commas.
pub(crate) fn list<'a>(types: impl IntoIterator<Item = &'a Type>) -> String {
    types.into_iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    InScope,
    Gone,
}

struct Walk<'a, 'c> {
    constants: &'c Constants,
    module: &'a Module,
    func: &'a Func,
    state: Vec<State>,
    /// Values in scope, in order of definition.
    scope: Vec<ValueId>,
    /// Ops that call functions.
    calls: Vec<&'a Op>,
    /// Elementwise ops that passed the checks, one bit each, by the position of their type.
    sound: Vec<u64>,
}

impl<'a> Walk<'a, '_> {
    fn region(&mut self, region: &'a Region, depth: usize) -> Result<()> {
        ensure!(depth <= MAX_NESTING, "regions nest deeper than {MAX_NESTING}");
        ensure!(region.args.is_empty() || !region.ops.is_empty(), "a region with arguments must end in a return");
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
            Some(_) => return Err(Error::new(format!("value {} is defined twice", value.0))),
            None => return Err(Error::new(format!("value {} has no type", value.0))),
        }
        self.scope.push(value);
        Ok(())
    }

    fn op(&mut self, op: &'a Op, last: bool, depth: usize) -> Result<()> {
        self.flat(op, last).map_err(|e| self.place(e, op))?;
        for region in &op.regions {
            self.region(region, depth + 1)?;
        }
        self.finish(op).map_err(|e| self.place(e, op))
    }

    /// Checks that look at the op alone.
    fn flat(&self, op: &'a Op, last: bool) -> Result<()> {
        ensure!(
            matches!(op.kind, OpKind::Return) == last,
            "{}",
            if last { "a region must end in a return" } else { "a return must end its region" }
        );
        for &value in &op.operands {
            match self.state.get(value.0 as usize) {
                Some(State::InScope) => {}
                Some(State::New) | None => {
                    return Err(Error::new(format!("operand value {} is used before it is defined", value.0)));
                }
                Some(State::Gone) => {
                    return Err(Error::new(format!("operand value {} is used outside its region", value.0)));
                }
            }
        }
        Ok(())
    }

    /// Checks that need the op's regions to be sound, then brings its results into scope.
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

    /// Checks of an op and the types of its operands and results.
    fn alone(&self, op: &'a Op) -> Result<()> {
        let (module, constants) = (Some(self.module), Some(self.constants));
        let site = Site { func: self.func, op, module, constants, wanted: None };
        control::verify(&site)?;
        shapes::verify(&site)?;
        elements::verify(&site)?;
        contractions::verify(&site)?;
        if !FULL {
            return Ok(());
        }
        attributes::op(op)?;
        quantized::verify(&site)?;
        string_attributes::verify(&site)?;
        custom_call::verify(&site)?;
        chlo::verify(&site)?;
        untyped_ops::verify(&site)
    }

    /// The same, once for all ops of a kind and of one type, which are most of a program.
    fn elementwise(&mut self, op: &'a Op) -> Result<()> {
        let types = &self.func.values;
        // Attributes have rules of their own.
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

    #[cold]
    fn place(&self, error: Error, op: &Op) -> Error {
        error.with_op(&op.kind.name()).with_location(self.module.location(op.location))
    }
}
