//! Functions that compiled loops call. The interpreter calls the same functions, so that compiled and interpreted loops
//! compute the same bits.

use pulp::NullaryFnOnce;
use stablehlo::ir::{Binary, Unary};
use stablehlo_jit::Function;

use crate::engine::dtype::DType;
use crate::engine::elementwise::map::arch;
use crate::engine::elementwise::num::{Num, Real};

/// A call of a function that is compiled for the vector instructions of the processor it runs on. With these
/// instructions, a fused multiply-add is fast.
struct Call<F>(f32, F);

impl<F: Fn(f32) -> f32> NullaryFnOnce for Call<F> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        (self.1)(self.0)
    }
}

macro_rules! one {
    ($dtype:expr, $f:ident) => {{
        extern "C" fn narrow(x: f32) -> f32 {
            arch().dispatch(Call(x, Real::$f))
        }
        extern "C" fn wide(x: f64) -> f64 {
            Real::$f(x)
        }
        match $dtype {
            DType::F32 => Some(Function::F32(narrow)),
            DType::F64 => Some(Function::F64(wide)),
            _ => None,
        }
    }};
}

macro_rules! two {
    ($dtype:expr, $trait:ident, $f:ident) => {{
        extern "C" fn narrow(a: f32, b: f32) -> f32 {
            $trait::$f(a, b)
        }
        extern "C" fn wide(a: f64, b: f64) -> f64 {
            $trait::$f(a, b)
        }
        match $dtype {
            DType::F32 => Some(Function::F32x2(narrow)),
            DType::F64 => Some(Function::F64x2(wide)),
            _ => None,
        }
    }};
}

/// Returns the function that implements a unary op for which the code generator has no instruction. Returns `None` if
/// there is no such function for the op or the element type.
pub(super) fn unary(op: Unary, dtype: DType) -> Option<Function> {
    match op {
        Unary::Cbrt => one!(dtype, cbrt),
        Unary::RoundNearestAfz => one!(dtype, round_afz),
        Unary::Cosine => one!(dtype, cos),
        Unary::Sine => one!(dtype, sin),
        Unary::Tan => one!(dtype, tan),
        Unary::Tanh => one!(dtype, tanh),
        Unary::Exp2 => one!(dtype, exp2),
        Unary::Exponential => one!(dtype, exp),
        Unary::ExponentialMinusOne => one!(dtype, exp_m1),
        Unary::Log => one!(dtype, ln),
        Unary::Log2 => one!(dtype, log2),
        Unary::LogPlusOne => one!(dtype, ln_1p),
        Unary::Logistic => one!(dtype, logistic),
        _ => None,
    }
}

/// Returns the function that implements a binary op for which the code generator has no instruction. Returns `None` if
/// there is no such function for the op or the element type.
pub(super) fn binary(op: Binary, dtype: DType) -> Option<Function> {
    match op {
        Binary::Remainder if dtype.is_float() => two!(dtype, Num, rem),
        Binary::Power if dtype.is_float() => two!(dtype, Num, pow),
        Binary::Atan2 => two!(dtype, Real, atan2),
        Binary::Power => {
            macro_rules! power {
                ($t:ty, $kind:ident) => {{
                    extern "C" fn power(a: $t, b: $t) -> $t {
                        Num::pow(a, b)
                    }
                    Some(Function::$kind(power))
                }};
            }
            match dtype {
                DType::I32 => power!(i32, I32x2),
                DType::I64 => power!(i64, I64x2),
                DType::U32 => power!(u32, U32x2),
                DType::U64 => power!(u64, U64x2),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the function that implements `fma` on a processor without an instruction for it.
pub(super) fn fma(dtype: DType) -> Option<Function> {
    extern "C" fn narrow(a: f32, b: f32, c: f32) -> f32 {
        Real::fma(a, b, c)
    }
    extern "C" fn wide(a: f64, b: f64, c: f64) -> f64 {
        Real::fma(a, b, c)
    }
    match dtype {
        DType::F32 => Some(Function::F32x3(narrow)),
        DType::F64 => Some(Function::F64x3(wide)),
        _ => None,
    }
}
