//! Chooses the loops that generated code computes with vector instructions.
//!
//! Such a loop computes each element of its arrays from the elements at the same position, without branches or calls.
//! All its elements have the same size, so that each value fills one vector register of [`BYTES`] bytes. The ops are
//! those of WebAssembly's vectors, which Cranelift supports on both of its platforms.

use std::collections::HashMap;

use stablehlo::ir::{Binary, Unary};

use crate::ir::{Access, Block, Element, Expression, Program, Statement, Value, has_fused_multiply_add};

/// Size of a vector register in bytes.
pub(crate) const BYTES: usize = 16;

/// The form of a value that the loop defines.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One element per lane.
    Data,
    /// The result of a comparison: all bits of a lane are equal.
    Mask,
}

/// An access in a loop.
struct Use<'p> {
    access: &'p Access,
    /// The terms other than that of the loop's index.
    others: Vec<(Value, isize)>,
    moves: bool,
    is_store: bool,
}

struct Scan<'p> {
    program: &'p Program,
    index: Value,
    /// Size of the elements in bytes, when it is known.
    size: Option<usize>,
    forms: HashMap<Value, Form>,
    uses: Vec<Use<'p>>,
}

/// Returns the number of elements in a vector of a loop that can be computed with vectors, and `None` for other loops.
pub(crate) fn lanes(program: &Program, count: usize, index: Value, body: &Block) -> Option<usize> {
    if !is_available() {
        return None;
    }
    let mut scan = Scan { program, index, size: None, forms: HashMap::new(), uses: Vec::new() };
    body.statements().iter().try_for_each(|statement| scan.statement(statement))?;
    let size = scan.size?;
    let lanes = BYTES / size;
    (count / lanes >= 2 && scan.is_independent(count.checked_mul(size)?, size)).then_some(lanes)
}

/// Returns whether this processor has the instructions into which Cranelift translates the ops of this module.
fn is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

impl<'p> Scan<'p> {
    fn statement(&mut self, statement: &'p Statement) -> Option<()> {
        match statement {
            Statement::Let { result, expression } => {
                let form = self.expression(*result, expression)?;
                self.forms.insert(*result, form);
                Some(())
            }
            Statement::Store { to, value } => {
                self.data(*value)?;
                self.access(to, self.program.element(*value), true)
            }
            _ => None,
        }
    }

    /// Notes that a vector contains elements of this type. Returns `None` if other elements have another size.
    fn sized(&mut self, element: Element) -> Option<()> {
        (*self.size.get_or_insert(element.size()) == element.size()).then_some(())
    }

    /// Checks an operand that has one element per lane. A value from outside the loop is the same in all lanes.
    fn data(&mut self, value: Value) -> Option<Element> {
        let element = self.program.element(value);
        let is_data = value != self.index && self.forms.get(&value) != Some(&Form::Mask);
        self.sized(element)?;
        is_data.then_some(element)
    }

    fn is_mask(&self, value: Value) -> bool {
        self.forms.get(&value) == Some(&Form::Mask)
    }

    fn expression(&mut self, result: Value, expression: &'p Expression) -> Option<Form> {
        let made = self.program.element(result);
        match expression {
            Expression::Constant(_) => {}
            Expression::Load(from) => self.access(from, made, false)?,
            Expression::Unary(Unary::Not, a) if self.is_mask(*a) => return Some(Form::Mask),
            Expression::Unary(op, a) => {
                let element = self.data(*a)?;
                has_unary(*op, element).then_some(())?;
            }
            Expression::Binary(Binary::And | Binary::Or | Binary::Xor, a, b)
                if self.is_mask(*a) && self.is_mask(*b) =>
            {
                return Some(Form::Mask);
            }
            Expression::Binary(op, a, b) => {
                let element = self.data(*a)?;
                self.data(*b)?;
                has_binary(*op, element).then_some(())?;
            }
            Expression::FusedMultiplyAdd(a, b, c) => {
                has_fused_multiply_add().then_some(())?;
                for operand in [a, b, c] {
                    self.data(*operand)?;
                }
            }
            Expression::Compare(_, kind, a, b) => {
                let element = self.data(*a)?;
                self.data(*b)?;
                return has_compare(*kind, element).then_some(Form::Mask);
            }
            Expression::Select(p, a, b) => {
                self.data(*a)?;
                self.data(*b)?;
                self.is_mask(*p).then_some(())?;
            }
            Expression::Convert(a) => {
                (self.data(*a)? == Element::I32 && made == Element::F32).then_some(())?;
            }
            Expression::Bits(a) => {
                self.data(*a)?;
            }
            _ => return None,
        }
        self.sized(made)?;
        Some(Form::Data)
    }

    /// Notes an access to consecutive elements, or a read of the same element in each iteration.
    fn access(&mut self, access: &'p Access, element: Element, is_store: bool) -> Option<()> {
        self.sized(element)?;
        let (mine, others): (Vec<_>, Vec<_>) = access.terms.iter().partition(|(value, _)| *value == self.index);
        let moves = match mine[..] {
            [] => false,
            [(_, stride)] => usize::try_from(stride).is_ok_and(|stride| stride == element.size()).then_some(true)?,
            _ => return None,
        };
        (moves || !is_store).then_some(())?;
        self.uses.push(Use { access, others, moves, is_store });
        Some(())
    }

    /// Returns whether no iteration reads or writes what another iteration writes. Each access that moves covers
    /// `bytes` bytes during the loop.
    fn is_independent(&self, bytes: usize, size: usize) -> bool {
        let covered = |of: &Use<'_>| if of.moves { bytes } else { size };
        let apart = |a: &Use<'_>, b: &Use<'_>| {
            let (first, second) = (a.access.offset, b.access.offset);
            a.others == b.others
                && (first.checked_add(covered(a)).is_some_and(|end| end <= second)
                    || second.checked_add(covered(b)).is_some_and(|end| end <= first)
                    || (first == second && a.moves && b.moves))
        };
        let stores = self.uses.iter().filter(|of| of.is_store);
        stores
            .flat_map(|store| self.uses.iter().map(move |of| (store, of)))
            .all(|(store, of)| store.access.array != of.access.array || apart(store, of))
    }
}

/// Returns whether a vector of these elements has this op.
fn has_unary(op: Unary, element: Element) -> bool {
    match op {
        Unary::Abs => element.is_float() || element.is_integer() && element.is_signed(),
        Unary::Negate => element.is_float() || element.is_integer(),
        Unary::Rsqrt | Unary::Sqrt => element.is_float(),
        Unary::Not => element.is_integer(),
        _ => false,
    }
}

/// Returns whether vectors of these elements have this op. Vectors of bytes have no product, and those of 64-bit
/// integers no maximum.
fn has_binary(op: Binary, element: Element) -> bool {
    match op {
        Binary::And | Binary::Or | Binary::Xor => !element.is_float(),
        Binary::Divide => element.is_float(),
        Binary::Multiply => element.is_float() || element.is_integer() && element.size() > 1,
        Binary::Maximum | Binary::Minimum => element.is_float() || element.is_integer() && element.size() < 8,
        Binary::Add | Binary::Subtract => element != Element::Bool,
        _ => false,
    }
}

fn has_compare(kind: stablehlo::ir::ComparisonType, element: Element) -> bool {
    if element.is_float() {
        return kind != stablehlo::ir::ComparisonType::TotalOrder;
    }
    element.is_integer() && (element.is_signed() || element.size() < 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Array;

    /// A loop `to[i] = from[i]` over these elements, with the offsets and the strides of both sides in bytes. With the
    /// stride 0, all iterations use the same element.
    fn copy(
        element: Element,
        count: usize,
        same_array: bool,
        from: (usize, isize),
        to: (usize, isize),
    ) -> Option<usize> {
        let mut program = Program::new();
        let a = program.array(4096, true);
        let b = if same_array { a } else { program.array(4096, true) };
        let (index, x) = (program.value(Element::I64), program.value(element));
        let access = |array: Array, (offset, stride)| {
            let terms = if stride == 0 { Vec::new() } else { vec![(index, stride)] };
            Access { array, offset, terms }
        };
        let load = Statement::Let { result: x, expression: Expression::Load(access(a, from)) };
        let body = Block::new(vec![load, Statement::Store { to: access(b, to), value: x }], Vec::new()).unwrap();
        lanes(&program, count, index, &body)
    }

    #[test]
    fn consecutive_elements_are_vectors() {
        if !is_available() {
            return;
        }
        for element in Element::ALL {
            let (size, stride) = (element.size(), element.size() as isize);
            assert_eq!(copy(element, 100, false, (0, stride), (8, stride)), Some(16 / size), "{element:?}");
            assert_eq!(copy(element, 32 / size, false, (0, stride), (0, stride)), Some(16 / size), "{element:?}");
            assert_eq!(copy(element, 32 / size - 1, false, (0, stride), (0, stride)), None, "less than two vectors");
            assert_eq!(copy(element, 100, false, (0, 2 * stride), (0, stride)), None, "every other element");
            assert_eq!(copy(element, 100, false, (800, -stride), (0, stride)), None, "backwards");
        }
    }

    #[test]
    fn iterations_are_independent() {
        if !is_available() {
            return;
        }
        let within = |from, to| copy(Element::F32, 10, true, (from, 4), (to, 4));
        assert_eq!(within(64, 64), Some(4), "in place");
        assert_eq!((within(0, 40), within(40, 0)), (Some(4), Some(4)), "side by side");
        for (from, to) in [(0, 4), (4, 0), (0, 36), (36, 0), (0, 39), (0, 16), (16, 0)] {
            assert_eq!(within(from, to), None, "{from} to {to}");
        }
        // A read of one element that an iteration writes.
        assert_eq!(copy(Element::F32, 10, true, (8, 0), (0, 4)), None);
        assert_eq!(copy(Element::F32, 10, true, (40, 0), (0, 4)), Some(4));
        assert_eq!(copy(Element::F32, 10, false, (8, 0), (0, 4)), Some(4));
        assert_eq!(copy(Element::F32, 10, false, (0, 4), (8, 0)), None, "all iterations write one element");
    }
}
