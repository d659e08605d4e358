//! Names of values: `%arg0`, `%0`, `%0#1`, and names that ops suggest, such as `%cst`.
//!
//! As in MLIR, the arguments and results of a whole block are named before the values of the regions in this block.

use std::fmt::Write;

use crate::ir::{ElementType, Func, Op, OpKind, Region, Type, ValueId};

/// Names that ops suggest.
const SUGGESTED: [&str; 10] = [
    "cst",
    "c",
    "iterArg",
    "output_state",
    "output",
    "batch_mean",
    "batch_var",
    "grad_operand",
    "grad_scale",
    "grad_offset",
];

#[derive(Clone, Copy, Default)]
enum Name {
    /// The value is not defined.
    #[default]
    None,
    Argument(u32),
    /// Name such as `%3`.
    Result(u32),
    /// Name such as `%3#1`.
    ResultOf(u32, u32),
    /// Index of one of [`SUGGESTED`], with a number if the name is already used.
    Suggested(usize, Option<u32>),
}

/// The names of one function's values.
#[derive(Default)]
pub(super) struct Names {
    names: Vec<Name>,
}

/// Next numbers for names. A nested region continues with these numbers, so sibling regions use the same numbers.
#[derive(Clone, Copy, Default)]
struct Next {
    argument: u32,
    result: u32,
    conflict: u32,
    /// Whether each of [`SUGGESTED`] is already used.
    taken: [bool; SUGGESTED.len()],
}

impl Names {
    /// Names all values of a function.
    pub(super) fn of(func: &Func, generic: bool) -> Self {
        let mut names = Self { names: vec![Name::None; func.values.len()] };
        names.region(func, &func.body, Next::default(), None, generic);
        names
    }

    fn set(&mut self, value: ValueId, name: Name) {
        if let Some(slot) = self.names.get_mut(value.0 as usize) {
            *slot = name;
        }
    }

    fn suggest(&mut self, value: ValueId, suggestion: &str, next: &mut Next) {
        let Some(which) = SUGGESTED.iter().position(|&s| s == suggestion) else { return };
        let number = std::mem::replace(&mut next.taken[which], true).then(|| {
            next.conflict += 1;
            next.conflict - 1
        });
        self.set(value, Name::Suggested(which, number));
    }

    fn region(&mut self, func: &Func, region: &Region, mut next: Next, arguments: Option<&str>, generic: bool) {
        for &argument in &region.args {
            match arguments {
                Some(suggestion) => self.suggest(argument, suggestion, &mut next),
                None => {
                    self.set(argument, Name::Argument(next.argument));
                    next.argument += 1;
                }
            }
        }
        for op in &region.ops {
            self.results(func, op, &mut next, generic);
        }
        for op in &region.ops {
            let arguments = (matches!(op.kind, OpKind::While) && !generic).then_some("iterArg");
            for region in &op.regions {
                self.region(func, region, next, arguments, generic);
            }
        }
    }

    fn results(&mut self, func: &Func, op: &Op, next: &mut Next, generic: bool) {
        let suggestions: &[&str] = match &op.kind {
            _ if generic => &[],
            OpKind::Constant(_) => {
                let integers = |e: ElementType| e.is_integer() && e != ElementType::Index || e == ElementType::Bool;
                match op.results.first().and_then(|v| func.values.get(v.0 as usize)) {
                    Some(Type::Tensor(tensor)) if integers(tensor.element) => &["c"],
                    _ => &["cst"],
                }
            }
            OpKind::RngBitGenerator { .. } => &["output_state", "output"],
            OpKind::BatchNormTraining { .. } => &["output", "batch_mean", "batch_var"],
            OpKind::BatchNormGrad { .. } => &["grad_operand", "grad_scale", "grad_offset"],
            _ => &[],
        };
        if !suggestions.is_empty() && suggestions.len() == op.results.len() {
            for (&value, suggestion) in op.results.iter().zip(suggestions) {
                self.suggest(value, suggestion, next);
            }
            return;
        }
        match op.results[..] {
            [] => return,
            [value] => self.set(value, Name::Result(next.result)),
            _ => {
                for (index, &value) in (0u32..).zip(&op.results) {
                    self.set(value, Name::ResultOf(next.result, index));
                }
            }
        }
        next.result += 1;
    }

    /// Prints the name of a value in an operand list.
    pub(super) fn write(&self, value: ValueId, out: &mut String) {
        let _ = match self.names.get(value.0 as usize).copied().unwrap_or_default() {
            Name::None => write!(out, "%undefined{}", value.0),
            Name::Argument(number) => write!(out, "%arg{number}"),
            Name::Result(number) => write!(out, "%{number}"),
            Name::ResultOf(number, index) => write!(out, "%{number}#{index}"),
            Name::Suggested(which, None) => write!(out, "%{}", SUGGESTED[which]),
            Name::Suggested(which, Some(number)) => write!(out, "%{}_{number}", SUGGESTED[which]),
        };
    }

    /// Prints the names of an op's results, and ` = ` after them. Prints nothing if the op has no results.
    pub(super) fn define(&self, results: &[ValueId], out: &mut String) {
        let Some(&first) = results.first() else { return };
        if let Some(&Name::ResultOf(number, _)) = self.names.get(first.0 as usize) {
            let _ = write!(out, "%{number}:{} = ", results.len());
            return;
        }
        for (i, &value) in results.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            self.write(value, out);
        }
        out.push_str(" = ");
    }
}
