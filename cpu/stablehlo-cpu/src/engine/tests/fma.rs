//! Tests of `fma`, which is rounded once. The expected results come from exact sums of integers of any length.

use bytemuck::Pod;
use half::{bf16, f16};
use num_bigint::{BigInt, BigUint, Sign};
use stablehlo::ir::ElementType;
use stablehlo::{FloatFormat, NonFinite};

use super::{DType, op, program, run, tensor};

/// The format of a type, in terms of `f64`s.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u64,
    /// Exponent of the smallest positive number.
    least: i32,
    largest: f64,
    non_finite: NonFinite,
}

impl Format {
    fn of(dtype: DType) -> Self {
        let non_finite = NonFinite::Ieee;
        match (dtype, FloatFormat::of(dtype.element_type())) {
            (DType::F32, _) => Self { mantissa_bits: 23, least: -149, largest: f32::MAX.into(), non_finite },
            (_, None) => Self { mantissa_bits: 52, least: -1074, largest: f64::MAX, non_finite },
            (_, Some(f)) => {
                let codes = 0..1u64 << (f.exponent_bits + f.mantissa_bits);
                let largest = codes.map(|code| f.decode(code)).filter(|x| x.is_finite()).fold(0.0, f64::max);
                let least = 1 - f.bias - i32::try_from(f.mantissa_bits).unwrap();
                Self { mantissa_bits: f.mantissa_bits.into(), least, largest, non_finite: f.non_finite }
            }
        }
    }

    fn has_negative_zero(&self) -> bool {
        self.non_finite != NonFinite::Fnuz
    }

    /// Returns the number that the format has for a magnitude above `largest`.
    fn overflow(&self) -> f64 {
        match self.non_finite {
            NonFinite::Ieee => f64::INFINITY,
            NonFinite::Fn | NonFinite::Fnuz => f64::NAN,
            NonFinite::Finite => self.largest,
        }
    }

    /// Returns `a * b + c`, computed exactly and rounded to nearest with ties to even.
    fn fma(&self, a: f64, b: f64, c: f64) -> f64 {
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            // Only the class of the result matters. No product of finite numbers of the smaller formats overflows, and
            // one that does in `f64` has the sign that matters.
            let product = if a.is_finite() && b.is_finite() { 0.0 } else { a * b };
            return product + c;
        }
        let ((ma, ea), (mb, eb), (mc, ec)) = (parts(a), parts(b), parts(c));
        // The sum is an integer times 2^(2 * least), because every product is.
        let sum = ((ma * mb) << (ea + eb - 2 * self.least)) + (mc << (ec - 2 * self.least));
        let is_negative = if sum.sign() == Sign::NoSign {
            a.is_sign_negative() != b.is_sign_negative() && c.is_sign_negative()
        } else {
            sum.sign() == Sign::Minus
        };
        let magnitude = self.rounded(sum.magnitude());
        let magnitude = if magnitude > self.largest { self.overflow() } else { magnitude };
        if is_negative && (magnitude != 0.0 || self.has_negative_zero()) { -magnitude } else { magnitude }
    }

    /// Returns `sum * 2^(2 * least)`, rounded.
    fn rounded(&self, sum: &BigUint) -> f64 {
        // The position of the last bit that is kept.
        let last = (sum.bits().saturating_sub(self.mantissa_bits + 1)).max(u64::from(self.least.unsigned_abs()));
        let kept = u64::try_from(sum >> last).unwrap();
        let is_half = sum.bit(last - 1);
        let is_above_half = is_half && sum.trailing_zeros() < Some(last - 1);
        let up = is_half && (is_above_half || kept & 1 == 1);
        let exponent = i32::try_from(last).unwrap() + 2 * self.least;
        // Both steps are exact, unless the result is infinite.
        #[expect(clippy::cast_precision_loss, reason = "at most 53 bits")]
        let kept = (kept + u64::from(up)) as f64;
        kept * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
    }
}

/// Returns `(m, e)` with `x = m * 2^e`, where `m` is odd or 0.
fn parts(x: f64) -> (BigInt, i32) {
    let bits = x.to_bits() & (u64::MAX >> 1);
    let (exponent, fraction) = (i32::try_from(bits >> 52).unwrap(), bits & ((1 << 52) - 1));
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let zeros = if mantissa == 0 { 0 } else { mantissa.trailing_zeros() };
    let (odd, exponent) = (BigInt::from(mantissa >> zeros), exponent.max(1) - 1075 + i32::try_from(zeros).unwrap());
    (if x.is_sign_negative() { -odd } else { odd }, if mantissa == 0 { 0 } else { exponent })
}

/// Runs `fma` on these operands, and compares the results with the exact ones.
fn check<T: Pod>(dtype: DType, operands: &[[T; 3]], value: impl Fn(T) -> f64) {
    let column = |i: usize| operands.iter().map(|row| row[i]).collect::<Vec<T>>();
    let results = op("fma", dtype, &[&column(0), &column(1), &column(2)]);
    let format = Format::of(dtype);
    for (&[a, b, c], &result) in operands.iter().zip(&results) {
        let ([a, b, c], got) = ([a, b, c].map(&value), value(result));
        let want = format.fma(a, b, c);
        let is_same = if want.is_nan() { got.is_nan() } else { got.to_bits() == want.to_bits() };
        // A format without NaN has no result for NaN.
        let is_free = want.is_nan() && format.non_finite == NonFinite::Finite;
        assert!(is_same || is_free, "{dtype:?}: {a:e} * {b:e} + {c:e} = {got:e}, not {want:e}");
    }
}

/// Checks every pair of factors of each type of at most eight bits, each pair with several summands. The types of four
/// bits are checked with all summands.
#[test]
fn every_pair_of_narrow_factors() {
    let mut checked = 0;
    for dtype in ElementType::all().filter_map(DType::from_ir) {
        let Some(f) = FloatFormat::of(dtype.element_type()).filter(|f| f.mantissa_bits > 0) else { continue };
        let bits = f.exponent_bits + f.mantissa_bits + 1;
        let summands = match bits {
            0..=4 => 16,
            5..=6 => 8,
            7..=8 => 2,
            _ => continue,
        };
        let count = 1usize << bits;
        let code = |code: usize| u8::try_from(code % count).unwrap();
        for a in 0..count {
            let rows = (0..count).flat_map(|b| {
                (0..summands).map(move |i| [code(a), code(b), code(i * count / summands + a * 7 + b * 13)])
            });
            check(dtype, &rows.collect::<Vec<_>>(), |code: u8| f.decode(code.into()));
        }
        checked += 1;
    }
    assert_eq!(checked, 10);
}

/// `f8E8M0FNU` has only powers of two, and no sign. Its results are rounded as in `convert`: up from the middle.
#[test]
fn powers_of_two() {
    let codes = |x: [i32; 3]| x.map(|exponent| u8::try_from(exponent + 127).unwrap());
    for (operands, expected) in [
        ([0, 0, 0], 1),       // 1 + 1 = 2
        ([1, 0, 0], 2),       // 2 + 1 = 3, in the middle of 2 and 4
        ([2, 0, 0], 2),       // 4 + 1 = 5
        ([0, 2, 1], 3),       // 4 + 2 = 6
        ([60, 60, 119], 121), // 2^120 + 2^119, in the middle
        ([60, 60, 118], 120), // just below the middle
        ([-100, -100, 5], 5), // the product is below the smallest number
        ([-127, -127, -127], -127),
        ([127, 0, -127], 127),
    ] {
        let [a, b, c] = codes(operands);
        assert_eq!(op("fma", DType::F8E8M0FNU, &[&[a], &[b], &[c]]), [u8::try_from(expected + 127).unwrap()]);
    }
    assert_eq!(op("fma", DType::F8E8M0FNU, &[&[254u8], &[254], &[127]]), [255], "an overflow is NaN");
    assert_eq!(op("fma", DType::F8E8M0FNU, &[&[255u8, 127], &[127, 127], &[127, 255]]), [255, 255]);
}

/// Pseudo-random generator that returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// Returns the bits of a number with `mantissa` mantissa bits, of which at most `used` are not 0, and `exponent`
    /// exponent bits, of which the value is in the middle half if `is_central` is set.
    fn bits(&mut self, exponent: u32, mantissa: u32, used: u32, is_central: bool) -> u64 {
        let bits = self.next();
        let fraction = bits & ((1 << mantissa) - 1) & !((1 << (mantissa - used)) - 1);
        let half = 1u64 << (exponent - 1);
        let field = if is_central { half / 2 + (bits >> 40) % half } else { bits >> 40 & (2 * half - 1) };
        (bits >> 63) << (exponent + mantissa) | field << mantissa | fraction
    }
}

/// Returns operands of a type with these numbers of bits.
///
/// Numbers with random bits are rarely close to a middle between two results. Products of short numbers often are in
/// the middle, so that a small summand decides. Summands that nearly cancel the product leave its low bits.
fn operands(exponent: u32, mantissa: u32, count: usize) -> Vec<[u64; 3]> {
    let mut random = Random(u64::from(mantissa));
    let edges = [
        0,                                                       // zero
        1,                                                       // the smallest number
        (1 << mantissa) - 1,                                     // the largest subnormal number
        1 << mantissa,                                           // the smallest normal number
        ((1 << (exponent - 1)) - 1) << mantissa,                 // 1
        (((1 << (exponent - 1)) - 1) << mantissa) + 1,           // the number after 1
        (((1 << exponent) - 1) << mantissa) - 1,                 // the largest number
        ((1 << exponent) - 1) << mantissa,                       // infinity
        ((1 << exponent) - 1) << mantissa | 1 << (mantissa - 1), // NaN
    ];
    let edges: Vec<u64> = edges.into_iter().flat_map(|x| [x, x | 1 << (exponent + mantissa)]).collect();
    let mut rows = Vec::new();
    for &a in &edges {
        for &b in &edges {
            rows.extend(edges.iter().map(|&c| [a, b, c]));
        }
    }
    for i in 0..count {
        let short = mantissa / 2 + 1;
        let row = match i % 4 {
            0 => [(); 3].map(|()| random.bits(exponent, mantissa, mantissa, false)),
            1 => [(); 3].map(|()| random.bits(exponent, mantissa, mantissa, true)),
            2 => {
                let [a, b] = [(); 2].map(|()| random.bits(exponent, mantissa, short, true));
                [a, b, random.bits(exponent, mantissa, 1, false)]
            }
            _ => {
                let [a, b] = [(); 2].map(|()| random.bits(exponent, mantissa, mantissa, true));
                // The exponents of the factors, and the negated sign of the product.
                let field = |x: u64| (x >> mantissa) & ((1 << exponent) - 1);
                let sum = (field(a) + field(b)).saturating_sub((1 << (exponent - 1)) - 1) + random.next() % 2;
                let sign = (!(a ^ b)) >> (exponent + mantissa) & 1;
                let c = random.bits(exponent, mantissa, mantissa, true) & ((1 << mantissa) - 1);
                [a, b, sign << (exponent + mantissa) | sum.min((1 << exponent) - 2) << mantissa | c]
            }
        };
        rows.push(row);
    }
    rows
}

#[test]
fn bf16_and_f16() {
    let narrow = |rows: Vec<[u64; 3]>| -> Vec<[u16; 3]> {
        rows.into_iter().map(|row| row.map(|bits| u16::try_from(bits).unwrap())).collect()
    };
    check(DType::Bf16, &narrow(operands(8, 7, 60_000)), |bits: u16| bf16::from_bits(bits).to_f64());
    check(DType::F16, &narrow(operands(5, 10, 60_000)), |bits: u16| f16::from_bits(bits).to_f64());
}

#[test]
fn f32_and_f64() {
    let rows = operands(8, 23, 40_000);
    let rows: Vec<_> = rows.into_iter().map(|row| row.map(|bits| f32::from_bits(bits.try_into().unwrap()))).collect();
    check(DType::F32, &rows, f64::from);
    let rows: Vec<_> = operands(11, 52, 20_000).into_iter().map(|row| row.map(f64::from_bits)).collect();
    check(DType::F64, &rows, |x| x);
}

/// Cases in which `multiply` and `add`, or an intermediate rounding to `f32` or `f64`, give another result.
#[test]
fn double_rounding() {
    // 1 + 2^-7 is the number after 1, and the product is just above the middle of two numbers.
    let [a, b] = [1.0 + 1.0 / 16.0, 1.0 + 15.0 / 128.0].map(bf16::from_f64);
    let tiny = bf16::from_f64(2f64.powi(-60));
    for c in [tiny, -tiny] {
        check(DType::Bf16, &[[a, b, c].map(bf16::to_bits)], |bits: u16| bf16::from_bits(bits).to_f64());
    }
    let small = 2f32.powi(-23);
    assert_eq!(op("fma", DType::F32, &[&[1.0 + small], &[1.0 - small], &[-1.0f32]]), [-2f32.powi(-46)]);
    // The product is in the middle of two `f32`s, and an `f64` does not hold its sum with `c`.
    let half = 1.0 + 2f32.powi(-12);
    for (c, expected) in [(f32::MIN_POSITIVE, 1.0 + 2f32.powi(-11) + small), (-f32::MIN_POSITIVE, 1.0 + 2f32.powi(-11))]
    {
        assert_eq!(op("fma", DType::F32, &[&[half], &[half], &[c]]), [expected]);
    }
    let small = 2f64.powi(-52);
    assert_eq!(op("fma", DType::F64, &[&[1.0 + small], &[1.0 - small], &[-1.0f64]]), [-2f64.powi(-104)]);
}

#[test]
fn region_rounds_once() {
    let ty = "tensor<2xbf16>";
    let body = format!(
        "%0 = \"stablehlo.map\"(%a, %b, %c) <{{dimensions = array<i64: 0>}}> ({{
         ^bb0(%x: tensor<bf16>, %y: tensor<bf16>, %z: tensor<bf16>):
           %1 = stablehlo.fma %x, %y, %z : tensor<bf16>
           stablehlo.return %1 : tensor<bf16>
         }}) : ({ty}, {ty}, {ty}) -> {ty}
         return %0 : {ty}"
    );
    let program = program(&format!("%a: {ty}, %b: {ty}, %c: {ty}"), ty, &body);
    let columns = [[1.0625, 3.0], [1.1171875, -2.0], [2f64.powi(-60), 1.0]].map(|x| x.map(bf16::from_f64));
    let results: Vec<bf16> = run(&program, columns.iter().map(|x| tensor(DType::Bf16, &[2], x)).collect());
    for (i, result) in results.into_iter().enumerate() {
        let [a, b, c] = columns.map(|column| column[i].to_f64());
        assert_eq!(result.to_f64(), Format::of(DType::Bf16).fma(a, b, c));
    }
}

#[cfg(feature = "jit")]
mod loops {
    use super::super::loops::both;
    use super::*;

    /// A loop that computes `a * b + c` for scalars, and then for arrays.
    fn looping(ty: &str) -> String {
        format!(
            "func.func @main(%a: {ty}, %b: {ty}, %c: {ty}) -> {ty} {{
               %zero = stablehlo.constant dense<0> : tensor<i32>
               %one = stablehlo.constant dense<1> : tensor<i32>
               %n = stablehlo.constant dense<3> : tensor<i32>
               %0:2 = stablehlo.while(%i = %zero, %x = %c) : tensor<i32>, {ty}
               cond {{
                 %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 stablehlo.return %p : tensor<i1>
               }} do {{
                 %j = stablehlo.add %i, %one : tensor<i32>
                 %y = stablehlo.fma %a, %b, %x : {ty}
                 %z = stablehlo.fma %y, %b, %a : {ty}
                 stablehlo.return %j, %z : tensor<i32>, {ty}
               }}
               return %0#1 : {ty}
             }}"
        )
    }

    #[test]
    fn compiled_loops_round_once() {
        for (dims, count) in [("", 1), ("7x", 7), ("64x", 64)] {
            let shape: &[usize] = if count == 1 { &[] } else { &[count] };
            let rows = operands(8, 23, 64);
            for rows in rows[rows.len() - 64..].chunks_exact(count) {
                let column = |i: usize| -> Vec<f32> {
                    rows.iter().map(|row| f32::from_bits(row[i].try_into().unwrap())).collect()
                };
                let inputs = [0, 1, 2].map(|i| tensor(DType::F32, shape, &column(i)));
                both(&looping(&format!("tensor<{dims}f32>")), &inputs);
            }
            let rows = operands(11, 52, 64);
            for rows in rows[rows.len() - 64..].chunks_exact(count) {
                let column = |i: usize| -> Vec<f64> { rows.iter().map(|row| f64::from_bits(row[i])).collect() };
                let inputs = [0, 1, 2].map(|i| tensor(DType::F64, shape, &column(i)));
                both(&looping(&format!("tensor<{dims}f64>")), &inputs);
            }
        }
    }
}
