//! Translates StableHLO's ops on the lanes of vectors to Cranelift's instructions. [`crate::vector`] lists the ops.
//! Instructions that are the same for vectors are in [`crate::ops`].

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use stablehlo::ir::{Binary, Unary};

use crate::ir::Element;
use crate::ops::{Ops, type_of};

/// Returns the type of a vector of elements.
pub(crate) fn vector_of(element: Element, lanes: usize) -> Option<Type> {
    type_of(element).by(u32::try_from(lanes).ok()?)
}

impl Ops<'_, '_> {
    /// Emits a vector of equal elements.
    pub(crate) fn splat(&mut self, element: Element, lanes: usize, value: Value) -> Option<Value> {
        let ty = vector_of(element, lanes)?;
        Some(self.builder.ins().splat(ty, value))
    }

    pub(crate) fn vector_unary(&mut self, op: Unary, element: Element, lanes: usize, x: Value) -> Option<Value> {
        match op {
            Unary::Abs if element.is_integer() => Some(self.builder.ins().iabs(x)),
            Unary::Not => Some(self.builder.ins().bnot(x)),
            Unary::Rsqrt => {
                let one = if element == Element::F64 {
                    self.builder.ins().f64const(1.0)
                } else {
                    self.builder.ins().f32const(1.0)
                };
                let (one, root) = (self.splat(element, lanes, one)?, self.builder.ins().sqrt(x));
                Some(self.builder.ins().fdiv(one, root))
            }
            _ => self.unary(op, element, x),
        }
    }

    pub(crate) fn vector_binary(&mut self, op: Binary, element: Element, a: Value, b: Value) -> Option<Value> {
        match op {
            Binary::Maximum | Binary::Minimum if element.is_float() => {
                Some(self.vector_extreme(a, b, op == Binary::Maximum))
            }
            _ => self.binary(op, element, a, b),
        }
    }

    /// Chooses each lane of `a` if the bits of the lane of `mask` are 1, and of `b` if they are 0.
    pub(crate) fn chosen_lanes(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let mask = self.bits(mask, self.type_of(a));
        self.builder.ins().bitselect(mask, a, b)
    }

    /// Emits the maximum or minimum of floats, as [`crate::ops`] describes it.
    fn vector_extreme(&mut self, a: Value, b: Value, largest: bool) -> Value {
        let ty = self.type_of(a);
        let (x, y) = (self.bits(a, ty.as_int()), self.bits(b, ty.as_int()));
        let equal = if largest { self.builder.ins().band(x, y) } else { self.builder.ins().bor(x, y) };
        let equal = self.bits(equal, ty);
        let order = if largest { FloatCC::GreaterThan } else { FloatCC::LessThan };
        let first = self.builder.ins().fcmp(order, a, b);
        let chosen = self.chosen_lanes(first, a, b);
        let same = self.builder.ins().fcmp(FloatCC::Equal, a, b);
        let chosen = self.chosen_lanes(same, equal, chosen);
        let is_nan = self.builder.ins().fcmp(FloatCC::NotEqual, a, a);
        self.chosen_lanes(is_nan, a, chosen)
    }
}
