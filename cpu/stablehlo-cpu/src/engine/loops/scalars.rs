//! Translates elementwise functions of scalars.

use stablehlo::ir::{Binary, Unary};
use stablehlo_jit::{Element, Expression, Value, has_binary, has_fused_multiply_add, has_unary};

use super::functions;
use super::signature::element_of;
use super::translator::Translator;
use crate::engine::elementwise::Meaning;

impl Translator<'_> {
    /// Adds the computation of a function of scalars. The operands must have the types of the function's signature.
    pub(super) fn compute(&mut self, meaning: Meaning, operands: &[Value]) -> Option<Value> {
        let element = self.program.element(*operands.last()?);
        Some(match (meaning, operands) {
            (Meaning::Unary(op, dtype), &[a]) => {
                let result = if op == Unary::IsFinite { Element::Bool } else { element };
                let expression = if has_unary(op, element) {
                    Expression::Unary(op, a)
                } else {
                    Expression::Call(functions::unary(op, dtype)?, vec![a])
                };
                self.define(result, expression)
            }
            (Meaning::Binary(op, dtype), &[a, b]) => {
                let expression = if has_binary(op, element) {
                    Expression::Binary(op, a, b)
                } else {
                    Expression::Call(functions::binary(op, dtype)?, vec![a, b])
                };
                self.define(element, expression)
            }
            (Meaning::Compare(direction, kind, _), &[a, b]) => {
                self.define(Element::Bool, Expression::Compare(direction, kind, a, b))
            }
            (Meaning::Select, &[p, a, b]) => self.define(element, Expression::Select(p, a, b)),
            (Meaning::Clamp(_), &[low, x, high]) => {
                let x = self.define(element, Expression::Binary(Binary::Maximum, low, x));
                self.define(element, Expression::Binary(Binary::Minimum, x, high))
            }
            (Meaning::Fma(dtype), &[a, b, c]) => {
                let expression = if has_fused_multiply_add() {
                    Expression::FusedMultiplyAdd(a, b, c)
                } else {
                    Expression::Call(functions::fma(dtype)?, vec![a, b, c])
                };
                self.define(element, expression)
            }
            (Meaning::Convert(_, to), &[a]) => self.define(element_of(to)?, Expression::Convert(a)),
            _ => return None,
        })
    }
}
