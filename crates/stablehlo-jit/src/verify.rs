//! Checks programs. Generated code relies on these checks instead of checking at run time.

use crate::error::Error;
use crate::ir::{
    Access, Block, Element, Expression, Part, Program, Selector, Statement, Value, has_binary, has_compare, has_unary,
};

/// Maximum nesting of statements. The limit prevents a stack overflow, because this verifier and the translator are
/// recursive.
const MAX_DEPTH: usize = 64;
/// Maximum number of values. The time and the memory of the code generator grow faster than the program.
const MAX_VALUES: usize = 16_384;

/// Checks that a program follows the rules of the intermediate representation.
///
/// Each value must be defined once, before its uses. The uses must be in the block of the definition or in a block
/// inside it. A loop's body may also use the values of the loop's condition. Operands must have the right types. Each
/// access must lie in its array. The program must write only to writable arrays.
pub(crate) fn verify(program: &Program) -> Result<(), Error> {
    if program.values.len() > MAX_VALUES {
        return Err(Error::TooLarge { values: program.values.len(), limit: MAX_VALUES });
    }
    let mut verifier = Verifier {
        program,
        states: vec![State::Undefined; program.values.len()],
        most: vec![None; program.values.len()],
        visible: Vec::new(),
    };
    for step in &program.host_steps {
        verifier.host_step(&step.reads, &step.writes)?;
    }
    verifier.block(&program.body, &[], 0)
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
    most: Vec<Option<usize>>,
    visible: Vec<Value>,
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

    fn block(&mut self, block: &Block, results: &[Element], depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return invalid(format!("statements are nested more than {MAX_DEPTH} deep"));
        }
        self.scoped(|this| {
            block.statements.iter().try_for_each(|statement| this.statement(statement, depth))?;
            this.same(&block.results, results)
        })
    }

    fn statement(&mut self, statement: &Statement, depth: usize) -> Result<()> {
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
                if *count == 0 || i64::try_from(*count).is_err() || element != Element::I64 {
                    return invalid(format!("a loop counts to {count} in {element:?}"));
                }
                this.most[index.0 as usize] = Some(count - 1);
                this.block(body, &[], depth + 1)
            }),
            Statement::While { parameters, initial, condition, body, results } => {
                let types: Vec<Element> = initial.iter().map(|&v| self.element(v)).collect::<Result<_>>()?;
                self.scoped(|this| {
                    for &parameter in parameters {
                        this.define(parameter)?;
                    }
                    this.same(parameters, &types)?;
                    // The condition's values are also visible in the loop's body.
                    condition.statements.iter().try_for_each(|statement| this.statement(statement, depth + 1))?;
                    this.same(&condition.results, &[Element::Bool])?;
                    this.block(body, &types, depth + 1)
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
                if !fits {
                    return invalid(format!("{} branches", branches.len()));
                }
                let known = |&v: &Value| self.program.values.get(v.0 as usize).copied();
                let Some(types) = results.iter().map(known).collect::<Option<Vec<Element>>>() else {
                    return invalid("a result does not exist");
                };
                branches.iter().try_for_each(|branch| self.block(branch, &types, depth + 1))?;
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
                let fits = |n: usize| n > 0 && i64::try_from(n).is_ok();
                if self.most[of.0 as usize].is_none() || !fits(*step) || !fits(*extent) {
                    return invalid("a digit of a number of unknown range, or with a divisor out of range");
                }
                self.most[result.0 as usize] = Some(extent - 1);
                Element::I64
            }
            Expression::Clamped { of, most } => {
                let element = self.element(*of)?;
                if !element.is_integer() || i64::try_from(*most).is_err() {
                    return invalid(format!("{element:?} clamped to {most}"));
                }
                self.most[result.0 as usize] = Some(*most);
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
    fn access(&self, access: &Access, element: Element) -> Result<()> {
        let Some(array) = self.program.arrays.get(access.array.0 as usize) else {
            return invalid("an array does not exist");
        };
        let (mut least, mut most) = (access.offset as i128, access.offset as i128);
        for &(index, stride) in &access.terms {
            self.has(index, Element::I64)?;
            let Some(reach) = self.most[index.0 as usize] else {
                return invalid(format!("the range of index {} is unknown", index.0));
            };
            let reach = reach as i128 * stride as i128;
            if reach < 0 {
                least += reach;
            } else {
                most += reach;
            }
        }
        if least < 0 || most + element.size() as i128 > array.bytes as i128 {
            return invalid(format!("an access of bytes {least}..={most} in an array of {} bytes", array.bytes));
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

    fn host_step(&self, reads: &[Part], writes: &[Part]) -> Result<()> {
        for part in reads.iter().chain(writes) {
            let inside = self
                .program
                .arrays
                .get(part.array.0 as usize)
                .is_some_and(|array| part.start.checked_add(part.bytes).is_some_and(|end| end <= array.bytes));
            if !inside {
                return invalid("a host step uses a part outside its array");
            }
        }
        let overlap =
            |a: &Part, b: &Part| a.array == b.array && a.start < b.start + b.bytes && b.start < a.start + a.bytes;
        for (i, part) in writes.iter().enumerate() {
            self.writable(part.array.0)?;
            if reads.iter().chain(&writes[i + 1..]).any(|other| overlap(part, other)) {
                return invalid("a host step writes a part that it also reads, or writes twice");
            }
        }
        Ok(())
    }
}
