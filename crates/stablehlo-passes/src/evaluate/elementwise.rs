//! Elementwise ops on constants.

use std::cmp::Ordering;

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, ElementType, Literal, OpKind, TensorType, Unary};

use super::number::{Number, decode, encode, is_float, is_integer, single, wrap};
use super::values::{MAX_ELEMENTS, element, splat, uniform};

/// Integers up to this magnitude are exact in `f64`.
const EXACT: u128 = 1 << 53;

pub(super) fn evaluate(kind: &OpKind, ty: &TensorType, operands: &[&Literal]) -> Option<Literal> {
    let count = ty.num_elements()?;
    // A scalar predicate or bound applies to all elements.
    let fits = |operand: &&Literal| operand.ty.shape == ty.shape || operand.ty.rank() == 0;
    if operands.is_empty() || !operands.iter().all(fits) {
        return None;
    }
    let compute = |index: usize| -> Option<Vec<u8>> {
        let at = |operand: &'_ &Literal| if operand.ty.rank() == 0 { 0 } else { index };
        if let (OpKind::Select, &[on, yes, no]) = (kind, operands) {
            let chosen = if element(on, at(&on))? == [0] { no } else { yes };
            return Some(element(chosen, at(&chosen))?.to_vec());
        }
        let number = |operand: &&Literal| decode(operand.ty.element, element(operand, at(operand))?);
        let from = operands[0].ty.element;
        let result = match operands {
            [x] => unary(kind, from, ty.element, number(x)?)?,
            [a, b] => binary(kind, from, number(a)?, number(b)?)?,
            [low, x, high] if matches!(kind, OpKind::Clamp) => {
                let bounded = minmax(number(x)?, number(low)?, Ordering::Greater)?;
                minmax(bounded, number(high)?, Ordering::Less)?
            }
            _ => return None,
        };
        encode(ty.element, result)
    };
    if operands.iter().all(|operand| uniform(operand).is_some()) {
        return splat(ty, compute(0)?);
    }
    if count > MAX_ELEMENTS {
        return None;
    }
    let bytes: Option<Vec<Vec<u8>>> = (0..count).map(compute).collect();
    Literal::new(ty.clone(), bytes?.concat()).ok()
}

fn unary(kind: &OpKind, from: ElementType, to: ElementType, x: Number) -> Option<Number> {
    match kind {
        OpKind::Convert => convert(to, x),
        OpKind::Unary(op) => match x {
            Number::Integer(x) => integer_unary(*op, from, x).map(Number::Integer),
            Number::Float(x) => float_unary(*op, from, x),
        },
        _ => None,
    }
}

fn convert(to: ElementType, x: Number) -> Option<Number> {
    Some(match x {
        Number::Float(x) if x.is_nan() => return None,
        Number::Float(x) if to == ElementType::Bool => Number::Integer(i128::from(x != 0.0)),
        Number::Float(x) if is_integer(to) => {
            #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and the range is checked")]
            let whole = x.trunc() as i128;
            Number::Integer(Some(whole).filter(|&whole| wrap(to, whole) == whole)?)
        }
        Number::Float(_) => x,
        Number::Integer(x) if is_float(to) => Number::Float(match to {
            ElementType::F64 => x as f64,
            ElementType::F32 => f64::from(x as f32),
            _ if x.unsigned_abs() <= EXACT => x as f64,
            _ => return None,
        }),
        Number::Integer(_) => x,
    })
}

fn integer_unary(op: Unary, element: ElementType, x: i128) -> Option<i128> {
    let bits = i128::from(element.bit_width());
    let pattern = x & ((1 << bits) - 1);
    if element == ElementType::Bool {
        return (op == Unary::Not).then_some(x ^ 1);
    }
    Some(match op {
        // The magnitude of the least integer is out of range.
        Unary::Abs => Some(x.abs()).filter(|&magnitude| wrap(element, magnitude) == magnitude)?,
        Unary::CountLeadingZeros => i128::from(pattern.leading_zeros()) - (128 - bits),
        Unary::Negate => -x,
        Unary::Not => !x,
        Unary::Popcnt => i128::from(pattern.count_ones()),
        Unary::Sign => x.signum(),
        _ => return None,
    })
}

fn float_unary(op: Unary, element: ElementType, x: f64) -> Option<Number> {
    if op == Unary::IsFinite {
        return Some(Number::Integer(i128::from(x.is_finite())));
    }
    Some(Number::Float(match op {
        _ if x.is_nan() => return None,
        Unary::Abs => x.abs(),
        Unary::Ceil => x.ceil(),
        Unary::Floor => x.floor(),
        Unary::Negate => -x,
        Unary::RoundNearestAfz => x.round(),
        Unary::RoundNearestEven => x.round_ties_even(),
        Unary::Sign if x == 0.0 => x,
        Unary::Sign => x.signum(),
        Unary::Sqrt if element == ElementType::F64 => x.sqrt(),
        Unary::Sqrt => f64::from(single(x).sqrt()),
        _ => return None,
    }))
}

fn binary(kind: &OpKind, element: ElementType, a: Number, b: Number) -> Option<Number> {
    match (kind, a, b) {
        (OpKind::Compare { direction, compare_type }, ..) => {
            compare(*direction, *compare_type, a, b).map(|holds| Number::Integer(i128::from(holds)))
        }
        (OpKind::Binary(Binary::Maximum), ..) => minmax(a, b, Ordering::Greater),
        (OpKind::Binary(Binary::Minimum), ..) => minmax(a, b, Ordering::Less),
        (OpKind::Binary(op), Number::Integer(a), Number::Integer(b)) => {
            let result = if element == ElementType::Bool { logical(*op, a, b) } else { integer(*op, element, a, b) };
            result.map(Number::Integer)
        }
        (OpKind::Binary(op), Number::Float(a), Number::Float(b)) => float(*op, element, a, b).map(Number::Float),
        _ => None,
    }
}

fn compare(direction: ComparisonDirection, compare_type: ComparisonType, a: Number, b: Number) -> Option<bool> {
    use ComparisonDirection as D;
    let order = match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
        (Number::Float(a), Number::Float(b)) => {
            let is_ieee = matches!(compare_type, ComparisonType::NoType | ComparisonType::Float);
            // In other orders, the result may depend on the sign of zero, or on the bits of a NaN.
            if !is_ieee && (a.is_nan() || b.is_nan() || (a == 0.0 && b == 0.0)) {
                return None;
            }
            a.partial_cmp(&b)
        }
        _ => return None,
    };
    Some(match direction {
        D::Eq => order == Some(Ordering::Equal),
        D::Ne => order != Some(Ordering::Equal),
        D::Ge => order.is_some_and(Ordering::is_ge),
        D::Gt => order.is_some_and(Ordering::is_gt),
        D::Le => order.is_some_and(Ordering::is_le),
        D::Lt => order.is_some_and(Ordering::is_lt),
    })
}

/// Returns the number that is on this side of the other one. The positive zero is greater than the negative one.
fn minmax(a: Number, b: Number, side: Ordering) -> Option<Number> {
    let order = match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
        (Number::Float(a), Number::Float(b)) if !a.is_nan() && !b.is_nan() => a.total_cmp(&b),
        _ => return None,
    };
    Some(if order == side { a } else { b })
}

fn logical(op: Binary, a: i128, b: i128) -> Option<i128> {
    match op {
        Binary::Add | Binary::Or => Some(a | b),
        Binary::Multiply | Binary::And => Some(a & b),
        Binary::Xor => Some(a ^ b),
        _ => None,
    }
}

fn integer(op: Binary, element: ElementType, a: i128, b: i128) -> Option<i128> {
    let bits = i128::from(element.bit_width());
    let shift = u32::try_from(b).ok().filter(|_| b < bits);
    Some(match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a.wrapping_mul(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        // The quotient of the least integer and -1 is out of range.
        Binary::Divide => a.checked_div(b).filter(|&quotient| wrap(element, quotient) == quotient)?,
        Binary::Remainder if wrap(element, a.checked_div(b)?) == a / b => a % b,
        Binary::ShiftLeft => a << shift?,
        Binary::ShiftRightLogical => (a & ((1 << bits) - 1)) >> shift?,
        // Fills with the highest bit of the type, also for unsigned types.
        Binary::ShiftRightArithmetic => ((a << (128 - bits)) >> (128 - bits)) >> shift?,
        _ => return None,
    })
}

/// Computes with numbers narrower than `f64` in `f32`. The caller rounds the result again, which gives the nearest
/// number, because `f32` has more than twice as many bits as `f16` and `bf16`.
fn float(op: Binary, element: ElementType, a: f64, b: f64) -> Option<f64> {
    macro_rules! computed {
        ($a:expr, $b:expr) => {
            match op {
                Binary::Add => $a + $b,
                Binary::Subtract => $a - $b,
                Binary::Multiply => $a * $b,
                Binary::Divide => $a / $b,
                Binary::Remainder => $a % $b,
                _ => return None,
            }
        };
    }
    Some(if element == ElementType::F64 { computed!(a, b) } else { f64::from(computed!(single(a), single(b))) })
}
