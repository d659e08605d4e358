//! The loop of each op and element type. The functions return `None` if the specification or this engine does not
//! define the op for the type.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use super::map::{map1, map2, map3, scalar1, scalar2};
use super::num::{Bits, Int, Num, Real, ToOdd};
use super::{Chained, Loop, One, Two, complex, fused};
use crate::engine::dtype::{DType, Pred, with_size};

/// Returns the loop of `$f` for the listed element types, and `None` for all other types.
macro_rules! over {
    ($dtype:expr, One, $loop:ident, [$($d:ident = $t:ty),*], $f:expr) => {
        match $dtype {
            $(DType::$d => Some(Loop::One(|a, o| $loop::<$t, $t>(a, o, $f))),)*
            _ => None,
        }
    };
    ($dtype:expr, Two, $loop:ident, [$($d:ident = $t:ty),*], $f:expr) => {
        match $dtype {
            $(DType::$d => Some(Loop::Two(|a, b, o| $loop::<$t, $t>(a, b, o, $f))),)*
            _ => None,
        }
    };
}

macro_rules! reals {
    // For ops whose `f32` function can be part of a chain.
    ($dtype:expr, $loop:ident, $f:ident, $chained:ident) => {
        match $dtype {
            DType::F32 => Some(Loop::Chained(Chained::$chained)),
            DType::F64 => Some(Loop::One(|a, o| scalar1::<f64, f64>(a, o, Real::$f))),
            _ => None,
        }
    };
    ($dtype:expr, $loop:ident, $f:ident) => {
        match $dtype {
            DType::F32 => Some(Loop::One(|a, o| $loop::<f32, f32>(a, o, Real::$f))),
            DType::F64 => Some(Loop::One(|a, o| scalar1::<f64, f64>(a, o, Real::$f))),
            _ => None,
        }
    };
}

macro_rules! ints {
    ($dtype:expr, $f:ident) => {
        over!(
            $dtype,
            One,
            scalar1,
            [I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64],
            Int::$f
        )
    };
}

macro_rules! ints2 {
    // For ops whose function of 32-bit integers can be part of a chain.
    ($dtype:expr, $f:ident, $chained:ident) => {
        match $dtype {
            DType::I32 | DType::U32 => Some(Loop::Chained(Chained::$chained)),
            _ => over!($dtype, Two, scalar2, [I8 = i8, I16 = i16, I64 = i64, U8 = u8, U16 = u16, U64 = u64], Int::$f),
        }
    };
    ($dtype:expr, $f:ident) => {
        match $dtype {
            DType::I32 => Some(Loop::Two(|a, b, o| map2::<i32, i32>(a, b, o, Int::$f))),
            DType::U32 => Some(Loop::Two(|a, b, o| map2::<u32, u32>(a, b, o, Int::$f))),
            _ => over!($dtype, Two, scalar2, [I8 = i8, I16 = i16, I64 = i64, U8 = u8, U16 = u16, U64 = u64], Int::$f),
        }
    };
}

macro_rules! bits2 {
    ($dtype:expr, $f:ident, $chained:ident) => {
        match $dtype {
            DType::I32 | DType::U32 => Some(Loop::Chained(Chained::$chained)),
            _ => over!(
                $dtype,
                Two,
                scalar2,
                [Bool = Pred, I8 = i8, I16 = i16, I64 = i64, U8 = u8, U16 = u16, U64 = u64],
                Bits::$f
            ),
        }
    };
}

/// Returns the loop of a binary op: `$loop` for types that benefit from vector code, and a scalar loop for all other
/// types.
macro_rules! nums2 {
    // For ops whose functions of `f32` and of 32-bit integers can be part of a chain.
    ($dtype:expr, $loop:ident, $f:ident, $chained:ident, $integers:ident) => {
        match $dtype {
            DType::F32 => Some(Loop::Chained(Chained::$chained)),
            DType::I32 | DType::U32 => Some(Loop::Chained(Chained::$integers)),
            _ => nums2!(@rest $dtype, $loop, $f),
        }
    };
    // For ops whose `f32` function can be part of a chain.
    ($dtype:expr, $loop:ident, $f:ident, $chained:ident) => {
        match $dtype {
            DType::F32 => Some(Loop::Chained(Chained::$chained)),
            _ => nums2!(@integers $dtype, $loop, $f),
        }
    };
    ($dtype:expr, $loop:ident, $f:ident) => {
        match $dtype {
            DType::F32 => Some(Loop::Two(|a, b, o| $loop::<f32, f32>(a, b, o, Num::$f))),
            _ => nums2!(@integers $dtype, $loop, $f),
        }
    };
    (@integers $dtype:expr, $loop:ident, $f:ident) => {
        match $dtype {
            DType::I32 => Some(Loop::Two(|a, b, o| $loop::<i32, i32>(a, b, o, Num::$f))),
            DType::U32 => Some(Loop::Two(|a, b, o| $loop::<u32, u32>(a, b, o, Num::$f))),
            _ => nums2!(@rest $dtype, $loop, $f),
        }
    };
    (@rest $dtype:expr, $loop:ident, $f:ident) => {
        match $dtype {
            DType::F64 => Some(Loop::Two(|a, b, o| $loop::<f64, f64>(a, b, o, Num::$f))),
            _ => over!(
                $dtype,
                Two,
                scalar2,
                [Bool = Pred, I8 = i8, I16 = i16, I64 = i64, U8 = u8, U16 = u16, U64 = u64],
                Num::$f
            ),
        }
    };
}

/// Returns the loop of a unary op.
pub(crate) fn unary(op: Unary, dtype: DType) -> Option<Loop> {
    if dtype.part().is_some() {
        return complex::unary(op, dtype);
    }
    match op {
        Unary::Abs => reals!(dtype, map1, abs, Abs).or_else(|| ints!(dtype, abs)),
        Unary::Negate => reals!(dtype, map1, neg, Neg).or_else(|| ints!(dtype, neg)),
        Unary::Sign => reals!(dtype, map1, sign).or_else(|| ints!(dtype, sign)),
        Unary::Cbrt => reals!(dtype, scalar1, cbrt),
        Unary::Ceil => reals!(dtype, map1, ceil),
        Unary::Floor => reals!(dtype, map1, floor),
        Unary::RoundNearestAfz => reals!(dtype, map1, round_afz),
        Unary::RoundNearestEven => reals!(dtype, map1, round_even),
        Unary::Cosine => reals!(dtype, scalar1, cos, Cos),
        Unary::Sine => reals!(dtype, scalar1, sin, Sin),
        Unary::Tan => reals!(dtype, scalar1, tan),
        Unary::Tanh => reals!(dtype, map1, tanh, Tanh),
        Unary::Exp2 => reals!(dtype, map1, exp2),
        Unary::Exponential => reals!(dtype, map1, exp, Exp),
        Unary::ExponentialMinusOne => reals!(dtype, map1, exp_m1, ExpM1),
        Unary::Log => reals!(dtype, map1, ln, Ln),
        Unary::Log2 => reals!(dtype, map1, log2),
        Unary::LogPlusOne => reals!(dtype, map1, ln_1p, Ln1p),
        Unary::Logistic => reals!(dtype, map1, logistic, Logistic),
        Unary::Rsqrt => reals!(dtype, map1, rsqrt, Rsqrt),
        Unary::Sqrt => reals!(dtype, map1, sqrt, Sqrt),
        Unary::CountLeadingZeros => ints!(dtype, clz),
        Unary::Popcnt => ints!(dtype, popcnt),
        Unary::Not => over!(
            dtype,
            One,
            scalar1,
            [Bool = Pred, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64],
            Bits::not
        ),
        Unary::IsFinite => {
            let f: One = match dtype {
                DType::F32 => |a, o| map1::<f32, Pred>(a, o, |x| Real::is_finite(x).into()),
                DType::F64 => |a, o| scalar1::<f64, Pred>(a, o, |x| Real::is_finite(x).into()),
                _ => return None,
            };
            Some(Loop::One(f))
        }
        Unary::Real | Unary::Imag => None,
    }
}

/// Returns the loop of a binary op whose operands have the same type.
pub(crate) fn binary(op: Binary, dtype: DType) -> Option<Loop> {
    if dtype.part().is_some() {
        return complex::binary(op, dtype);
    }
    match op {
        Binary::Add => nums2!(dtype, map2, add, Add, AddIntegers),
        Binary::Subtract if dtype == DType::Bool => None,
        Binary::Subtract => nums2!(dtype, map2, sub, Sub, SubIntegers),
        Binary::Multiply => nums2!(dtype, map2, mul, Mul, MulIntegers),
        Binary::Divide | Binary::Remainder | Binary::Power if dtype == DType::Bool => None,
        Binary::Divide if dtype.is_float() => nums2!(dtype, map2, div, Div),
        Binary::Divide => nums2!(dtype, scalar2, div),
        Binary::Remainder => nums2!(dtype, scalar2, rem),
        Binary::Power => nums2!(dtype, scalar2, pow),
        Binary::Maximum => nums2!(dtype, map2, max, Max),
        Binary::Minimum => nums2!(dtype, map2, min, Min),
        Binary::And => bits2!(dtype, and, And),
        Binary::Or => bits2!(dtype, or, Or),
        Binary::Xor => bits2!(dtype, xor, Xor),
        Binary::ShiftLeft => ints2!(dtype, shl, ShiftLeft),
        Binary::ShiftRightArithmetic => ints2!(dtype, shr_arithmetic),
        Binary::ShiftRightLogical => ints2!(dtype, shr_logical, ShiftRightLogical),
        Binary::Atan2 => match dtype {
            DType::F32 => Some(Loop::Two(|a, b, o| scalar2::<f32, f32>(a, b, o, Real::atan2))),
            DType::F64 => Some(Loop::Two(|a, b, o| scalar2::<f64, f64>(a, b, o, Real::atan2))),
            _ => None,
        },
        Binary::Complex => None,
    }
}

macro_rules! comparisons {
    ($t:ty, $loop:ident, $direction:expr) => {{
        let f: Two = match $direction {
            ComparisonDirection::Eq => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| (x == y).into()),
            ComparisonDirection::Ne => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| (x != y).into()),
            ComparisonDirection::Ge => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| (x >= y).into()),
            ComparisonDirection::Gt => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| (x > y).into()),
            ComparisonDirection::Le => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| (x <= y).into()),
            ComparisonDirection::Lt => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| (x < y).into()),
        };
        f
    }};
}

macro_rules! ordered_comparisons {
    ($t:ty, $loop:ident, $order:path, $direction:expr) => {{
        let f: Two = match $direction {
            ComparisonDirection::Eq => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| ($order(x) == $order(y)).into()),
            ComparisonDirection::Ne => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| ($order(x) != $order(y)).into()),
            ComparisonDirection::Ge => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| ($order(x) >= $order(y)).into()),
            ComparisonDirection::Gt => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| ($order(x) > $order(y)).into()),
            ComparisonDirection::Le => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| ($order(x) <= $order(y)).into()),
            ComparisonDirection::Lt => |a, b, o| $loop::<$t, Pred>(a, b, o, |x, y| ($order(x) < $order(y)).into()),
        };
        f
    }};
}

/// Returns a key whose unsigned order is the weak order of floating-point numbers. In this order, both zeros are equal,
/// all NaNs are equal, and NaNs come last.
#[inline(always)]
fn weak_order<T: Num>(x: T) -> u64 {
    let zero = T::zeroed();
    if x.partial_cmp(&zero).is_none() {
        u64::MAX
    } else if x == zero {
        zero.order()
    } else {
        x.order()
    }
}

/// Returns a key whose order is the total order of `f32`, and whose comparison has vector code.
#[inline(always)]
fn order(x: f32) -> i32 {
    let bits = x.to_bits().cast_signed();
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// Returns the loop of `compare`, which writes one `Pred` per element.
pub(crate) fn compare(direction: ComparisonDirection, kind: ComparisonType, dtype: DType) -> Option<Loop> {
    if dtype.part().is_some() {
        return complex::compare(direction, dtype);
    }
    let (total, weak) = (kind == ComparisonType::TotalOrder, kind == ComparisonType::WeakOrder);
    let f = match dtype {
        DType::F32 if total => ordered_comparisons!(f32, map2, order, direction),
        DType::F64 if total => ordered_comparisons!(f64, scalar2, Num::order, direction),
        DType::F32 if weak => ordered_comparisons!(f32, scalar2, weak_order, direction),
        DType::F64 if weak => ordered_comparisons!(f64, scalar2, weak_order, direction),
        DType::F32 => comparisons!(f32, map2, direction),
        DType::F64 => comparisons!(f64, scalar2, direction),
        DType::Bool => comparisons!(Pred, scalar2, direction),
        DType::I8 => comparisons!(i8, scalar2, direction),
        DType::I16 => comparisons!(i16, scalar2, direction),
        DType::I32 => comparisons!(i32, map2, direction),
        DType::I64 => comparisons!(i64, scalar2, direction),
        DType::U8 => comparisons!(u8, scalar2, direction),
        DType::U16 => comparisons!(u16, scalar2, direction),
        DType::U32 => comparisons!(u32, map2, direction),
        DType::U64 => comparisons!(u64, scalar2, direction),
        _ => return None,
    };
    Some(Loop::Two(f))
}

/// Returns the loop of `select` for elements of `size` bytes, of any type.
pub(crate) fn select(size: usize) -> Loop {
    with_size!(size, T => Loop::Three(|p, a, b, o| map3::<Pred, T, T>(p, a, b, o, |p, a, b| if p.get() { a } else { b })))
}

/// Returns the loop of `clamp`. Its operands are the lower bound, the number and the upper bound.
pub(crate) fn clamp(dtype: DType) -> Option<Loop> {
    if dtype.part().is_some() {
        return complex::clamp(dtype);
    }
    macro_rules! clamp {
        ($($d:ident = $t:ty),*) => {
            match dtype {
                $(DType::$d => Some(Loop::Three(|l, x, h, o| map3::<$t, $t, $t>(l, x, h, o, |l, x, h| Num::min(Num::max(l, x), h)))),)*
                _ => None,
            }
        };
    }
    clamp!(
        Bool = Pred,
        F32 = f32,
        F64 = f64,
        I8 = i8,
        I16 = i16,
        I32 = i32,
        I64 = i64,
        U8 = u8,
        U16 = u16,
        U32 = u32,
        U64 = u64
    )
}

/// Returns the loop of `fma`. Its operands are the factors and the summand.
pub(crate) fn fma(dtype: DType) -> Option<Loop> {
    Some(Loop::Three(match dtype {
        DType::F32 => |a, b, c, o| map3::<f32, f32, f32>(a, b, c, o, Real::fma),
        DType::F64 => |a, b, c, o| map3::<f64, f64, f64>(a, b, c, o, Real::fma),
        _ => return None,
    }))
}

/// Returns the loop that computes `fma` of `f32`s and does not round the result to nearest, but to odd. If this result
/// is rounded to a type with at least two bits less, `fma` is rounded only once.
pub(crate) fn fma_to_odd() -> Loop {
    // Rounding to odd twice is the same as rounding to odd once.
    Loop::Three(|a, b, c, o| map3::<f32, f32, f32>(a, b, c, o, |a, b, c| fused::sum_to_odd(a, b, c).to_odd()))
}
