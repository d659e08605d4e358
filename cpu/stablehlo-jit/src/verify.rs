//! Checks programs. Generated code relies on these checks instead of checking at run time.

use crate::error::Error;
use crate::ir::{
    Access, Block, Element, Expression, HostStep, Program, Selector, Statement, Value, has_binary, has_compare,
    has_unary,
};
use crate::limits;

/// Checks that a program follows the rules of the intermediate representation.
///
/// Each value must be defined once, before its uses. The uses must be in the block of the definition or in a block
/// inside it. A loop's body may also use the values of the loop's condition. Operands must have the right types. Each
/// access must lie in its array. The program must write only to writable arrays.
///
/// Every count and every sum or product of sizes, offsets, strides and counts is computed without overflow. The
/// verifier calls itself for each nested block, which [`Block::new`] limits.
pub(crate) fn verify(program: &Program) -> Result<(), Error> {
    within(program.values.len(), limits::VALUES, "values")?;
    within(program.arrays.len(), limits::ARRAYS, "arrays")?;
    let mut verifier = Verifier {
        program,
        states: vec![State::Undefined; program.values.len()],
        most: vec![None; program.values.len()],
        visible: Vec::new(),
        parts: 0,
        iterations: 1,
    };
    for step in &program.host_steps {
        verifier.host_step(step)?;
    }
    verifier.block(&program.body, &[])
}

fn within(count: usize, limit: usize, what: &'static str) -> Result<(), Error> {
    if count <= limit { Ok(()) } else { Err(Error::TooLarge { what, limit }) }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Undefined,
    Visible,
    /// The value was defined in a block that has ended.
    Ended,
}

struct Verifier<'p> {
    program: &'p Program,
    states: Vec<State>,
    /// The upper bound of each value that is known to be at least 0.
    most: Vec<Option<i64>>,
    visible: Vec<Value>,
    /// The number of parts of the program so far. See [`limits::PARTS`].
    parts: usize,
    /// The number of iterations of the current statement. See [`limits::ITERATIONS`].
    iterations: usize,
}

type Result<T, E = Error> = std::result::Result<T, E>;

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Invalid(message.into()))
}

impl Verifier<'_> {
    fn element(&self, value: Value) -> Result<Element> {
        match self.states.get(value.0 as usize) {
            Some(State::Visible) => Ok(self.program.values[value.0 as usize]),
            _ => invalid(format!("value {} is used where it is not defined", value.0)),
        }
    }

    fn define(&mut self, value: Value) -> Result<Element> {
        match self.states.get_mut(value.0 as usize) {
            Some(state @ State::Undefined) => *state = State::Visible,
            _ => return invalid(format!("value {} is defined twice or does not exist", value.0)),
        }
        self.visible.push(value);
        Ok(self.program.values[value.0 as usize])
    }

    fn has(&self, value: Value, element: Element) -> Result<()> {
        let got = self.element(value)?;
        if got == element { Ok(()) } else { invalid(format!("value {} is {got:?}, not {element:?}", value.0)) }
    }

    /// Checks that the values have these types.
    fn same(&self, values: &[Value], types: &[Element]) -> Result<()> {
        if values.len() != types.len() {
            return invalid(format!("{} values where there must be {}", values.len(), types.len()));
        }
        values.iter().zip(types).try_for_each(|(&value, &element)| self.has(value, element))
    }

    /// Runs `check`, and ends the visibility of the values that it defines.
    fn scoped(&mut self, check: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let outer = self.visible.len();
        check(self)?;
        for value in self.visible.drain(outer..) {
            self.states[value.0 as usize] = State::Ended;
        }
        Ok(())
    }

    /// Counts parts of the program.
    fn count(&mut self, parts: usize) -> Result<()> {
        self.parts = self.parts.saturating_add(parts);
        within(self.parts, limits::PARTS, "statements, branches, terms and parts of arrays")
    }

    fn block(&mut self, block: &Block, results: &[Element]) -> Result<()> {
        self.scoped(|this| {
            this.statements(block)?;
            this.same(block.results(), results)
        })
    }

    fn statements(&mut self, block: &Block) -> Result<()> {
        self.count(block.statements().len())?;
        block.statements().iter().try_for_each(|statement| self.statement(statement))
    }

    /// Runs `check` for statements that run `iterations` times between two checks whether the run must stop.
    fn repeated(&mut self, iterations: usize, check: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        within(iterations, limits::ITERATIONS, "iterations of nested loops with a constant count")?;
        let outer = std::mem::replace(&mut self.iterations, iterations);
        check(self)?;
        self.iterations = outer;
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        match statement {
            Statement::Let { result, expression } => {
                self.expression(*result, expression)?;
                self.define(*result).map(drop)
            }
            Statement::Store { to, value } => {
                let element = self.element(*value)?;
                self.access(to, element)?;
                self.writable(to.array.0)
            }
            Statement::For { count, index, body } => self.scoped(|this| {
                let element = this.define(*index)?;
                let Some(most) = last_below(*count).filter(|_| element == Element::I64) else {
                    return invalid(format!("a loop counts to {count} in {element:?}"));
                };
                this.most[index.0 as usize] = Some(most);
                let iterations = this.iterations.saturating_mul(*count);
                this.repeated(iterations, |this| this.block(body, &[]))
            }),
            Statement::While { parameters, initial, condition, body, results } => {
                let types: Vec<Element> = initial.iter().map(|&v| self.element(v)).collect::<Result<_>>()?;
                self.scoped(|this| {
                    for &parameter in parameters {
                        this.define(parameter)?;
                    }
                    this.same(parameters, &types)?;
                    this.repeated(1, |this| {
                        // The condition's values are also visible in the loop's body.
                        this.statements(condition)?;
                        this.same(condition.results(), &[Element::Bool])?;
                        this.block(body, &types)
                    })
                })?;
                for &result in results {
                    self.define(result)?;
                }
                self.same(results, &types)
            }
            Statement::Choose { selector, value, branches, results } => {
                let (element, fits) = match selector {
                    Selector::Truth => (Element::Bool, branches.len() == 2),
                    Selector::Index => (Element::I32, !branches.is_empty() && i32::try_from(branches.len()).is_ok()),
                };
                self.has(*value, element)?;
                self.count(branches.len())?;
                if !fits {
                    return invalid(format!("{} branches", branches.len()));
                }
                let known = |&v: &Value| self.program.values.get(v.0 as usize).copied();
                let Some(types) = results.iter().map(known).collect::<Option<Vec<Element>>>() else {
                    return invalid("a result does not exist");
                };
                branches.iter().try_for_each(|branch| self.block(branch, &types))?;
                results.iter().try_for_each(|&result| self.define(result).map(drop))
            }
            Statement::Host { step } => match self.program.host_steps.get(*step as usize) {
                Some(_) => Ok(()),
                None => invalid(format!("host step {step} does not exist")),
            },
        }
    }

    fn expression(&mut self, result: Value, expression: &Expression) -> Result<()> {
        let Some(&made) = self.program.values.get(result.0 as usize) else {
            return invalid("a result does not exist");
        };
        let want = match expression {
            Expression::Constant(_) => made,
            Expression::Unary(op, a) => {
                let element = self.element(*a)?;
                if !has_unary(*op, element) {
                    return invalid(format!("{op:?} of {element:?}"));
                }
                if *op == stablehlo::ir::Unary::IsFinite { Element::Bool } else { element }
            }
            Expression::Binary(op, a, b) => {
                let element = self.element(*a)?;
                self.has(*b, element)?;
                if !has_binary(*op, element) {
                    return invalid(format!("{op:?} of {element:?}"));
                }
                element
            }
            Expression::FusedMultiplyAdd(a, b, c) => {
                let element = self.element(*a)?;
                self.has(*b, element)?;
                self.has(*c, element)?;
                if !element.is_float() {
                    return invalid(format!("a fused multiply-add of {element:?}"));
                }
                element
            }
            Expression::Compare(_, kind, a, b) => {
                let element = self.element(*a)?;
                self.has(*b, element)?;
                if !has_compare(*kind, element) {
                    return invalid(format!("comparison {kind:?} of {element:?}"));
                }
                Element::Bool
            }
            Expression::Select(p, a, b) => {
                self.has(*p, Element::Bool)?;
                let element = self.element(*a)?;
                self.has(*b, element)?;
                element
            }
            Expression::Convert(a) => {
                self.element(*a)?;
                made
            }
            Expression::Bits(a) => {
                let element = self.element(*a)?;
                if element.size() != made.size() {
                    return invalid(format!("the bits of {element:?} as {made:?}"));
                }
                made
            }
            Expression::Load(from) => {
                self.access(from, made)?;
                made
            }
            Expression::Digit { of, step, extent } => {
                self.has(*of, Element::I64)?;
                match (self.most[of.0 as usize], last_below(*step), last_below(*extent)) {
                    (Some(_), Some(_), Some(most)) => self.most[result.0 as usize] = Some(most),
                    _ => return invalid("a digit of a number of unknown range, or with a divisor out of range"),
                }
                Element::I64
            }
            Expression::Clamped { of, most } => {
                let element = self.element(*of)?;
                let Some(bound) = i64::try_from(*most).ok().filter(|_| element.is_integer()) else {
                    return invalid(format!("{element:?} clamped to {most}"));
                };
                self.most[result.0 as usize] = Some(bound);
                Element::I64
            }
            Expression::Inside { of, most } => {
                let element = self.element(*of)?;
                if !element.is_integer() || i64::try_from(*most).is_err() {
                    return invalid(format!("{element:?} compared with {most}"));
                }
                Element::Bool
            }
            Expression::Call(function, operands) => {
                let (element, count) = function.signature();
                self.same(operands, &vec![element; count])?;
                element
            }
        };
        if want == made { Ok(()) } else { invalid(format!("a result is {want:?}, but {made:?} is declared")) }
    }

    /// Checks that an access lies in its array for all values of its indices.
    fn access(&mut self, access: &Access, element: Element) -> Result<()> {
        let Some(bytes) = self.program.arrays.get(access.array.0 as usize).map(|array| array.bytes) else {
            return invalid("an array does not exist");
        };
        self.count(access.terms.len())?;
        // The range of offsets of the element. `None` stands for offsets that do not fit in an `i64`. No array has
        // them.
        let mut range = i64::try_from(access.offset).ok().map(|offset| (offset, offset));
        for &(index, stride) in &access.terms {
            self.has(index, Element::I64)?;
            let Some(most) = self.most[index.0 as usize] else {
                return invalid(format!("the range of index {} is unknown", index.0));
            };
            range = range.and_then(|(least, largest)| {
                let reach = most.checked_mul(i64::try_from(stride).ok()?)?;
                Some((least.checked_add(reach.min(0))?, largest.checked_add(reach.max(0))?))
            });
        }
        let Some((least, largest)) = range else {
            return invalid(format!(
                "an access reaches offsets that do not fit in 64 bits, in an array of {bytes} bytes"
            ));
        };
        let end = usize::try_from(largest).ok().and_then(|largest| largest.checked_add(element.size()));
        if least < 0 || end.is_none_or(|end| end > bytes) {
            return invalid(format!(
                "an access of {} bytes at offsets {least} to {largest}, in an array of {bytes} bytes",
                element.size()
            ));
        }
        Ok(())
    }

    fn writable(&self, array: u32) -> Result<()> {
        if self.program.arrays[array as usize].writable {
            Ok(())
        } else {
            invalid(format!("array {array} is read only, and is written"))
        }
    }

    fn host_step(&mut self, step: &HostStep) -> Result<()> {
        self.count(step.reads.len().saturating_add(step.writes.len()).saturating_add(1))?;
        let mut parts = Vec::new();
        let reads = step.reads.iter().map(|part| (part, false));
        for (part, written) in reads.chain(step.writes.iter().map(|part| (part, true))) {
            let array = self.program.arrays.get(part.array.0 as usize);
            let end = part.start.checked_add(part.bytes);
            let Some(end) = end.filter(|&end| array.is_some_and(|array| end <= array.bytes)) else {
                return invalid("a host step uses a part outside its array");
            };
            if written {
                self.writable(part.array.0)?;
            }
            if part.bytes > 0 {
                parts.push((part.array.0, part.start, end, written));
            }
        }
        // In this order, a part overlaps an earlier part of its array if it starts before that part's end.
        parts.sort_unstable();
        for of_array in parts.chunk_by(|a, b| a.0 == b.0) {
            let (mut end_of_all, mut end_of_written) = (0, 0);
            for &(_, start, end, written) in of_array {
                if start < if written { end_of_all } else { end_of_written } {
                    return invalid("a host step writes a part that it also reads, or writes twice");
                }
                end_of_all = end_of_all.max(end);
                if written {
                    end_of_written = end_of_written.max(end);
                }
            }
        }
        Ok(())
    }
}

/// Returns the largest number below `count`. Returns `None` if there is none that is at least 0, or if `count` does not
/// fit in an `i64`.
fn last_below(count: usize) -> Option<i64> {
    i64::try_from(count).ok()?.checked_sub(1).filter(|&last| last >= 0)
}
