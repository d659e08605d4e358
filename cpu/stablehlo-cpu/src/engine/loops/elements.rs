//! Translates steps on very small arrays, whose elements are kept in registers.

use stablehlo::ir::Binary;
use stablehlo_jit::{Access, Element, Expression, Value, has_binary};

use super::signature::{element_of, signature};
use super::translator::{Representation, Translator};
use crate::engine::elementwise::Map;
use crate::engine::graph::{Node, Op, ValueIndex};
use crate::engine::kernels::fold::IN_ORDER;
use crate::engine::kernels::reduce::{Extents, Reduce, TOGETHER};
use crate::engine::kernels::shape::Concatenate;

impl Translator<'_> {
    /// Returns the number of registers that hold a value between iterations and after branches. Returns `None` for
    /// arrays in memory.
    pub(super) fn registers(&self, v: ValueIndex) -> Option<usize> {
        let n = self.graph_value(v).n;
        let fits = n == 1 || (1..=self.most).contains(&n) && !self.indexed.contains(v) && self.element(v).is_some();
        fits.then_some(n)
    }

    /// Returns whether a value is currently an array in registers.
    pub(super) fn is_in_registers(&self, v: ValueIndex) -> bool {
        matches!(self.representations.get(&v), Some(Representation::Elements(_)))
    }

    /// Returns element `i` of a value, reinterpreted as a type of the same size. Every element of a scalar or a
    /// constant of equal elements is the same.
    pub(super) fn element_at(&mut self, v: ValueIndex, i: usize, element: Element) -> Option<Value> {
        let value = match self.representations.get(&v) {
            Some(&Representation::Elements(first)) => *self.elements.get(first + i)?,
            Some(&Representation::Array(place)) if self.graph_value(v).n > 1 => {
                let own = self.element(v)?;
                let from = Access { array: place.array, offset: place.start + i * own.size(), terms: Vec::new() };
                self.define(own, Expression::Load(from))
            }
            _ => return self.scalar_as(v, element),
        };
        self.bits(value, element)
    }

    /// Returns the elements of `v` in the type of `like`. Returns no elements if `like` is not in registers.
    pub(super) fn in_registers(&mut self, v: ValueIndex, like: ValueIndex) -> Option<Vec<Value>> {
        let Some(count) = self.registers(like) else { return Some(Vec::new()) };
        let element = self.element(like)?;
        (0..count).map(|i| self.element_at(v, i, element)).collect()
    }

    /// Records the registers that hold the elements of a value.
    pub(super) fn hold_elements(&mut self, v: ValueIndex, elements: &[Value]) -> Option<()> {
        if let &[value] = elements {
            return self.hold(v, value);
        }
        let (element, first) = (self.element(v)?, self.elements.len());
        for &value in elements {
            let value = self.bits(value, element)?;
            self.elements.push(value);
        }
        self.representations.insert(v, Representation::Elements(first));
        Some(())
    }

    /// Moves an array from registers to memory until the step ends.
    pub(super) fn store(&mut self, v: ValueIndex) -> Option<()> {
        if self.is_in_registers(v) {
            let place = self.temporary(v)?;
            self.copy_to(v, place)?;
            if let Some(held) = self.representations.insert(v, Representation::Array(place)) {
                self.stored.push((v, held));
            }
        }
        Some(())
    }

    /// Restores the representations of arrays that [`Self::store`] moved to memory.
    pub(super) fn forget_stored(&mut self) {
        self.representations.extend(self.stored.drain(..));
    }

    /// Translates an elementwise node on very small arrays, element by element.
    pub(super) fn small(&mut self, node: &Node) -> Option<()> {
        let out = node.outs[0];
        let (own, n) = (self.element(out)?, self.graph_value(out).n);
        let mut elements = Vec::with_capacity(n);
        for i in 0..n {
            elements.push(match &node.op {
                Op::Map(Map { meaning, .. }) => {
                    let meaning = (*meaning)?;
                    let mut operands = Vec::with_capacity(node.ins.len());
                    for (&v, element) in node.ins.iter().zip(&signature(meaning)?.operands) {
                        operands.push(self.element_at(v, i, element.unwrap_or(own))?);
                    }
                    self.compute(meaning, &operands)?
                }
                Op::Load(view) => self.element_at(node.ins[0], view.position(i), own)?,
                Op::Iota(iota) => {
                    let (step, extent) = iota.shape();
                    let position = u64::try_from(i / step % extent).ok()?.to_ne_bytes();
                    let position = self.define(Element::I64, Expression::Constant(position));
                    self.define(element_of(iota.dtype())?, Expression::Convert(position))
                }
                Op::Copy => self.element_at(node.ins[0], i, own)?,
                _ => return None,
            });
        }
        self.hold_elements(out, &elements)
    }

    /// Translates a concatenation whose result is an array in registers.
    pub(super) fn joined(&mut self, concatenate: &Concatenate, node: &Node) -> Option<()> {
        let out = node.outs[0];
        let element = self.element(out)?;
        let rows = self.graph_value(out).bytes().checked_div(concatenate.row)?;
        let mut elements = Vec::with_capacity(self.graph_value(out).n);
        for row in 0..rows {
            for (&v, &chunk) in node.ins.iter().zip(&concatenate.chunks) {
                let count = chunk / element.size();
                for i in 0..count {
                    elements.push(self.element_at(v, row * count + i, element)?);
                }
            }
        }
        self.hold_elements(out, &elements)
    }

    /// Translates a reduction of a very small array. The code combines the elements in the same order as the
    /// interpreter.
    pub(super) fn reduce(&mut self, reduce: &Reduce, node: &Node) -> Option<()> {
        let &Reduce { extents: Extents { outer, reduced, inner }, op, dtype, .. } = reduce;
        let (x, out) = (node.ins[0], node.outs[0]);
        let element = element_of(dtype)?;
        let n = self.graph_value(x).n;
        if n == 0 || n > self.most || reduced >= IN_ORDER || !has_binary(op, element) {
            return None;
        }
        let init = self.scalar_as(node.ins[1], element)?;
        let mut elements = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            for i in 0..inner {
                let at = |row: usize| (o * reduced + row) * inner + i;
                let row = (0..reduced).map(|row| self.element_at(x, at(row), element));
                let mut row = row.collect::<Option<Vec<Value>>>()?;
                if inner > 1 {
                    row = self.together(op, element, &row);
                }
                let all = row.into_iter().reduce(|a, b| self.define(element, Expression::Binary(op, a, b)))?;
                elements.push(self.define(element, Expression::Binary(op, init, all)));
            }
        }
        self.hold_elements(out, &elements)
    }

    /// Combines the elements of each group of [`TOGETHER`] elements of a column, and appends the remaining elements.
    /// The interpreter also does so before it combines the groups with the result of the column.
    fn together(&mut self, op: Binary, element: Element, column: &[Value]) -> Vec<Value> {
        let (groups, rest) = column.as_chunks::<TOGETHER>();
        let mut combined = Vec::with_capacity(groups.len() + rest.len());
        for &[a, b, c, d] in groups {
            let front = self.define(element, Expression::Binary(op, a, b));
            let back = self.define(element, Expression::Binary(op, c, d));
            combined.push(self.define(element, Expression::Binary(op, front, back)));
        }
        combined.extend(rest);
        combined
    }
}
