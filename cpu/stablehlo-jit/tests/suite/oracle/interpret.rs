//! Interprets programs.

use std::collections::HashMap;

use stablehlo::ir::{Binary, ComparisonType, Unary};
use stablehlo_jit::{Access, Array, Block, Element, Expression, Function, Part, Program, Selector, Statement, Value};

use super::generate::Generated;
use super::{ops, step_result};

/// Maximum number of statements and iterations of one interpretation.
const BUDGET: u32 = 20_000;

/// How a program is interpreted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// As it is defined.
    Exact,
    /// Visits all blocks, but only few iterations of each loop. Counters and clamped numbers have extreme values that
    /// they can have in a run. Loads return arbitrary numbers. The round selects the values.
    Extremes(u32),
}

/// How an interpretation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Finished,
    /// A step of the host ended the run.
    Stopped,
    /// The program takes too long, or its course depends on unspecified bits.
    Abandoned,
}

enum Break {
    End(End),
    Violation(String),
}

type Result<T, E = Break> = std::result::Result<T, E>;

fn violation<T>(what: impl Into<String>) -> Result<T> {
    Err(Break::Violation(what.into()))
}

/// The bits of a number, and whether they are unspecified because they derive from a NaN that an op returned.
#[derive(Clone, Copy)]
struct Number {
    bits: u64,
    unspecified: bool,
}

/// The state of an interpretation.
pub(super) struct Machine<'g> {
    program: &'g Program,
    generated: &'g Generated,
    mode: Mode,
    values: HashMap<Value, Number>,
    memory: Vec<Vec<u8>>,
    unspecified: Vec<Vec<bool>>,
    left: u32,
    random: u32,
}

/// Returns the content of array `at` at the start of a run.
pub(super) fn content(at: usize, bytes: usize) -> Vec<u8> {
    let mut state = at as u32 * 7 + 1;
    let byte = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [0, 0, 1, 0x7F, 0x80, 0xFF, (state >> 8) as u8, (state >> 8) as u8][(state >> 24) as usize % 8]
    };
    (0..bytes).map(byte).collect()
}

impl<'g> Machine<'g> {
    pub(super) fn new(generated: &'g Generated, mode: Mode) -> Self {
        // In the other mode, arrays have no content and may be too large to be allocated.
        let sizes = generated.arrays.iter().map(|&(_, bytes, _)| if mode == Mode::Exact { bytes } else { 0 });
        Self {
            program: &generated.program,
            generated,
            mode,
            values: HashMap::new(),
            memory: sizes.clone().enumerate().map(|(at, bytes)| content(at, bytes)).collect(),
            unspecified: sizes.map(|bytes| vec![false; bytes]).collect(),
            left: BUDGET,
            random: if let Mode::Extremes(round) = mode { round } else { 0 },
        }
    }

    /// Interprets the program. Returns a description of an access outside its array as an error.
    pub(super) fn run(&mut self) -> Result<End, String> {
        match self.block(&self.program.body) {
            Ok(()) => Ok(End::Finished),
            Err(Break::End(end)) => Ok(end),
            Err(Break::Violation(what)) => Err(what),
        }
    }

    pub(super) fn memory(&self, at: usize) -> &[u8] {
        &self.memory[at]
    }

    pub(super) fn is_unspecified(&self, at: usize, offset: usize) -> bool {
        self.unspecified[at][offset]
    }

    fn spend(&mut self) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or(Break::End(End::Abandoned))?;
        Ok(())
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random >> 16
    }

    /// Returns one of these numbers.
    fn one_of(&mut self, numbers: &[u64]) -> u64 {
        numbers[self.random() as usize % numbers.len()]
    }

    fn get(&self, value: Value) -> Result<Number> {
        self.values
            .get(&value)
            .copied()
            .map_or_else(|| violation(format!("{value:?} was accepted, but is undefined")), Ok)
    }

    /// Returns a number that decides which statements run or where an access lies.
    fn decisive(&self, value: Value) -> Result<u64> {
        let number = self.get(value)?;
        // Nothing that the verifier relies on may be unspecified, but a generated program can differ in its course.
        if number.unspecified { Err(Break::End(End::Abandoned)) } else { Ok(number.bits) }
    }

    fn set(&mut self, value: Value, bits: u64) {
        self.values.insert(value, Number { bits, unspecified: false });
    }

    fn pass(&mut self, from: &[Value], to: &[Value]) -> Result<()> {
        let numbers = from.iter().map(|&value| self.get(value)).collect::<Result<Vec<_>>>()?;
        self.values.extend(to.iter().copied().zip(numbers));
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<()> {
        block.statements().iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        self.spend()?;
        let exact = self.mode == Mode::Exact;
        match statement {
            Statement::Let { result, expression } => {
                let number = self.expression(*result, expression)?;
                self.values.insert(*result, number);
            }
            Statement::Store { to, value } => {
                let size = self.program.element(*value).size();
                let (array, offset) = self.locate(to, size)?;
                let number = self.get(*value)?;
                if !self.generated.arrays[array].2 {
                    return violation("a store to an array that is only read was accepted");
                }
                if exact {
                    self.memory[array][offset..offset + size].copy_from_slice(&number.bits.to_le_bytes()[..size]);
                    self.unspecified[array][offset..offset + size].fill(number.unspecified);
                }
            }
            Statement::For { count, index, body } => {
                let count = *count as u64;
                if exact {
                    for at in 0..count {
                        self.spend()?;
                        self.set(*index, at);
                        self.block(body)?;
                    }
                } else {
                    let at = self.one_of(&[0, count - 1, count - 1, count / 2]);
                    self.set(*index, at);
                    self.block(body)?;
                }
            }
            Statement::While { parameters, initial, condition, body, results } => {
                self.pass(initial, parameters)?;
                loop {
                    self.spend()?;
                    self.block(condition)?;
                    if exact && self.decisive(condition.results()[0])? != 1 {
                        break;
                    }
                    self.block(body)?;
                    self.pass(body.results(), parameters)?;
                    if !exact {
                        break;
                    }
                }
                self.pass(parameters, results)?;
            }
            Statement::Choose { selector, value, branches, results } => {
                if exact {
                    let number = self.decisive(*value)?;
                    let branch = match selector {
                        Selector::Truth => usize::from(number != 1),
                        Selector::Index => {
                            usize::try_from(number as u32 as i32).unwrap_or(usize::MAX).min(branches.len() - 1)
                        }
                    };
                    self.block(&branches[branch])?;
                    self.pass(branches[branch].results(), results)?;
                } else {
                    for branch in branches {
                        self.block(branch)?;
                        self.pass(branch.results(), results)?;
                    }
                }
            }
            Statement::Host { step } => self.host(*step)?,
        }
        Ok(())
    }

    fn host(&mut self, step: u32) -> Result<()> {
        let Some(declared) = self.generated.steps.get(step as usize) else {
            return violation("a step that does not exist was accepted");
        };
        let place = |part: &Part| -> Result<(usize, usize, usize)> {
            let array = self.array(part.array)?;
            let end = part.start as u128 + part.bytes as u128;
            if end > self.generated.arrays[array].1 as u128 {
                return violation("a part outside its array was accepted");
            }
            Ok((array, part.start, part.start + part.bytes))
        };
        let reads = declared.reads.iter().map(place).collect::<Result<Vec<_>>>()?;
        let writes = declared.writes.iter().map(place).collect::<Result<Vec<_>>>()?;
        for (i, a) in writes.iter().enumerate() {
            if !self.generated.arrays[a.0].2 {
                return violation("a step that writes an array that is only read was accepted");
            }
            let overlaps = |b: &(usize, usize, usize)| a.0 == b.0 && a.1.max(b.1) < a.2.min(b.2);
            if reads.iter().chain(&writes[i + 1..]).any(overlaps) {
                return violation("a step whose written part overlaps another part was accepted");
            }
        }
        if self.mode != Mode::Exact {
            return Ok(());
        }
        let unspecified = reads.iter().any(|&(array, start, end)| self.unspecified[array][start..end].contains(&true));
        let (byte, continues) =
            step_result(step, reads.iter().map(|&(array, start, end)| &self.memory[array][start..end]));
        for (array, start, end) in writes {
            self.memory[array][start..end].fill(byte);
            self.unspecified[array][start..end].fill(unspecified);
        }
        if continues { Ok(()) } else { Err(Break::End(End::Stopped)) }
    }

    fn array(&self, array: Array) -> Result<usize> {
        let at = self.generated.arrays.iter().position(|&(other, ..)| other == array);
        at.map_or_else(|| violation("an array that does not exist was accepted"), Ok)
    }

    /// Returns the index of the array and the offset of an access.
    fn locate(&self, access: &Access, size: usize) -> Result<(usize, usize)> {
        let array = self.array(access.array)?;
        let mut offset = access.offset as i128;
        for &(index, stride) in &access.terms {
            let index = i128::from(self.decisive(index)? as i64);
            let Some(sum) = index.checked_mul(stride as i128).and_then(|reach| offset.checked_add(reach)) else {
                return violation("an access far outside its array was accepted");
            };
            offset = sum;
        }
        let bytes = self.generated.arrays[array].1;
        if offset < 0 || offset + size as i128 > bytes as i128 {
            return violation(format!(
                "an access of byte {offset} in an array of {bytes} bytes was accepted: {access:?}"
            ));
        }
        Ok((array, offset as usize))
    }

    fn expression(&mut self, result: Value, expression: &Expression) -> Result<Number> {
        let made = self.program.element(result);
        let element = |value: &Value| self.program.element(*value);
        // Most ops have unspecified results if an operand is unspecified.
        let (operands, mut unspecified) = self.operands(expression)?;
        let bits = match expression {
            Expression::Constant(bytes) => ops::bits_of(
                if made.is_float() { [Element::U32, Element::U64][usize::from(made.size() == 8)] } else { made },
                i128::from(u64::from_le_bytes(*bytes)),
            ),
            Expression::Unary(op, a) => {
                unspecified &= *op != Unary::IsFinite;
                ops::unary(*op, element(a), operands[0])
            }
            Expression::Binary(op, a, _) => {
                // The sign of a NaN does not change which of two numbers is larger.
                unspecified &= !matches!((op, element(a)), (Binary::Maximum | Binary::Minimum, Element::Bool));
                ops::binary(*op, element(a), operands[0], operands[1])
            }
            Expression::FusedMultiplyAdd(a, ..) => ops::fused(element(a), operands[0], operands[1], operands[2]),
            Expression::Compare(direction, kind, a, _) => {
                unspecified &= !element(a).is_float() || *kind == ComparisonType::TotalOrder;
                u64::from(ops::compare(*direction, *kind, element(a), operands[0], operands[1]))
            }
            Expression::Select(p, a, b) => {
                if self.get(*p)?.unspecified {
                    unspecified = true;
                    operands[1]
                } else {
                    return self.get(if operands[0] != 0 { *a } else { *b });
                }
            }
            Expression::Convert(a) => {
                unspecified &= !element(a).is_float() || made.is_float();
                ops::convert(element(a), made, operands[0])
            }
            Expression::Bits(_) => return Ok(Number { bits: operands[0], unspecified }),
            Expression::Load(from) => {
                let (array, offset) = self.locate(from, made.size())?;
                if self.mode == Mode::Exact {
                    let place = offset..offset + made.size();
                    let mut bytes = [0; 8];
                    bytes[..made.size()].copy_from_slice(&self.memory[array][place.clone()]);
                    let unspecified = self.unspecified[array][place].contains(&true);
                    return Ok(Number { bits: u64::from_le_bytes(bytes), unspecified });
                }
                let any = self.one_of(&[0, 1, 2, u64::MAX, 1 << 63, (1 << 63) - 1, 0x7F, 0x8000]);
                ops::bits_of(
                    [Element::U64, Element::U8, Element::U16, Element::U8, Element::U32][made.size() % 8],
                    any.into(),
                )
            }
            Expression::Digit { step, extent, .. } => operands[0] / *step as u64 % *extent as u64,
            Expression::Clamped { of, most } => {
                let exact = ops::integer(element(of), operands[0]).clamp(0, *most as i128) as u64;
                // The verifier does not look at the operand of a clamped number, so every number up to `most` is
                // possible.
                if self.mode == Mode::Exact { exact } else { self.one_of(&[0, *most as u64, *most as u64, exact]) }
            }
            Expression::Inside { of, most } => {
                u64::from((0..=*most as i128).contains(&ops::integer(element(of), operands[0])))
            }
            Expression::Call(function, _) => call(*function, &operands),
        };
        // An op that returns a NaN does not specify its bits. Constants and loads do.
        let computes = !matches!(expression, Expression::Constant(_) | Expression::Load(_));
        Ok(Number { bits, unspecified: unspecified || computes && ops::is_nan(made, bits) })
    }

    /// Returns the operands of an expression, and whether one of them is unspecified.
    fn operands(&self, expression: &Expression) -> Result<(Vec<u64>, bool)> {
        let operands: Vec<Value> = match expression {
            Expression::Constant(_) | Expression::Load(_) => Vec::new(),
            Expression::Unary(_, a) | Expression::Convert(a) | Expression::Bits(a) => vec![*a],
            Expression::Digit { of, .. } | Expression::Clamped { of, .. } | Expression::Inside { of, .. } => vec![*of],
            Expression::Binary(_, a, b) | Expression::Compare(_, _, a, b) => vec![*a, *b],
            Expression::FusedMultiplyAdd(a, b, c) | Expression::Select(a, b, c) => vec![*a, *b, *c],
            Expression::Call(_, operands) => operands.clone(),
        };
        let numbers = operands.iter().map(|&operand| self.get(operand)).collect::<Result<Vec<_>>>()?;
        let unspecified = numbers.iter().any(|number| number.unspecified);
        Ok((numbers.iter().map(|number| number.bits).collect(), unspecified))
    }
}

fn call(function: Function, x: &[u64]) -> u64 {
    let f32 = |at: usize| f32::from_bits(x[at] as u32);
    let f64 = |at: usize| f64::from_bits(x[at]);
    match function {
        Function::F32(f) => f(f32(0)).to_bits().into(),
        Function::F64(f) => f(f64(0)).to_bits(),
        Function::F32x2(f) => f(f32(0), f32(1)).to_bits().into(),
        Function::F64x2(f) => f(f64(0), f64(1)).to_bits(),
        Function::I32x2(f) => (f(x[0] as i32, x[1] as i32) as u32).into(),
        Function::I64x2(f) => f(x[0] as i64, x[1] as i64) as u64,
        Function::U32x2(f) => f(x[0] as u32, x[1] as u32).into(),
        Function::U64x2(f) => f(x[0], x[1]),
        Function::F32x3(f) => f(f32(0), f32(1), f32(2)).to_bits().into(),
        Function::F64x3(f) => f(f64(0), f64(1), f64(2)).to_bits(),
    }
}
