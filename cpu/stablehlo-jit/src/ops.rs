//! Translates StableHLO's ops to Cranelift's instructions.
//!
//! For divisions by zero, large shifts and some conversions, Cranelift's instructions trap or return other results than
//! StableHLO requires. StableHLO or the engine in `stablehlo-cpu` defines all these cases. An integer divided by zero
//! is -1, and its remainder is the dividend. A shift that moves all bits out of the operand gives 0 or copies of the
//! sign bit. A float that is converted to an integer saturates, and NaN becomes 0. The maximum or minimum of a number
//! and NaN is NaN, and +0 is larger than -0.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use crate::ir::Element;

/// Returns the register type of an element type.
pub(crate) fn type_of(element: Element) -> Type {
    match element {
        Element::Bool | Element::I8 | Element::U8 => types::I8,
        Element::I16 | Element::U16 => types::I16,
        Element::I32 | Element::U32 => types::I32,
        Element::I64 | Element::U64 => types::I64,
        Element::F32 => types::F32,
        Element::F64 => types::F64,
    }
}

/// Returns the type of a vector of elements.
pub(crate) fn vector_of(element: Element, lanes: usize) -> Option<Type> {
    type_of(element).by(u32::try_from(lanes).ok()?)
}

/// Returns the integer type with as many bits as a type.
fn bits_type(ty: Type) -> Type {
    ty.as_int()
}

/// Emits ops into a function. Methods return the value that an instruction defines.
pub(crate) struct Ops<'a, 'f> {
    pub(crate) builder: &'a mut FunctionBuilder<'f>,
}

impl Ops<'_, '_> {
    /// Emits an integer constant.
    pub(crate) fn int(&mut self, ty: Type, n: i64) -> Value {
        let masked = if ty.bits() == 64 { n } else { n & ((1 << ty.bits()) - 1) };
        self.builder.ins().iconst(ty, masked)
    }

    /// Emits the constant with these bytes.
    pub(crate) fn constant(&mut self, element: Element, bytes: [u8; 8]) -> Value {
        let [a, b, c, d, ..] = bytes;
        let narrow = [a, b, c, d];
        match element {
            Element::F32 => self.builder.ins().f32const(f32::from_ne_bytes(narrow)),
            Element::F64 => self.builder.ins().f64const(f64::from_ne_bytes(bytes)),
            Element::I64 | Element::U64 => self.int(types::I64, i64::from_ne_bytes(bytes)),
            Element::I32 | Element::U32 => self.int(types::I32, i64::from(i32::from_ne_bytes(narrow))),
            Element::I16 | Element::U16 => self.int(types::I16, i64::from(i16::from_ne_bytes([a, b]))),
            Element::Bool | Element::I8 | Element::U8 => self.int(types::I8, i64::from(a)),
        }
    }

    fn float(&mut self, ty: Type, x: f64) -> Value {
        if ty == types::F64 {
            self.builder.ins().f64const(x)
        } else {
            // All constants that are passed here are exact in both types.
            #[expect(clippy::cast_possible_truncation, reason = "exact")]
            self.builder.ins().f32const(x as f32)
        }
    }

    /// Reinterprets the bits as a type of the same size.
    pub(crate) fn bits(&mut self, x: Value, to: Type) -> Value {
        if self.type_of(x) == to { x } else { self.builder.ins().bitcast(to, MemFlagsData::new(), x) }
    }

    pub(crate) fn type_of(&self, x: Value) -> Type {
        self.builder.func.dfg.value_type(x)
    }

    /// Emits an op for which [`has_unary`](crate::has_unary) is true. Returns `None` for other ops.
    pub(crate) fn unary(&mut self, op: Unary, element: Element, x: Value) -> Option<Value> {
        let ty = type_of(element);
        if element.is_float() {
            return self.float_unary(op, ty, x);
        }
        Some(match op {
            Unary::Negate => self.builder.ins().ineg(x),
            Unary::Abs if element.is_signed() => {
                let negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, x, 0);
                let opposite = self.builder.ins().ineg(x);
                self.builder.ins().select(negative, opposite, x)
            }
            Unary::Abs => x,
            Unary::Sign => {
                let (zero, one, minus) = (self.int(ty, 0), self.int(ty, 1), self.int(ty, -1));
                let is_zero = self.builder.ins().icmp(IntCC::Equal, x, zero);
                let mut sign = one;
                if element.is_signed() {
                    let negative = self.builder.ins().icmp(IntCC::SignedLessThan, x, zero);
                    sign = self.builder.ins().select(negative, minus, one);
                }
                self.builder.ins().select(is_zero, zero, sign)
            }
            Unary::CountLeadingZeros => {
                let wide = self.widened(x);
                let zeros = self.builder.ins().clz(wide);
                let more = i64::from(self.type_of(wide).bits()) - i64::from(ty.bits());
                let more = self.int(self.type_of(wide), more);
                let zeros = self.builder.ins().isub(zeros, more);
                self.narrowed(zeros, ty)
            }
            Unary::Popcnt => {
                let wide = self.widened(x);
                let ones = self.builder.ins().popcnt(wide);
                self.narrowed(ones, ty)
            }
            Unary::Not if element == Element::Bool => {
                let one = self.int(ty, 1);
                self.builder.ins().bxor(x, one)
            }
            Unary::Not => self.builder.ins().bnot(x),
            _ => return None,
        })
    }

    fn float_unary(&mut self, op: Unary, ty: Type, x: Value) -> Option<Value> {
        Some(match op {
            Unary::Abs => self.builder.ins().fabs(x),
            Unary::Negate => self.builder.ins().fneg(x),
            Unary::Ceil => self.builder.ins().ceil(x),
            Unary::Floor => self.builder.ins().floor(x),
            Unary::RoundNearestEven => self.builder.ins().nearest(x),
            Unary::Sqrt => self.builder.ins().sqrt(x),
            Unary::Rsqrt => {
                let one = self.float(ty, 1.0);
                let root = self.builder.ins().sqrt(x);
                self.builder.ins().fdiv(one, root)
            }
            Unary::Sign => {
                let (zero, one) = (self.float(ty, 0.0), self.float(ty, 1.0));
                let signed = self.builder.ins().fcopysign(one, x);
                let same = self.builder.ins().fcmp(FloatCC::UnorderedOrEqual, x, zero);
                self.builder.ins().select(same, x, signed)
            }
            Unary::IsFinite => {
                let (magnitude, infinity) = (self.builder.ins().fabs(x), self.float(ty, f64::INFINITY));
                self.builder.ins().fcmp(FloatCC::LessThan, magnitude, infinity)
            }
            _ => return None,
        })
    }

    /// Extends an integer with zeros to a register type of at least 32 bits.
    fn widened(&mut self, x: Value) -> Value {
        if self.type_of(x).bits() < 32 { self.builder.ins().uextend(types::I32, x) } else { x }
    }

    fn narrowed(&mut self, x: Value, ty: Type) -> Value {
        if self.type_of(x).bits() > ty.bits() { self.builder.ins().ireduce(ty, x) } else { x }
    }

    /// Emits an op for which [`has_binary`](crate::has_binary) is true. Returns `None` for other ops.
    pub(crate) fn binary(&mut self, op: Binary, element: Element, a: Value, b: Value) -> Option<Value> {
        if element.is_float() {
            return Some(match op {
                Binary::Add => self.builder.ins().fadd(a, b),
                Binary::Subtract => self.builder.ins().fsub(a, b),
                Binary::Multiply => self.builder.ins().fmul(a, b),
                Binary::Divide => self.builder.ins().fdiv(a, b),
                Binary::Maximum => self.extreme(a, b, true),
                Binary::Minimum => self.extreme(a, b, false),
                _ => return None,
            });
        }
        let signed = element.is_signed();
        Some(match (op, element) {
            (Binary::Add | Binary::Maximum | Binary::Or, Element::Bool) => self.builder.ins().bor(a, b),
            (Binary::Multiply | Binary::Minimum, Element::Bool) => self.builder.ins().band(a, b),
            (Binary::Add, _) => self.builder.ins().iadd(a, b),
            (Binary::Subtract, _) => self.builder.ins().isub(a, b),
            (Binary::Multiply, _) => self.builder.ins().imul(a, b),
            (Binary::Maximum, _) if signed => self.builder.ins().smax(a, b),
            (Binary::Maximum, _) => self.builder.ins().umax(a, b),
            (Binary::Minimum, _) if signed => self.builder.ins().smin(a, b),
            (Binary::Minimum, _) => self.builder.ins().umin(a, b),
            (Binary::And, _) => self.builder.ins().band(a, b),
            (Binary::Or, _) => self.builder.ins().bor(a, b),
            (Binary::Xor, _) => self.builder.ins().bxor(a, b),
            (Binary::Divide | Binary::Remainder, _) => self.divided(op == Binary::Divide, signed, a, b),
            (Binary::ShiftLeft, _) => {
                let shifted = self.builder.ins().ishl(a, b);
                self.unless_too_far(shifted, b)
            }
            (Binary::ShiftRightLogical, _) => {
                let shifted = self.builder.ins().ushr(a, b);
                self.unless_too_far(shifted, b)
            }
            (Binary::ShiftRightArithmetic, _) => {
                let ty = self.type_of(b);
                let most = self.int(ty, i64::from(ty.bits()) - 1);
                let by = self.builder.ins().umin(b, most);
                self.builder.ins().sshr(a, by)
            }
            _ => return None,
        })
    }

    /// Returns `shifted`, or zero if the shift by `by` moves all bits out.
    fn unless_too_far(&mut self, shifted: Value, by: Value) -> Value {
        let ty = self.type_of(by);
        let (width, zero) = (self.int(ty, i64::from(ty.bits())), self.int(ty, 0));
        let near = self.builder.ins().icmp(IntCC::UnsignedLessThan, by, width);
        self.builder.ins().select(near, shifted, zero)
    }

    /// Emits a quotient or a remainder. The instructions trap if the divisor is zero or the quotient overflows. A
    /// divisor of 0, and of -1 for signed integers, is therefore replaced with 1.
    fn divided(&mut self, quotient: bool, signed: bool, a: Value, b: Value) -> Value {
        let ty = self.type_of(a);
        let (zero, one, minus) = (self.int(ty, 0), self.int(ty, 1), self.int(ty, -1));
        let by_zero = self.builder.ins().icmp(IntCC::Equal, b, zero);
        let safe = self.builder.ins().select(by_zero, one, b);
        if !signed {
            return if quotient {
                let q = self.builder.ins().udiv(a, safe);
                self.builder.ins().select(by_zero, minus, q)
            } else {
                let r = self.builder.ins().urem(a, safe);
                self.builder.ins().select(by_zero, a, r)
            };
        }
        let by_minus = self.builder.ins().icmp(IntCC::Equal, b, minus);
        let safe = self.builder.ins().select(by_minus, one, safe);
        if quotient {
            let (q, opposite) = (self.builder.ins().sdiv(a, safe), self.builder.ins().ineg(a));
            let q = self.builder.ins().select(by_minus, opposite, q);
            self.builder.ins().select(by_zero, minus, q)
        } else {
            // The replaced divisor is 1. The remainders of divisions by 1 and by -1 are both 0.
            let r = self.builder.ins().srem(a, safe);
            self.builder.ins().select(by_zero, a, r)
        }
    }

    fn extreme(&mut self, a: Value, b: Value, largest: bool) -> Value {
        let ty = self.type_of(a);
        let bits = bits_type(ty);
        let (x, y) = (self.bits(a, bits), self.bits(b, bits));
        // Equal numbers differ at most in their sign bit. The `and` of +0 and -0 is +0, and the `or` is -0.
        let equal = if largest { self.builder.ins().band(x, y) } else { self.builder.ins().bor(x, y) };
        let equal = self.bits(equal, ty);
        let order = if largest { FloatCC::GreaterThan } else { FloatCC::LessThan };
        let first = self.builder.ins().fcmp(order, a, b);
        let chosen = self.builder.ins().select(first, a, b);
        let same = self.builder.ins().fcmp(FloatCC::Equal, a, b);
        let chosen = self.builder.ins().select(same, equal, chosen);
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
        self.builder.ins().select(is_nan, a, chosen)
    }

    /// Emits a comparison for which [`has_compare`](crate::has_compare) is true.
    pub(crate) fn compare(
        &mut self,
        direction: ComparisonDirection,
        kind: ComparisonType,
        element: Element,
        a: Value,
        b: Value,
    ) -> Value {
        use ComparisonDirection::{Eq, Ge, Gt, Le, Lt, Ne};
        if element.is_float() && kind != ComparisonType::TotalOrder {
            let order = match direction {
                Eq => FloatCC::Equal,
                Ne => FloatCC::NotEqual,
                Ge => FloatCC::GreaterThanOrEqual,
                Gt => FloatCC::GreaterThan,
                Le => FloatCC::LessThanOrEqual,
                Lt => FloatCC::LessThan,
            };
            return self.builder.ins().fcmp(order, a, b);
        }
        let (a, b) = if element.is_float() { (self.order_key(a), self.order_key(b)) } else { (a, b) };
        let signed = element.is_signed() && element.is_integer();
        let order = match (direction, signed) {
            (Eq, _) => IntCC::Equal,
            (Ne, _) => IntCC::NotEqual,
            (Ge, true) => IntCC::SignedGreaterThanOrEqual,
            (Gt, true) => IntCC::SignedGreaterThan,
            (Le, true) => IntCC::SignedLessThanOrEqual,
            (Lt, true) => IntCC::SignedLessThan,
            (Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
            (Gt, false) => IntCC::UnsignedGreaterThan,
            (Le, false) => IntCC::UnsignedLessThanOrEqual,
            (Lt, false) => IntCC::UnsignedLessThan,
        };
        self.builder.ins().icmp(order, a, b)
    }

    /// Converts a float to an integer whose unsigned order is the total order of floats.
    fn order_key(&mut self, x: Value) -> Value {
        let ty = bits_type(self.type_of(x));
        let bits = self.bits(x, ty);
        let last = i64::from(ty.bits()) - 1;
        let sign = self.builder.ins().sshr_imm_s(bits, last);
        let top = self.int(ty, 1 << last);
        let mask = self.builder.ins().bor(sign, top);
        self.builder.ins().bxor(bits, mask)
    }

    /// Emits a test whether `x`, a `Bool` in memory, is not 0.
    pub(crate) fn is_true(&mut self, x: Value) -> Value {
        self.builder.ins().icmp_imm_s(IntCC::NotEqual, x, 0)
    }

    /// Emits a test whether `x`, a `Bool` in memory, is 1.
    pub(crate) fn is_one(&mut self, x: Value) -> Value {
        self.builder.ins().icmp_imm_s(IntCC::Equal, x, 1)
    }

    /// Converts a number between element types, as StableHLO's `convert` defines it.
    pub(crate) fn convert(&mut self, from: Element, to: Element, x: Value) -> Value {
        let (source, target) = (type_of(from), type_of(to));
        if from == to {
            return x;
        }
        if to == Element::Bool {
            return if from.is_float() {
                let zero = self.float(source, 0.0);
                self.builder.ins().fcmp(FloatCC::NotEqual, x, zero)
            } else {
                self.is_true(x)
            };
        }
        match (from.is_float(), to.is_float()) {
            (true, true) if source.bits() < target.bits() => self.builder.ins().fpromote(target, x),
            (true, true) => self.builder.ins().fdemote(target, x),
            (false, true) => {
                let wide = self.extended(from, x, types::I32);
                if from.is_signed() {
                    self.builder.ins().fcvt_from_sint(target, wide)
                } else {
                    self.builder.ins().fcvt_from_uint(target, wide)
                }
            }
            (true, false) => self.saturated(to, x),
            (false, false) if source.bits() < target.bits() => self.extended(from, x, target),
            (false, false) => self.narrowed(x, target),
        }
    }

    /// Extends an integer to the register type `least`, unless its register type is already at least as wide.
    pub(crate) fn extended(&mut self, from: Element, x: Value, least: Type) -> Value {
        if type_of(from).bits() >= least.bits() {
            x
        } else if from.is_signed() {
            self.builder.ins().sextend(least, x)
        } else {
            self.builder.ins().uextend(least, x)
        }
    }

    /// Converts a float to an integer, with saturation.
    fn saturated(&mut self, to: Element, x: Value) -> Value {
        let target = type_of(to);
        let wide = if target.bits() < 32 { types::I32 } else { target };
        let n = if to.is_signed() {
            self.builder.ins().fcvt_to_sint_sat(wide, x)
        } else {
            self.builder.ins().fcvt_to_uint_sat(wide, x)
        };
        if wide == target {
            return n;
        }
        let bits = i64::from(target.bits());
        let n = if to.is_signed() {
            let (least, most) = (self.int(wide, -(1 << (bits - 1))), self.int(wide, (1 << (bits - 1)) - 1));
            let n = self.builder.ins().smax(n, least);
            self.builder.ins().smin(n, most)
        } else {
            let most = self.int(wide, (1 << bits) - 1);
            self.builder.ins().umin(n, most)
        };
        self.builder.ins().ireduce(target, n)
    }

    /// Emits a vector of equal elements.
    pub(crate) fn splat(&mut self, element: Element, lanes: usize, value: Value) -> Option<Value> {
        let ty = vector_of(element, lanes)?;
        Some(self.builder.ins().splat(ty, value))
    }

    /// Emits a unary op on the lanes of a vector. [`crate::translate`] chooses the ops.
    pub(crate) fn vector_unary(&mut self, op: Unary, element: Element, lanes: usize, x: Value) -> Option<Value> {
        match op {
            Unary::Abs if element.is_integer() => Some(self.builder.ins().iabs(x)),
            Unary::Not => Some(self.builder.ins().bnot(x)),
            Unary::Rsqrt => {
                let one = self.float(type_of(element), 1.0);
                let (one, root) = (self.splat(element, lanes, one)?, self.builder.ins().sqrt(x));
                Some(self.builder.ins().fdiv(one, root))
            }
            _ => self.unary(op, element, x),
        }
    }

    /// Emits a binary op on the lanes of vectors.
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

    /// Emits the maximum or minimum of floats, with the semantics of [`Self::extreme`].
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
