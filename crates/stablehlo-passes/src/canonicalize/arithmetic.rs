//! Identities of elementwise ops.

use stablehlo::ir::{
    Binary, ComparisonDirection, ElementType, Literal, Op, OpKind, TensorType, Unary, ValueId, ValueTypes,
};

use super::facts::{Known, Simpler};
use crate::evaluate::{Number, encode, is_float, is_integer};

pub(super) fn simpler(op: &Op, known: &Known, types: &ValueTypes) -> Option<Simpler> {
    let ty = types.static_tensor(*op.results.first()?)?;
    match (&op.kind, &op.operands[..]) {
        (OpKind::Binary(binary), &[a, b]) => Rule { known, ty, a, b }.simpler(*binary),
        (OpKind::Unary(unary), &[x]) => opposite(*unary, known.definition(x)?),
        (OpKind::Convert, &[x]) => convert(x, known, types, ty),
        (OpKind::Select, &[on, yes, no]) => select(on, yes, no, known, types, ty),
        (OpKind::Compare { direction, compare_type }, &[a, b]) => {
            let of = types.static_tensor(a)?.element;
            if a == b && (is_integer(of) || of == ElementType::Bool) {
                use ComparisonDirection as D;
                let holds = matches!(direction, D::Eq | D::Ge | D::Le);
                return Simpler::constant(Literal::new(ty.clone(), splat(ty, vec![u8::from(holds)])).ok());
            }
            let is_swapped = known.literal(a).is_some() && known.literal(b).is_none();
            let (direction, compare_type) = (direction.mirrored(), *compare_type);
            is_swapped.then(|| Simpler::op(OpKind::Compare { direction, compare_type }, &[b, a]))?
        }
        _ => None,
    }
}

/// Returns the data of a constant of equal elements.
fn splat(ty: &TensorType, element: Vec<u8>) -> Vec<u8> {
    if ty.num_elements() == Some(0) { Vec::new() } else { element }
}

/// An elementwise op of two operands.
struct Rule<'k> {
    known: &'k Known,
    ty: &'k TensorType,
    a: ValueId,
    b: ValueId,
}

impl Rule<'_> {
    fn simpler(&self, op: Binary) -> Option<Simpler> {
        use Binary as B;
        let (a, b, element) = (self.a, self.b, self.ty.element);
        let is_whole = is_integer(element) || element == ElementType::Bool;
        if op == B::Complex {
            return match (self.known.definition(a)?, self.known.definition(b)?) {
                ((OpKind::Unary(Unary::Real), [re]), (OpKind::Unary(Unary::Imag), [im])) if re == im => {
                    Some(Simpler::Value(*re))
                }
                _ => None,
            };
        }
        if !is_whole && !is_float(element) {
            return None;
        }
        if matches!(op, B::Add | B::Multiply | B::And | B::Or | B::Xor | B::Maximum | B::Minimum)
            && self.known.literal(a).is_some()
            && self.known.literal(b).is_none()
        {
            return Simpler::op(OpKind::Binary(op), &[b, a]);
        }
        if a == b {
            match op {
                B::And | B::Or | B::Maximum | B::Minimum => return Some(Simpler::Value(a)),
                B::Xor | B::Subtract if is_whole => return self.constant(0),
                _ => {}
            }
        }
        match op {
            // The sum of 0.0 and -0.0 is 0.0, so only -0.0 changes nothing.
            B::Add if self.is_number(0, -0.0) => Some(Simpler::Value(a)),
            B::Subtract if self.is_number(0, 0.0) => Some(Simpler::Value(a)),
            B::Multiply | B::Divide if self.is_number(1, 1.0) => Some(Simpler::Value(a)),
            B::Multiply | B::And if self.is_integer(0) => self.constant(0),
            B::And if self.is_ones() => Some(Simpler::Value(a)),
            B::Or if self.is_ones() => self.constant(-1),
            B::Or | B::Xor | B::ShiftLeft | B::ShiftRightArithmetic | B::ShiftRightLogical if self.is_integer(0) => {
                Some(Simpler::Value(a))
            }
            B::Remainder if self.is_integer(1) => self.constant(0),
            _ => None,
        }
    }

    /// Returns whether the second operand is this integer, or this float with the same sign.
    fn is_number(&self, integer: i128, float: f64) -> bool {
        match self.known.number(self.b) {
            // The sum of two booleans is their disjunction, and the product their conjunction.
            Some(Number::Integer(number)) => number == integer,
            Some(Number::Float(number)) => number.to_bits() == float.to_bits(),
            None => false,
        }
    }

    fn is_integer(&self, integer: i128) -> bool {
        self.known.number(self.b).and_then(Number::integer) == Some(integer)
    }

    /// Returns whether all bits of the second operand are set.
    fn is_ones(&self) -> bool {
        let ones = encode(self.ty.element, Number::Integer(-1));
        ones.is_some_and(|ones| self.known.literal(self.b).is_some_and(|literal| literal.data == ones))
    }

    /// Returns a constant of integers, of which -1 has all bits set.
    fn constant(&self, number: i128) -> Option<Simpler> {
        let data = splat(self.ty, encode(self.ty.element, Number::Integer(number))?);
        Simpler::constant(Literal::new(self.ty.clone(), data).ok())
    }
}

/// Simplifies a unary op on the result of another op.
fn opposite(unary: Unary, of: (&OpKind, &[ValueId])) -> Option<Simpler> {
    match (unary, of) {
        (Unary::Not, (OpKind::Unary(Unary::Not), &[x]))
        | (Unary::Negate, (OpKind::Unary(Unary::Negate), &[x]))
        | (Unary::Real, (OpKind::Binary(Binary::Complex), &[x, _]))
        | (Unary::Imag, (OpKind::Binary(Binary::Complex), &[_, x])) => Some(Simpler::Value(x)),
        _ => None,
    }
}

/// Removes a conversion to the same type, and one back from a type that represents all numbers of the other one.
fn convert(x: ValueId, known: &Known, types: &ValueTypes, ty: &TensorType) -> Option<Simpler> {
    let middle = types.static_tensor(x)?;
    if middle == ty {
        return Some(Simpler::Value(x));
    }
    let (OpKind::Convert, &[from]) = known.definition(x)? else { return None };
    (types.static_tensor(from)? == ty && represents(middle.element, ty.element)).then_some(Simpler::Value(from))
}

/// Returns whether a type represents all numbers of another one.
fn represents(wide: ElementType, narrow: ElementType) -> bool {
    use ElementType as E;
    let is_number = |element| is_integer(element) || is_float(element);
    if narrow == E::Bool {
        return is_number(wide);
    }
    if !is_number(wide) || !is_number(narrow) {
        return false;
    }
    let mantissa = |element| match element {
        E::Bf16 => 8,
        E::F16 => 11,
        E::F32 => 24,
        _ => 53,
    };
    match (is_float(wide), is_float(narrow)) {
        (true, true) => matches!((wide, narrow), (E::F64, _) | (E::F32, E::Bf16 | E::F16)) && wide != narrow,
        (true, false) => narrow.bit_width() - u32::from(narrow.is_signed_integer()) <= mantissa(wide),
        (false, true) => false,
        (false, false) if wide.is_signed_integer() == narrow.is_signed_integer() => {
            wide.bit_width() > narrow.bit_width()
        }
        (false, false) => wide.is_signed_integer() && wide.bit_width() > narrow.bit_width(),
    }
}

fn select(
    on: ValueId,
    yes: ValueId,
    no: ValueId,
    known: &Known,
    types: &ValueTypes,
    ty: &TensorType,
) -> Option<Simpler> {
    if let Some(on) = known.is_true(on) {
        return Some(Simpler::Value(if on { yes } else { no }));
    }
    if yes == no {
        return Some(Simpler::Value(yes));
    }
    if let Some((OpKind::Unary(Unary::Not), &[not])) = known.definition(on) {
        return Simpler::op(OpKind::Select, &[not, no, yes]);
    }
    if ty.element != ElementType::Bool || types.static_tensor(on)? != ty {
        return None;
    }
    match (known.is_true(yes)?, known.is_true(no)?) {
        (true, false) => Some(Simpler::Value(on)),
        (false, true) => Simpler::op(OpKind::Unary(Unary::Not), &[on]),
        _ => None,
    }
}
