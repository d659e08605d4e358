//! Loops for `convert` and `reduce_precision`.

use std::sync::Arc;

use half::{bf16, f16};
use stablehlo::ir::Unary;

use super::map::{map1, scalar1};
use super::num::Cast;
use super::{Loop, One, complex, narrow};
use crate::engine::dtype::{DType, Pred};

macro_rules! from {
    ($t:ty, $to:expr) => {{
        let f: One = match $to {
            DType::Bool => |a, o| scalar1::<$t, Pred>(a, o, Cast::cast),
            DType::I8 => |a, o| scalar1::<$t, i8>(a, o, Cast::cast),
            DType::I16 => |a, o| scalar1::<$t, i16>(a, o, Cast::cast),
            DType::I32 => |a, o| map1::<$t, i32>(a, o, Cast::cast),
            DType::I64 => |a, o| scalar1::<$t, i64>(a, o, Cast::cast),
            DType::U8 => |a, o| scalar1::<$t, u8>(a, o, Cast::cast),
            DType::U16 => |a, o| scalar1::<$t, u16>(a, o, Cast::cast),
            DType::U32 => |a, o| scalar1::<$t, u32>(a, o, Cast::cast),
            DType::U64 => |a, o| scalar1::<$t, u64>(a, o, Cast::cast),
            DType::F16 => |a, o| map1::<$t, f16>(a, o, Cast::cast),
            DType::Bf16 => |a, o| map1::<$t, bf16>(a, o, Cast::cast),
            DType::F32 => |a, o| map1::<$t, f32>(a, o, Cast::cast),
            DType::F64 => |a, o| scalar1::<$t, f64>(a, o, Cast::cast),
            _ => return None,
        };
        f
    }};
}

/// Returns the loops that together convert one type to another, in the order in which they run. Each loop is paired
/// with its result type. Returns `None` if the engine cannot convert between the types.
///
/// Narrow floats are converted through `f32`. Narrow integers are bytes with fewer bits in use. Complex numbers are
/// converted to other types through the real type of their parts, and the imaginary part is dropped. These intermediate
/// steps avoid a separate loop for each pair of types.
pub(crate) fn convert(from: DType, to: DType) -> Option<Vec<(Loop, DType)>> {
    let mut steps = Vec::new();
    push_steps(from, to, &mut steps)?;
    Some(steps)
}

fn push_steps(from: DType, to: DType, steps: &mut Vec<(Loop, DType)>) -> Option<()> {
    if from == to {
        return Some(());
    }
    let step = match (from, to) {
        (_, _) if complex::convert(from, to).is_some() => complex::convert(from, to),
        _ if to.part().is_some() => {
            // Convert to a real float first. This float is `f32` if the result is `complex<f32>` and the operand is not
            // `f64`. Otherwise it is `f64`.
            let part = if to == DType::C64 && from != DType::F64 { DType::F32 } else { DType::F64 };
            push_steps(from, part, steps)?;
            let made = if part == DType::F32 { DType::C64 } else { DType::C128 };
            steps.push((complex::convert(part, made)?, made));
            return push_steps(made, to, steps);
        }
        _ if from.part().is_some() => {
            let part = from.part()?;
            steps.push((complex::unary(Unary::Real, from)?, part));
            return push_steps(part, to, steps);
        }
        _ if from.is_narrow_float() => {
            steps.push((narrow::decode(from)?, DType::F32));
            return push_steps(DType::F32, to, steps);
        }
        // A narrow integer is stored sign- or zero-extended, so its byte is also the 8-bit integer.
        _ if from.narrow_bits().is_some() => return push_steps(from.computed(), to, steps),
        _ if to.is_narrow_float() => {
            let through = match from {
                DType::F32 | DType::F16 | DType::Bf16 => DType::F32,
                DType::I64 | DType::U64 => from,
                _ => DType::F64,
            };
            push_steps(from, through, steps)?;
            narrow::encode(to, through)
        }
        _ if to.narrow_bits().is_some() && (from.is_float() || from == DType::Bool) => {
            push_steps(from, DType::F64, steps)?;
            narrow::from_f64(to)
        }
        _ if to.narrow_bits().is_some() => {
            push_steps(from, to.computed(), steps)?;
            narrow::wrap(to)
        }
        _ => whole(from, to),
    };
    steps.push((step?, to));
    Some(())
}

/// Returns the loop of `convert` between two types that occupy whole bytes and need no intermediate type.
fn whole(from: DType, to: DType) -> Option<Loop> {
    Some(Loop::One(match from {
        DType::Bool => from!(Pred, to),
        DType::I8 => from!(i8, to),
        DType::I16 => from!(i16, to),
        DType::I32 => from!(i32, to),
        DType::I64 => from!(i64, to),
        DType::U8 => from!(u8, to),
        DType::U16 => from!(u16, to),
        DType::U32 => from!(u32, to),
        DType::U64 => from!(u64, to),
        DType::F16 => from!(f16, to),
        DType::Bf16 => from!(bf16, to),
        DType::F32 => from!(f32, to),
        DType::F64 => from!(f64, to),
        _ => return None,
    }))
}

/// Returns the loop of `reduce_precision`, which rounds to a format of fewer bits and keeps the element type.
pub(crate) fn reduce_precision(dtype: DType, exponent_bits: u32, mantissa_bits: u32) -> Option<Loop> {
    let (e, m) = (exponent_bits, mantissa_bits);
    Some(Loop::With(match dtype {
        DType::F64 => {
            Arc::new(move |a, o| scalar1::<f64, f64>(a, o, |x| f64::from_bits(reduce(x.to_bits(), 11, 52, e, m))))
        }
        DType::F32 => Arc::new(move |a, o| scalar1::<f32, f32>(a, o, |x| reduce_f32(x, e, m))),
        _ => return None,
    }))
}

fn reduce_f32(x: f32, exponent_bits: u32, mantissa_bits: u32) -> f32 {
    let bits = reduce(u64::from(x.to_bits()), 8, 23, exponent_bits, mantissa_bits);
    f32::from_bits(u32::try_from(bits).unwrap_or(u32::MAX))
}

/// Rounds a float with `has_e` exponent bits and `has_m` mantissa bits to `want_e` and `want_m` bits.
fn reduce(bits: u64, has_e: u32, has_m: u32, want_e: u32, want_m: u32) -> u64 {
    let sign = bits & (1 << (has_e + has_m));
    let mut magnitude = bits ^ sign;
    let infinity = ((1 << has_e) - 1) << has_m;
    if magnitude > infinity {
        return bits;
    }
    if want_m < has_m {
        let drop = has_m - want_m;
        let odd = (magnitude >> drop) & 1;
        magnitude = (magnitude + (1 << (drop - 1)) - 1 + odd) & !((1 << drop) - 1);
    }
    if want_e < has_e {
        let bias = (1u64 << (has_e - 1)) - 1;
        let reach = if want_e == 0 { 0 } else { (1u64 << (want_e - 1)) - 1 };
        let exponent = magnitude >> has_m;
        if exponent > bias + reach {
            magnitude = infinity;
        } else if exponent + reach <= bias {
            // Subnormal numbers of the narrow format become zero.
            magnitude = 0;
        }
    }
    sign | magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduce_precision_to_half_and_bfloat() {
        for x in [1.0f32, 1.001, -3.25159, 65504.0, 1e-3, 0.1, -0.0, f32::INFINITY] {
            assert_eq!(reduce_f32(x, 5, 10), f16::from_f32(x).to_f32(), "{x}");
            assert_eq!(reduce_f32(x, 8, 7), bf16::from_f32(x).to_f32(), "{x}");
        }
        assert_eq!(reduce_f32(65520.0, 5, 10), f32::INFINITY);
        assert_eq!(reduce_f32(-1e30, 5, 10), f32::NEG_INFINITY);
        assert_eq!(reduce_f32(1e-6, 5, 10), 0.0);
        assert!(reduce_f32(f32::NAN, 5, 10).is_nan());
        assert!(reduce_f32(f32::NAN, 5, 0).is_nan());
    }
}
