//! Compares `convert` between numeric types with exact arithmetic on integers: all patterns of types of at most 16
//! bits, and samples of wider types, which include the numbers around the middle of two neighbors of each narrower
//! float.

use super::{DType, program, run, tensor};

/// A number as `±magnitude * 2^exponent`, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exact {
    Nan,
    Infinity { negative: bool },
    Finite { negative: bool, magnitude: u128, exponent: i32 },
}

/// What patterns above the largest finite number mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// Infinities and NaN.
    Ieee,
    /// Only the pattern of ones is NaN.
    Fn,
    /// Only the pattern of a negative zero is NaN.
    Fnuz,
    /// Every pattern is a finite number.
    Finite,
}

#[derive(Clone, Copy)]
enum Kind {
    Float { exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special },
    Int { bits: u32, signed: bool },
    Bool,
}

struct Type {
    dtype: DType,
    kind: Kind,
}

const fn float(dtype: DType, exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special) -> Type {
    Type { dtype, kind: Kind::Float { exponent_bits, mantissa_bits, bias, special } }
}

const fn int(dtype: DType, bits: u32, signed: bool) -> Type {
    Type { dtype, kind: Kind::Int { bits, signed } }
}

const TYPES: &[Type] = &[
    Type { dtype: DType::Bool, kind: Kind::Bool },
    int(DType::I8, 8, true),
    int(DType::U8, 8, false),
    int(DType::I16, 16, true),
    int(DType::U16, 16, false),
    int(DType::I32, 32, true),
    int(DType::U32, 32, false),
    int(DType::I64, 64, true),
    int(DType::U64, 64, false),
    float(DType::F4E2M1FN, 2, 1, 1, Special::Finite),
    float(DType::F6E2M3FN, 2, 3, 1, Special::Finite),
    float(DType::F6E3M2FN, 3, 2, 3, Special::Finite),
    float(DType::F8E3M4, 3, 4, 3, Special::Ieee),
    float(DType::F8E4M3, 4, 3, 7, Special::Ieee),
    float(DType::F8E4M3FN, 4, 3, 7, Special::Fn),
    float(DType::F8E4M3FNUZ, 4, 3, 8, Special::Fnuz),
    float(DType::F8E4M3B11FNUZ, 4, 3, 11, Special::Fnuz),
    float(DType::F8E5M2, 5, 2, 15, Special::Ieee),
    float(DType::F8E5M2FNUZ, 5, 2, 16, Special::Fnuz),
    float(DType::F16, 5, 10, 15, Special::Ieee),
    float(DType::Bf16, 8, 7, 127, Special::Ieee),
    float(DType::F32, 8, 23, 127, Special::Ieee),
    float(DType::F64, 11, 52, 1023, Special::Ieee),
];

impl Kind {
    fn bits(self) -> u32 {
        match self {
            Kind::Float { exponent_bits, mantissa_bits, .. } => 1 + exponent_bits + mantissa_bits,
            Kind::Int { bits, .. } => bits,
            Kind::Bool => 1,
        }
    }

    fn decode(self, pattern: u64) -> Exact {
        match self {
            Kind::Bool => Exact::Finite { negative: false, magnitude: u128::from(pattern & 1), exponent: 0 },
            Kind::Int { bits, signed } => {
                let negative = signed && pattern >> (bits - 1) & 1 == 1;
                let magnitude = if negative { (1u128 << bits) - u128::from(pattern) } else { u128::from(pattern) };
                Exact::Finite { negative, magnitude, exponent: 0 }
            }
            Kind::Float { exponent_bits, mantissa_bits, bias, special } => {
                let width = exponent_bits + mantissa_bits;
                let negative = pattern >> width & 1 == 1;
                let magnitude = pattern & ((1 << width) - 1);
                let ones = (1u64 << width) - 1;
                let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
                match special {
                    Special::Ieee if magnitude > infinity => return Exact::Nan,
                    Special::Ieee if magnitude == infinity => return Exact::Infinity { negative },
                    Special::Fn if magnitude == ones => return Exact::Nan,
                    Special::Fnuz if negative && magnitude == 0 => return Exact::Nan,
                    _ => {}
                }
                let field = magnitude >> mantissa_bits;
                let fraction = u128::from(magnitude & ((1 << mantissa_bits) - 1));
                let hidden = if field == 0 { 0 } else { 1u128 << mantissa_bits };
                let scale = i32::try_from(field.max(1)).unwrap() - bias - mantissa_bits.cast_signed();
                Exact::Finite { negative, magnitude: fraction | hidden, exponent: scale }
            }
        }
    }

    /// Returns the pattern of the nearest number, with ties to even, or of the integer toward zero within the type.
    fn encode(self, number: Exact, from: Kind) -> u64 {
        match self {
            Kind::Bool => u64::from(!matches!(number, Exact::Finite { magnitude: 0, .. })),
            Kind::Int { bits, signed } => encode_int(number, bits, signed, matches!(from, Kind::Float { .. })),
            Kind::Float { exponent_bits, mantissa_bits, bias, special } => {
                let width = exponent_bits + mantissa_bits;
                let ones = (1u64 << width) - 1;
                let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
                let nan = match special {
                    Special::Ieee => infinity | 1,
                    Special::Fn => ones,
                    // A format without a NaN stores a negative zero in its place.
                    Special::Fnuz | Special::Finite => 1 << width,
                };
                let (negative, code) = match number {
                    Exact::Nan => return nan,
                    Exact::Infinity { negative } => (negative, u64::MAX),
                    Exact::Finite { negative, magnitude, exponent } => {
                        (negative, nearest(magnitude, exponent, mantissa_bits, bias))
                    }
                };
                let largest = match special {
                    Special::Ieee => infinity - 1,
                    Special::Fn => ones - 1,
                    Special::Fnuz | Special::Finite => ones,
                };
                let sign = u64::from(negative) << width;
                match special {
                    Special::Ieee if code > largest => sign | infinity,
                    Special::Fn | Special::Fnuz if code > largest => nan,
                    Special::Finite if code > largest => sign | largest,
                    Special::Fnuz if code == 0 => 0,
                    _ => sign | code,
                }
            }
        }
    }
}

/// Returns the pattern without the sign of the number that is nearest to `magnitude * 2^exponent`, with ties to even,
/// in a format whose exponents have no upper limit.
fn nearest(magnitude: u128, exponent: i32, mantissa_bits: u32, bias: i32) -> u64 {
    if magnitude == 0 {
        return 0;
    }
    let own = exponent + (127 - magnitude.leading_zeros()).cast_signed();
    let used = own.max(1 - bias);
    // The unit of the last place is 2^unit.
    let unit = used - mantissa_bits.cast_signed();
    let steps = match u32::try_from(unit - exponent) {
        Err(_) => magnitude << (exponent - unit),
        Ok(dropped) if dropped > 127 => 0,
        Ok(dropped) => {
            let kept = magnitude >> dropped;
            let (rest, half) = (magnitude - (kept << dropped), (1u128 << dropped) / 2);
            kept + u128::from(dropped > 0 && (rest > half || rest == half && kept & 1 == 1))
        }
    };
    let base = u64::try_from(used + bias - 1).unwrap() << mantissa_bits;
    base + u64::try_from(steps).unwrap()
}

fn encode_int(number: Exact, bits: u32, signed: bool, saturates: bool) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let (low, high) = if signed { (1u128 << (bits - 1), (1u128 << (bits - 1)) - 1) } else { (0, u128::from(mask)) };
    let (negative, magnitude) = match number {
        Exact::Nan => return 0,
        Exact::Infinity { negative } => (negative, u128::MAX),
        Exact::Finite { negative, magnitude, exponent } => match u32::try_from(exponent) {
            Ok(up) if magnitude != 0 && up > magnitude.leading_zeros() => (negative, u128::MAX),
            Ok(up) => (negative, magnitude << up.min(127)),
            Err(_) => (negative, magnitude.checked_shr(exponent.unsigned_abs()).unwrap_or(0)),
        },
    };
    let limit = if negative { low } else { high };
    let magnitude = if saturates { magnitude.min(limit) } else { magnitude };
    let pattern = u64::try_from(magnitude & u128::from(u64::MAX)).unwrap();
    (if negative { pattern.wrapping_neg() } else { pattern }) & mask
}

/// Returns the patterns of a type that are tried.
fn patterns(kind: Kind) -> Vec<u64> {
    let bits = kind.bits();
    if bits <= 16 {
        return (0..1u64 << bits).collect();
    }
    let mask = u64::MAX >> (64 - bits);
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    // Integers with each number of bits, and arbitrary patterns of floats.
    let mut all: Vec<u64> = (0..20_000).map(|i| random() >> (i % 64) & mask).collect();
    all.extend((0..20_000).map(|_| random() & mask));
    all.extend([0, 1, mask, mask >> 1, (mask >> 1) + 1]);
    // The middle of two neighbors of a narrower type, and the numbers beside it.
    for narrower in TYPES.iter().filter(|narrower| narrower.kind.bits() <= 16 && narrower.kind.bits() > 1) {
        let Kind::Float { .. } = narrower.kind else { continue };
        for pattern in 0..1u64 << (narrower.kind.bits() - 1) {
            let (Exact::Finite { magnitude, exponent, .. }, Exact::Finite { .. }) =
                (narrower.kind.decode(pattern), narrower.kind.decode(pattern + 1))
            else {
                continue;
            };
            let middle =
                Exact::Finite { negative: pattern % 2 == 1, magnitude: 2 * magnitude + 1, exponent: exponent - 1 };
            let middle = kind.encode(middle, narrower.kind);
            all.extend([middle.wrapping_sub(1) & mask, middle, middle.wrapping_add(1) & mask]);
        }
    }
    all
}

fn bytes(patterns: &[u64], size: usize) -> Vec<u8> {
    patterns.iter().flat_map(|pattern| pattern.to_le_bytes()[..size].to_vec()).collect()
}

#[test]
fn every_pair_of_types() {
    let mut checked = 0;
    for from in TYPES {
        let patterns = patterns(from.kind);
        let n = patterns.len();
        for to in TYPES.iter().filter(|to| to.dtype != from.dtype) {
            let (source, target) = (from.dtype.name(), to.dtype.name());
            let convert = program(
                &format!("%a: tensor<{n}x{source}>"),
                &format!("tensor<{n}x{target}>"),
                &format!(
                    "%0 = stablehlo.convert %a : (tensor<{n}x{source}>) -> tensor<{n}x{target}>\n\
                     return %0 : tensor<{n}x{target}>"
                ),
            );
            let size = from.dtype.size();
            let input =
                crate::Tensor::from_bytes(crate::Pool::global(), from.dtype, &[n], &bytes(&patterns, size)).unwrap();
            let output = convert.run(vec![input]).unwrap().remove(0);
            for (pattern, got) in patterns.iter().zip(output.bytes().chunks_exact(to.dtype.size())) {
                let mut word = [0; 8];
                word[..got.len()].copy_from_slice(got);
                let got = to.kind.decode(u64::from_le_bytes(word));
                let number = from.kind.decode(*pattern);
                let expected = to.kind.decode(to.kind.encode(number, from.kind));
                assert_eq!(got, expected, "{number:?}, pattern {pattern:#x} of {source}, to {target}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10_000_000, "{checked}");
}

/// Powers of two without a mantissa and without a zero. Numbers in the middle round up.
#[test]
fn scales_of_large_integers() {
    let below = (3u64 << 61) - 1;
    let inputs = [1, 2, 3, 5, 6, 3 << 61, below, u64::MAX];
    let convert = program(
        "%a: tensor<8xui64>",
        "tensor<8xf8E8M0FNU>",
        "%0 = stablehlo.convert %a : (tensor<8xui64>) -> tensor<8xf8E8M0FNU>\n return %0 : tensor<8xf8E8M0FNU>",
    );
    let codes: Vec<u8> = run(&convert, vec![tensor(DType::U64, &[8], &inputs)]);
    assert_eq!(codes, [0, 1, 2, 2, 3, 63, 62, 64].map(|exponent| 127 + exponent));
}
