//! Computes ops as StableHLO and the documentation of the crate define them, with 128-bit integers.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};
use stablehlo_jit::Element;

/// Returns the integer with these bits.
pub(crate) fn integer(element: Element, bits: u64) -> i128 {
    let unsigned = i128::from(bits) & ((1 << width(element)) - 1);
    let half = 1i128 << (width(element) - 1);
    if element.is_signed() && unsigned >= half { unsigned - 2 * half } else { unsigned }
}

/// Returns the bits of an integer, without those that do not fit.
pub(crate) fn bits_of(element: Element, n: i128) -> u64 {
    (n & ((1 << width(element)) - 1)) as u64
}

fn width(element: Element) -> u32 {
    element.size() as u32 * 8
}

/// Returns the float with these bits. Every `f32` is also an `f64`.
fn float(element: Element, bits: u64) -> f64 {
    if element == Element::F32 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) }
}

fn float_bits(element: Element, x: f64) -> u64 {
    if element == Element::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() }
}

/// Returns whether the bits are a NaN.
pub(crate) fn is_nan(element: Element, bits: u64) -> bool {
    element.is_float() && float(element, bits).is_nan()
}

/// Computes a unary op.
pub(crate) fn unary(op: Unary, element: Element, a: u64) -> u64 {
    if element.is_float() {
        let x = float(element, a);
        return float_bits(
            element,
            match op {
                Unary::Abs => x.abs(),
                Unary::Negate => -x,
                Unary::Sign if x == 0.0 => x,
                Unary::Sign if x.is_nan() => x,
                Unary::Sign => 1f64.copysign(x),
                Unary::Ceil => x.ceil(),
                Unary::Floor => x.floor(),
                Unary::RoundNearestEven => x.round_ties_even(),
                // Rounding the root of an `f32` twice, first to `f64`, gives the same `f32`.
                Unary::Sqrt => x.sqrt(),
                Unary::Rsqrt if element == Element::F32 => f64::from(1.0 / (x as f32).sqrt()),
                Unary::Rsqrt => 1.0 / x.sqrt(),
                Unary::IsFinite => return u64::from(x.is_finite()),
                other => unreachable!("{other:?}"),
            },
        );
    }
    let n = integer(element, a);
    bits_of(
        element,
        match op {
            Unary::Abs => n.abs(),
            Unary::Negate => -n,
            Unary::Sign => n.signum(),
            Unary::CountLeadingZeros => {
                i128::from((0..width(element)).rev().take_while(|bit| a >> bit & 1 == 0).count() as u32)
            }
            Unary::Popcnt => i128::from((0..width(element)).filter(|bit| a >> bit & 1 == 1).count() as u32),
            Unary::Not if element == Element::Bool => n ^ 1,
            Unary::Not => -1 - n,
            other => unreachable!("{other:?}"),
        },
    )
}

/// Computes a binary op.
pub(crate) fn binary(op: Binary, element: Element, a: u64, b: u64) -> u64 {
    if element.is_float() {
        let (x, y) = (float(element, a), float(element, b));
        // Rounding the result of one of these ops on `f32` twice, first to `f64`, gives the same `f32`.
        let result = match op {
            Binary::Add => x + y,
            Binary::Subtract => x - y,
            Binary::Multiply => x * y,
            Binary::Divide => x / y,
            _ if x.is_nan() || y.is_nan() => f64::NAN,
            Binary::Maximum if x > y || (x == y && !x.is_sign_negative()) => x,
            Binary::Minimum if x < y || (x == y && x.is_sign_negative()) => x,
            Binary::Maximum | Binary::Minimum => y,
            other => unreachable!("{other:?}"),
        };
        return float_bits(element, result);
    }
    let (n, m) = (integer(element, a), integer(element, b));
    let bool = element == Element::Bool;
    // The number of bits of a shift is unsigned.
    let by = i128::from(b).min(i128::from(width(element)));
    bits_of(
        element,
        match op {
            Binary::Add | Binary::Maximum if bool => n | m,
            Binary::Multiply | Binary::Minimum if bool => n & m,
            Binary::Add => n + m,
            Binary::Subtract => n - m,
            // The lower 64 bits of the product do not depend on the signs.
            Binary::Multiply => return bits_of(element, i128::from(a.wrapping_mul(b))),
            Binary::Divide if m == 0 => -1,
            Binary::Remainder if m == 0 => n,
            Binary::Divide => n / m,
            Binary::Remainder => n - n / m * m,
            Binary::Maximum => n.max(m),
            Binary::Minimum => n.min(m),
            Binary::And => n & m,
            Binary::Or => n | m,
            Binary::Xor => n ^ m,
            Binary::ShiftLeft if by == i128::from(width(element)) => 0,
            Binary::ShiftLeft => i128::from(a) << by,
            Binary::ShiftRightLogical => i128::from(a) >> by,
            Binary::ShiftRightArithmetic => {
                let copies = if a >> (width(element) - 1) & 1 == 1 { -1i128 << width(element) } else { 0 };
                (i128::from(a) | copies) >> by
            }
            other => unreachable!("{other:?}"),
        },
    )
}

/// Computes a comparison.
pub(crate) fn compare(direction: ComparisonDirection, kind: ComparisonType, element: Element, a: u64, b: u64) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = if !element.is_float() {
        Some(integer(element, a).cmp(&integer(element, b)))
    } else if kind != ComparisonType::TotalOrder {
        float(element, a).partial_cmp(&float(element, b))
    } else if element == Element::F32 {
        Some(f32::from_bits(a as u32).total_cmp(&f32::from_bits(b as u32)))
    } else {
        Some(f64::from_bits(a).total_cmp(&f64::from_bits(b)))
    };
    match direction {
        ComparisonDirection::Eq => order == Some(Equal),
        ComparisonDirection::Ne => order != Some(Equal),
        ComparisonDirection::Ge => matches!(order, Some(Equal | Greater)),
        ComparisonDirection::Gt => order == Some(Greater),
        ComparisonDirection::Le => matches!(order, Some(Equal | Less)),
        ComparisonDirection::Lt => order == Some(Less),
    }
}

/// Converts a number to another type.
pub(crate) fn convert(from: Element, to: Element, a: u64) -> u64 {
    match (from.is_float(), to.is_float()) {
        _ if from == to => a,
        (true, true) => float_bits(to, float(from, a)),
        (true, false) if to == Element::Bool => u64::from(float(from, a) != 0.0),
        (true, false) => {
            // Casts to 128 bits do not saturate, except for numbers beyond every type.
            let (least, most) = if to.is_signed() {
                (-1i128 << (width(to) - 1), (1 << (width(to) - 1)) - 1)
            } else {
                (0, (1 << width(to)) - 1)
            };
            bits_of(to, (float(from, a) as i128).clamp(least, most))
        }
        // Each conversion rounds once.
        (false, true) if to == Element::F32 => u64::from((integer(from, a) as f32).to_bits()),
        (false, true) => (integer(from, a) as f64).to_bits(),
        (false, false) if to == Element::Bool => u64::from(integer(from, a) != 0),
        (false, false) => bits_of(to, integer(from, a)),
    }
}

/// Computes a product plus a number, rounded once.
pub(crate) fn fused(element: Element, a: u64, b: u64, c: u64) -> u64 {
    if element == Element::F32 {
        let [a, b, c] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        u64::from(a.mul_add(b, c).to_bits())
    } else {
        let [a, b, c] = [a, b, c].map(f64::from_bits);
        a.mul_add(b, c).to_bits()
    }
}
