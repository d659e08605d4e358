//! Chains of functions of `f32` or 32-bit integers, each applied to the result of the previous function. Intermediate
//! values stay in vector registers.
//!
//! With one loop per function, every function reads and writes the first-level cache. A chain instead processes a block
//! of several vectors completely before it stores the result. Cheap functions then cost little more than reading their
//! second operand. Measured on one core, a chain of nine functions with one `tanh` is three times as fast as nine
//! loops.
//!
//! A function that takes many instructions, such as `exp`, needs the registers for its own intermediate values. It
//! therefore processes a block that is stored on the stack. The chain still makes only one pass over memory, so the
//! loads of the next block overlap with the computation.
//!
//! To check that the blocks stay in registers, run `cargo rustc --release -p stablehlo-cpu --lib -- --emit asm`. The
//! match arm of `Add` must consist of eight consecutive `vaddps` on eight registers. The match arms of the other cheap
//! functions must not access the stack either.

use bytemuck::{cast_slice, cast_slice_mut};
use half::{bf16, f16};
use pulp::{Simd, WithSimd};

use super::map::{arch, narrow_arch};
use super::math;
use super::num::rounded;

/// A function of one or two `f32`s, or of two integers of 32 bits, with the semantics of the op with the same name.
/// Chains pass integers as the `f32`s with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chained {
    Add,
    Sub,
    /// The second operand minus the first.
    SubFrom,
    Mul,
    Div,
    /// The second operand divided by the first.
    DivInto,
    Max,
    Min,
    Neg,
    Abs,
    Sqrt,
    Rsqrt,
    Exp,
    ExpM1,
    Tanh,
    Erf,
    Ln,
    Ln1p,
    Logistic,
    Sin,
    Cos,
    /// Rounds to a `bf16`.
    RoundToBf16,
    /// Rounds to an `f16`.
    RoundToF16,
    AddIntegers,
    SubIntegers,
    SubIntegersFrom,
    MulIntegers,
    And,
    Or,
    Xor,
    ShiftLeft,
    /// The second operand, shifted by the first.
    ShiftLeftBy,
    ShiftRightLogical,
    /// The second operand, shifted by the first.
    ShiftRightLogicalBy,
}

impl Chained {
    /// Returns whether the function takes two operands.
    fn is_binary(self) -> bool {
        use Chained::{Abs, Neg, Rsqrt, Sqrt};
        !self.is_long() && !matches!(self, Neg | Abs | Sqrt | Rsqrt)
    }

    /// Returns whether the function takes many instructions, and therefore needs the registers for its own intermediate
    /// values.
    pub(crate) fn is_long(self) -> bool {
        use Chained::{Cos, Erf, Exp, ExpM1, Ln, Ln1p, Logistic, RoundToBf16, RoundToF16, Sin, Tanh};
        matches!(self, Exp | ExpM1 | Tanh | Erf | Ln | Ln1p | Logistic | Sin | Cos | RoundToBf16 | RoundToF16)
    }

    /// Returns the function that computes the same result with its operands exchanged.
    pub(crate) fn reversed(self) -> Chained {
        match self {
            Chained::Sub => Chained::SubFrom,
            Chained::SubFrom => Chained::Sub,
            Chained::Div => Chained::DivInto,
            Chained::DivInto => Chained::Div,
            Chained::SubIntegers => Chained::SubIntegersFrom,
            Chained::SubIntegersFrom => Chained::SubIntegers,
            Chained::ShiftLeft => Chained::ShiftLeftBy,
            Chained::ShiftLeftBy => Chained::ShiftLeft,
            Chained::ShiftRightLogical => Chained::ShiftRightLogicalBy,
            Chained::ShiftRightLogicalBy => Chained::ShiftRightLogical,
            same => same,
        }
    }

    /// Computes `out[i] = self(a[i], b[i])`. Functions of one operand ignore `b`.
    pub(crate) fn run(self, a: &[u8], b: &[u8], out: &mut [u8]) {
        let a = Operand::Slice(cast_slice(a));
        let out = cast_slice_mut(out);
        if self.is_binary() {
            run(&[Link { function: self, with: SecondOperand::Operand(1) }], &[a, Operand::Slice(cast_slice(b))], out);
        } else {
            run(&[Link { function: self, with: SecondOperand::Same }], &[a], out);
        }
    }
}

/// The second operand of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondOperand {
    Operand(u8),
    /// The chain's current value, as both operands. Also used for functions of one operand.
    Same,
}

/// A step of a chain: applies `function` to the current value and the second operand `with`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) function: Chained,
    pub(crate) with: SecondOperand,
}

/// An operand of a chain.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    /// One element for each element of the output.
    Slice(&'a [f32]),
    /// One number for all elements of the output.
    One(f32),
}

/// Runs the chain of `links` for each element of `out`. The initial value is the first of `operands`.
pub(crate) fn run(links: &[Link], operands: &[Operand<'_>], out: &mut [f32]) {
    if out.len() >= LONG {
        arch().dispatch(Run { links, operands, out });
    } else if out.len() >= SHORT {
        narrow_arch().dispatch(Run { links, operands, out });
    } else {
        // Zero only as many padded operands as the chain needs.
        match operands.len() {
            ..=2 => run_padded::<2>(links, operands, out),
            3..=4 => run_padded::<4>(links, operands, out),
            _ => run_padded::<MAX_READS>(links, operands, out),
        }
    }
}

/// Runs a chain of at most `READS` operands for fewer than [`SHORT`] elements. A chain processes whole blocks, so this
/// function pads the operands and the output.
fn run_padded<const READS: usize>(links: &[Link], operands: &[Operand<'_>], out: &mut [f32]) {
    let mut room = [[0f32; SHORT]; READS];
    let mut padded = [Operand::One(0.0); READS];
    for ((padded, room), operand) in padded.iter_mut().zip(&mut room).zip(operands) {
        *padded = match operand {
            Operand::One(one) => Operand::One(*one),
            Operand::Slice(slice) => {
                room[..out.len()].copy_from_slice(&slice[..out.len()]);
                Operand::Slice(room)
            }
        };
    }
    let mut result = [0f32; SHORT];
    narrow_arch().dispatch(Run { links, operands: &padded, out: &mut result });
    out.copy_from_slice(&result[..out.len()]);
}

/// Number of vectors per block. Eight independent additions hide the latency of an addition, and eight vectors fit in
/// 16 registers together with their operands.
const BLOCK: usize = 8;
/// Number of elements in a block of the longest vectors, which have 512 bits.
const LONG: usize = BLOCK * 16;
/// Number of elements in a block of vectors of 256 bits.
const SHORT: usize = BLOCK * 8;
/// Maximum number of operands of a chain.
pub(crate) const MAX_READS: usize = 12;

/// Arguments of [`run`] for an output of at least one block.
struct Run<'a> {
    links: &'a [Link],
    operands: &'a [Operand<'a>],
    out: &'a mut [f32],
}

/// Applies `$f` to a block and the second operand of a link, vector by vector.
///
/// `two`, `one` and `long` are macros rather than functions. A block that a function takes or returns, by value or by
/// reference, stays in memory. Additions are then two to three times slower.
macro_rules! two {
    ($s:ident, $block:ident, $link:ident, $operands:ident, $at:ident, $width:ident, |$a:ident, $b:ident| $f:expr) => {
        match $link.with {
            SecondOperand::Operand(operand) => match $operands[usize::from(operand)] {
                Operand::Slice(slice) => {
                    let other = load($s, &slice[$at..$at + $width]);
                    for k in 0..BLOCK {
                        let ($a, $b) = ($block[k], other[k]);
                        $block[k] = $f;
                    }
                }
                Operand::One(one) => {
                    let $b = $s.splat_f32s(one);
                    for k in 0..BLOCK {
                        let $a = $block[k];
                        $block[k] = $f;
                    }
                }
            },
            SecondOperand::Same => {
                for k in 0..BLOCK {
                    let ($a, $b) = ($block[k], $block[k]);
                    $block[k] = $f;
                }
            }
        }
    };
}

/// Applies `$f` to the integers in a block and in the second operand of a link, vector by vector.
macro_rules! integers {
    ($s:ident, $block:ident, $link:ident, $operands:ident, $at:ident, $width:ident, |$a:ident, $b:ident| $f:expr) => {
        two!($s, $block, $link, $operands, $at, $width, |x, y| {
            let ($a, $b) = ($s.transmute_u32s_f32s(x), $s.transmute_u32s_f32s(y));
            $s.transmute_f32s_u32s($f)
        })
    };
}

/// Applies `$f` to a block, vector by vector.
macro_rules! one {
    ($block:ident, |$a:ident| $f:expr) => {
        for k in 0..BLOCK {
            let $a = $block[k];
            $block[k] = $f;
        }
    };
}

/// Copies a block to the stack and applies `$f` to each number in it. `$f` takes many instructions and needs the
/// registers for its own intermediate values.
macro_rules! long {
    ($block:ident, $f:path) => {{
        let mut held = $block;
        for x in cast_slice_mut::<S::f32s, f32>(&mut held) {
            *x = $f(*x);
        }
        $block = held;
    }};
}

/// Like `long`, with a function `$any` for angles that are too large for `$f`.
macro_rules! angles {
    ($block:ident, $f:path, $any:path) => {{
        let angles = $block;
        long!($block, $f);
        let angles: &[f32] = cast_slice(&angles);
        if angles.iter().fold(false, |found, &x| found | math::is_large_angle(x)) {
            let mut held = $block;
            for (y, &x) in cast_slice_mut::<S::f32s, f32>(&mut held).iter_mut().zip(angles) {
                if math::is_large_angle(x) {
                    *y = $any(x);
                }
            }
            $block = held;
        }
    }};
}

impl WithSimd for Run<'_> {
    type Output = ();

    // After loop unrolling, every index into a block is a constant, so the compiler keeps the block in registers.
    // References to elements or bytes of a block would force it into memory.
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let width = BLOCK * lanes::<S>();
        let Run { links, operands, out } = self;
        let last = out.len().saturating_sub(width);
        // The last block may overlap the block before it.
        for at in (0..out.len()).step_by(width).map(|at| at.min(last)) {
            let mut acc = match operands[0] {
                Operand::Slice(slice) => load(s, &slice[at..at + width]),
                Operand::One(one) => [s.splat_f32s(one); BLOCK],
            };
            for link in links {
                match link.function {
                    Chained::Add => two!(s, acc, link, operands, at, width, |a, b| s.add_f32s(a, b)),
                    Chained::Sub => two!(s, acc, link, operands, at, width, |a, b| s.sub_f32s(a, b)),
                    Chained::SubFrom => two!(s, acc, link, operands, at, width, |a, b| s.sub_f32s(b, a)),
                    Chained::Mul => two!(s, acc, link, operands, at, width, |a, b| s.mul_f32s(a, b)),
                    Chained::Div => two!(s, acc, link, operands, at, width, |a, b| s.div_f32s(a, b)),
                    Chained::DivInto => two!(s, acc, link, operands, at, width, |a, b| s.div_f32s(b, a)),
                    Chained::Max => two!(s, acc, link, operands, at, width, |a, b| max(s, a, b)),
                    Chained::Min => two!(s, acc, link, operands, at, width, |a, b| min(s, a, b)),
                    Chained::Neg => one!(acc, |a| s.xor_f32s(a, s.splat_f32s(-0.0))),
                    Chained::Abs => one!(acc, |a| s.abs_f32s(a)),
                    Chained::Sqrt => one!(acc, |a| s.sqrt_f32s(a)),
                    Chained::Rsqrt => one!(acc, |a| s.div_f32s(s.splat_f32s(1.0), s.sqrt_f32s(a))),
                    Chained::Exp => long!(acc, math::exp),
                    Chained::ExpM1 => long!(acc, math::exp_m1),
                    Chained::Tanh => long!(acc, math::tanh),
                    Chained::Erf => long!(acc, math::erf),
                    Chained::Ln => long!(acc, math::ln),
                    Chained::Ln1p => long!(acc, math::ln_1p),
                    Chained::Logistic => long!(acc, math::logistic),
                    Chained::Sin => angles!(acc, math::small_sin, f32::sin),
                    Chained::Cos => angles!(acc, math::small_cos, f32::cos),
                    Chained::RoundToBf16 => long!(acc, rounded::<bf16>),
                    Chained::RoundToF16 => long!(acc, rounded::<f16>),
                    Chained::AddIntegers => integers!(s, acc, link, operands, at, width, |a, b| s.add_u32s(a, b)),
                    Chained::SubIntegers => integers!(s, acc, link, operands, at, width, |a, b| s.sub_u32s(a, b)),
                    Chained::SubIntegersFrom => integers!(s, acc, link, operands, at, width, |a, b| s.sub_u32s(b, a)),
                    Chained::MulIntegers => {
                        integers!(s, acc, link, operands, at, width, |a, b| s.widening_mul_u32s(a, b).0)
                    }
                    Chained::And => integers!(s, acc, link, operands, at, width, |a, b| s.and_u32s(a, b)),
                    Chained::Or => integers!(s, acc, link, operands, at, width, |a, b| s.or_u32s(a, b)),
                    Chained::Xor => integers!(s, acc, link, operands, at, width, |a, b| s.xor_u32s(a, b)),
                    Chained::ShiftLeft => integers!(s, acc, link, operands, at, width, |a, b| shift_left(s, a, b)),
                    Chained::ShiftLeftBy => integers!(s, acc, link, operands, at, width, |a, b| shift_left(s, b, a)),
                    Chained::ShiftRightLogical => {
                        integers!(s, acc, link, operands, at, width, |a, b| shift_right(s, a, b))
                    }
                    Chained::ShiftRightLogicalBy => {
                        integers!(s, acc, link, operands, at, width, |a, b| shift_right(s, b, a))
                    }
                }
            }
            store::<S>(acc, &mut out[at..at + width]);
        }
    }
}

/// Returns the number of `f32`s in a vector.
pub(crate) const fn lanes<S: Simd>() -> usize {
    size_of::<S::f32s>() / size_of::<f32>()
}

/// Loads a block from `from`, which must have the length of a block.
#[inline(always)]
fn load<S: Simd>(s: S, from: &[f32]) -> [S::f32s; BLOCK] {
    match S::as_simd_f32s(from).0 {
        &[a, b, c, d, e, f, g, h] => [a, b, c, d, e, f, g, h],
        _ => [s.splat_f32s(0.0); BLOCK],
    }
}

#[inline(always)]
fn store<S: Simd>(block: [S::f32s; BLOCK], to: &mut [f32]) {
    if let [a, b, c, d, e, f, g, h] = S::as_mut_simd_f32s(to).0 {
        [*a, *b, *c, *d, *e, *f, *g, *h] = block;
    }
}

/// Shifts to the left. All bits leave if the distance is 32 or more.
#[inline(always)]
fn shift_left<S: Simd>(s: S, a: S::u32s, by: S::u32s) -> S::u32s {
    let (distance, is_less) = distance(s, by);
    s.select_u32s(is_less, s.wrapping_dyn_shl_u32s(a, distance), s.splat_u32s(0))
}

/// Shifts to the right. All bits leave if the distance is 32 or more.
#[inline(always)]
fn shift_right<S: Simd>(s: S, a: S::u32s, by: S::u32s) -> S::u32s {
    let (distance, is_less) = distance(s, by);
    s.select_u32s(is_less, s.wrapping_dyn_shr_u32s(a, distance), s.splat_u32s(0))
}

/// Returns the distances modulo 32, and which of them are less than 32. `pulp` wraps larger ones on some processors,
/// and panics on others.
#[inline(always)]
fn distance<S: Simd>(s: S, by: S::u32s) -> (S::u32s, S::m32s) {
    (s.and_u32s(by, s.splat_u32s(31)), s.less_than_u32s(by, s.splat_u32s(32)))
}

/// Returns the larger of two numbers. NaN takes precedence, and +0 is larger than -0. Equal numbers differ at most in
/// the sign bit, so the bitwise `and` of +0 and -0 is +0.
#[inline(always)]
pub(crate) fn max<S: Simd>(s: S, a: S::f32s, b: S::f32s) -> S::f32s {
    let larger = s.select_f32s(s.less_than_f32s(b, a), a, b);
    let number = s.select_f32s(s.equal_f32s(a, b), s.and_f32s(a, b), larger);
    s.select_f32s(s.equal_f32s(a, a), number, a)
}

/// Returns the smaller of two numbers. NaN takes precedence, and -0 is smaller than +0.
#[inline(always)]
pub(crate) fn min<S: Simd>(s: S, a: S::f32s, b: S::f32s) -> S::f32s {
    let smaller = s.select_f32s(s.less_than_f32s(a, b), a, b);
    let number = s.select_f32s(s.equal_f32s(a, b), s.or_f32s(a, b), smaller);
    s.select_f32s(s.equal_f32s(a, a), number, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::elementwise::num::{Num, Real};

    type Function = fn(f32, f32) -> f32;
    type Exact = fn(f64) -> f64;

    const ALL: [(Chained, Function); 21] = [
        (Chained::Add, |a, b| a + b),
        (Chained::Sub, |a, b| a - b),
        (Chained::SubFrom, |a, b| b - a),
        (Chained::Mul, |a, b| a * b),
        (Chained::Div, |a, b| a / b),
        (Chained::DivInto, |a, b| b / a),
        (Chained::Max, Num::max),
        (Chained::Min, Num::min),
        (Chained::Neg, |a, _| -a),
        (Chained::Abs, |a, _| a.abs()),
        (Chained::Sqrt, |a, _| a.sqrt()),
        (Chained::Rsqrt, |a, _| 1.0 / a.sqrt()),
        (Chained::Exp, |a, _| Real::exp(a)),
        (Chained::ExpM1, |a, _| Real::exp_m1(a)),
        (Chained::Tanh, |a, _| Real::tanh(a)),
        (Chained::Erf, |a, _| math::erf(a)),
        (Chained::Ln, |a, _| Real::ln(a)),
        (Chained::Ln1p, |a, _| Real::ln_1p(a)),
        (Chained::Logistic, |a, _| Real::logistic(a)),
        (Chained::Sin, |a, _| Real::sin(a)),
        (Chained::Cos, |a, _| Real::cos(a)),
    ];

    type OfIntegers = fn(u32, u32) -> u32;

    const INTEGERS: [(Chained, OfIntegers); 11] = [
        (Chained::AddIntegers, |a, b| a.wrapping_add(b)),
        (Chained::SubIntegers, |a, b| a.wrapping_sub(b)),
        (Chained::SubIntegersFrom, |a, b| b.wrapping_sub(a)),
        (Chained::MulIntegers, |a, b| a.wrapping_mul(b)),
        (Chained::And, |a, b| a & b),
        (Chained::Or, |a, b| a | b),
        (Chained::Xor, |a, b| a ^ b),
        (Chained::ShiftLeft, |a, b| a.checked_shl(b).unwrap_or(0)),
        (Chained::ShiftLeftBy, |a, b| b.checked_shl(a).unwrap_or(0)),
        (Chained::ShiftRightLogical, |a, b| a.checked_shr(b).unwrap_or(0)),
        (Chained::ShiftRightLogicalBy, |a, b| b.checked_shr(a).unwrap_or(0)),
    ];

    /// Integers, also those whose bits are a NaN or a subnormal number.
    #[test]
    fn integers_keep_their_bits() {
        let edges = [0u32, 1, 2, 31, 32, 33, 0x7f80_0001, 0xffc0_0000, 0x8000_0000, u32::MAX, 0x1234_5678, 0x0080_0000];
        for (function, exact) in INTEGERS {
            assert!(function.is_binary() && !function.is_long());
            for n in [1, 31, 64, 128, 129, 400] {
                let a: Vec<u32> = (0..n).map(|i| edges[i % edges.len()]).collect();
                let b: Vec<u32> = (0..n).map(|i| edges[i / edges.len() % edges.len()]).collect();
                let mut got = vec![0u32; n];
                function.run(cast_slice(&a), cast_slice(&b), cast_slice_mut(&mut got));
                assert!((0..n).all(|i| got[i] == exact(a[i], b[i])), "{function:?}");
                let link = Link { function: function.reversed(), with: SecondOperand::Operand(1) };
                for one in edges {
                    let operands = [Operand::Slice(cast_slice(&a)), Operand::One(f32::from_bits(one))];
                    run(&[link], &operands, cast_slice_mut(&mut got));
                    assert!((0..n).all(|i| got[i] == exact(one, a[i])), "{function:?} {one}");
                }
            }
        }
    }

    fn edges() -> Vec<f32> {
        let mut xs = vec![f32::NAN, f32::INFINITY, 0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, 1e-40, 88.7, 0.3];
        xs.extend(xs.clone().iter().map(|x| -x));
        xs
    }

    /// Returns whether the bits are equal or both numbers are NaN.
    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn vector_matches_scalar() {
        let edges = edges();
        for (function, exact) in ALL {
            for n in [0, 1, 4, 31, 64, 127, 128, 129, 400] {
                let a: Vec<f32> = (0..n).map(|i| edges[i % edges.len()]).collect();
                let b: Vec<f32> = (0..n).map(|i| edges[i / edges.len() % edges.len()]).collect();
                let mut got = vec![0f32; n];
                function.run(cast_slice(&a), cast_slice(&b), cast_slice_mut(&mut got));
                for (i, &got) in got.iter().enumerate() {
                    assert!(same(got, exact(a[i], b[i])), "{function:?} {} {}: {got}", a[i], b[i]);
                }
                for &one in &edges {
                    let link = Link { function, with: SecondOperand::Operand(1) };
                    run(&[link], &[Operand::Slice(&a), Operand::One(one)], &mut got);
                    assert!((0..n).all(|i| same(got[i], exact(a[i], one))), "{function:?} {one}");
                    run(&[link], &[Operand::One(one), Operand::Slice(&a)], &mut got);
                    assert!((0..n).all(|i| same(got[i], exact(one, a[i]))), "{function:?} {one}");
                }
                run(&[Link { function, with: SecondOperand::Same }], &[Operand::Slice(&a)], &mut got);
                assert!((0..n).all(|i| same(got[i], exact(a[i], a[i]))), "{function:?} of itself");
            }
        }
    }

    #[test]
    fn reversed_functions_swap_operands() {
        for (function, exact) in ALL.iter().filter(|(function, _)| function.is_binary()) {
            let (_, reversed) = ALL.iter().find(|(other, _)| *other == function.reversed()).unwrap();
            for (a, b) in edges().iter().flat_map(|&a| edges().into_iter().map(move |b| (a, b))) {
                assert!(same(exact(a, b), reversed(b, a)), "{function:?} {a} {b}");
            }
        }
    }

    /// Checks the error limits in the table of `docs/numerics.md` for arguments of all magnitudes.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
    fn errors_within_documented_limits() {
        let table = include_str!("../../../../../docs/numerics.md");
        type Run = fn(&[f32], &mut [f32]);
        macro_rules! chained {
            ($function:ident) => {
                |x, y| Chained::$function.run(cast_slice(x), &[], cast_slice_mut(y))
            };
        }
        macro_rules! each {
            ($function:path) => {
                |x, y| x.iter().zip(y).for_each(|(x, y)| *y = $function(*x))
            };
        }
        let functions: [(&str, Run, Exact); 11] = [
            ("exponential", chained!(Exp), f64::exp),
            ("exp2", each!(math::exp2), f64::exp2),
            ("exponential_minus_one", chained!(ExpM1), f64::exp_m1),
            ("log", chained!(Ln), f64::ln),
            ("log2", each!(math::log2), f64::log2),
            ("log_plus_one", chained!(Ln1p), f64::ln_1p),
            ("logistic", chained!(Logistic), |x| 1.0 / (1.0 + (-x).exp())),
            ("tanh", chained!(Tanh), f64::tanh),
            ("erf", chained!(Erf), libm::erf),
            ("sine", chained!(Sin), f64::sin),
            ("cosine", chained!(Cos), f64::cos),
        ];
        let xs: Vec<f32> = (0..u32::MAX).step_by(1499).map(f32::from_bits).filter(|x| x.is_finite()).collect();
        let mut got = vec![0f32; xs.len()];
        for (name, function, exact) in functions {
            // A row with an error limit begins with the limit. Rows that begin with a function name limit the
            // difference from XLA.
            let row = format!(" | `{name}` |");
            let limit = table.lines().find_map(|line| line.strip_prefix("| ")?.strip_suffix(&row));
            let limit: f64 = limit.unwrap_or_else(|| panic!("{name} is not in the table")).parse().unwrap();
            function(&xs, &mut got);
            for (&x, &got) in xs.iter().zip(&got) {
                let want = exact(f64::from(x));
                let rounded = want as f32;
                if !rounded.is_normal() {
                    let small = (f64::from(got) - want).abs() < f64::from(f32::MIN_POSITIVE);
                    assert!(small || same(got, rounded), "{name}({x:e}) = {got:e}, not {want:e}");
                    continue;
                }
                let ulp = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
                let error = (f64::from(got) - want).abs() / ulp;
                assert!(error <= limit, "{name}({x:e}) = {got:e} is off by {error} ulp");
            }
        }
    }
}
