//! Bitwise operations and shifts of integers.

use burn_ir::{BinaryOpIr, IntOperationIr as I, ScalarOpIr};
use stablehlo::builder::Value;

use super::{Lower, Result};

#[derive(Clone, Copy)]
enum Bits {
    And,
    Or,
    Xor,
    Left,
    Right,
}

impl Lower<'_> {
    pub(super) fn int(&mut self, op: &I) -> Result<()> {
        match op {
            I::IntoFloat(op) => self.set(&op.out, self.value(&op.input)?),
            I::Matmul(op) => self.matmul(op),
            I::BitwiseNot(op) => self.set(&op.out, self.f.not(self.value(&op.input)?)?),
            I::BitwiseAnd(op) => self.bits(op, Bits::And),
            I::BitwiseOr(op) => self.bits(op, Bits::Or),
            I::BitwiseXor(op) => self.bits(op, Bits::Xor),
            I::BitwiseLeftShift(op) => self.bits(op, Bits::Left),
            I::BitwiseRightShift(op) => self.bits(op, Bits::Right),
            I::BitwiseAndScalar(op) => self.bits_with(op, Bits::And),
            I::BitwiseOrScalar(op) => self.bits_with(op, Bits::Or),
            I::BitwiseXorScalar(op) => self.bits_with(op, Bits::Xor),
            I::BitwiseLeftShiftScalar(op) => self.bits_with(op, Bits::Left),
            I::BitwiseRightShiftScalar(op) => self.bits_with(op, Bits::Right),
        }
    }

    fn bits(&mut self, op: &BinaryOpIr, bits: Bits) -> Result<()> {
        let result = self.bit_operation(self.value(&op.lhs)?, self.value(&op.rhs)?, bits)?;
        self.set(&op.out, result)
    }

    fn bits_with(&mut self, op: &ScalarOpIr, bits: Bits) -> Result<()> {
        let x = self.value(&op.lhs)?;
        let scalar = self.constant(op.rhs, self.element(x)?)?;
        let result = self.bit_operation(x, scalar, bits)?;
        self.set(&op.out, result)
    }

    fn bit_operation(&self, x: Value, y: Value, bits: Bits) -> Result<Value> {
        let f = self.f;
        Ok(match bits {
            Bits::And => f.and(x, y)?,
            Bits::Or => f.or(x, y)?,
            Bits::Xor => f.xor(x, y)?,
            Bits::Left => f.shift_left(x, y)?,
            Bits::Right if self.element(x)?.is_signed_integer() => f.shift_right_arithmetic(x, y)?,
            Bits::Right => f.shift_right_logical(x, y)?,
        })
    }
}
