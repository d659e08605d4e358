//! Cases for elementwise operations. Each result must be within an interval around the exact result.

use half::{bf16, f16};
use pjrt::{ElementType, HostArray};

use crate::case::Profiles;
use crate::context::{Context, download, shape, unsupported_type};
use crate::program::{binary, unary};
use crate::reference::within;
use crate::stop::Stop;
use crate::suite::Suite;

/// A float type, the number of explicit bits of its mantissa, and its smallest normal number.
#[derive(Clone, Copy)]
struct Float {
    ty: ElementType,
    mantissa_bits: i32,
    smallest_normal: f64,
}

const FLOATS: [Float; 4] = [
    Float { ty: ElementType::F32, mantissa_bits: 23, smallest_normal: f32::MIN_POSITIVE as f64 },
    Float { ty: ElementType::F64, mantissa_bits: 52, smallest_normal: f64::MIN_POSITIVE },
    Float { ty: ElementType::F16, mantissa_bits: 10, smallest_normal: 6.103_515_625e-5 },
    Float { ty: ElementType::Bf16, mantissa_bits: 7, smallest_normal: f32::MIN_POSITIVE as f64 },
];

/// An operation, the exact function, the tolerance in units in the last place, and the function that maps [`arguments`]
/// to the operation's domain.
type Unary = (&'static str, fn(f64) -> f64, f64, fn(f64) -> f64);

fn all(x: f64) -> f64 {
    x
}

fn positive(x: f64) -> f64 {
    x.abs()
}

fn above_minus_one(x: f64) -> f64 {
    x.abs() - 0.5
}

fn unit(x: f64) -> f64 {
    x / 100.0
}

fn moderate(x: f64) -> f64 {
    x / 12.0
}

/// The unary operations. The tolerances in this table are those of XLA's own tests.
const UNARY: &[Unary] = &[
    ("abs", f64::abs, 0.0, all),
    ("negate", |x| -x, 0.0, all),
    ("floor", f64::floor, 0.0, all),
    ("ceil", f64::ceil, 0.0, all),
    ("round_nearest_even", libm::rint, 0.0, all),
    ("round_nearest_afz", f64::round, 0.0, all),
    ("sign", |x| if x == 0.0 { 0.0 } else { x.signum() }, 0.0, all),
    ("sqrt", f64::sqrt, 2.0, positive),
    ("rsqrt", |x| 1.0 / x.sqrt(), 8.0, positive),
    ("cbrt", f64::cbrt, 16.0, all),
    ("exponential", f64::exp, 16.0, moderate),
    ("exponential_minus_one", f64::exp_m1, 16.0, moderate),
    ("log", f64::ln, 16.0, positive),
    ("log_plus_one", f64::ln_1p, 16.0, above_minus_one),
    ("sine", f64::sin, 16.0, unit),
    ("cosine", f64::cos, 16.0, unit),
    ("tan", f64::tan, 32.0, unit),
    ("tanh", f64::tanh, 16.0, moderate),
    ("logistic", |x| 1.0 / (1.0 + (-x).exp()), 16.0, moderate),
];

type Binary = (&'static str, fn(f64, f64) -> f64, f64);

const BINARY: &[Binary] = &[
    ("add", |x, y| x + y, 0.5),
    ("subtract", |x, y| x - y, 0.5),
    ("multiply", |x, y| x * y, 0.5),
    ("divide", |x, y| x / y, 2.0),
    ("maximum", f64::max, 0.0),
    ("minimum", f64::min, 0.0),
    ("remainder", |x, y| x % y, 1.0),
    ("atan2", f64::atan2, 32.0),
    ("power", |x, y| x.abs().powf(y / 50.0), 64.0),
];

type Integer = (&'static str, fn(i64, i64) -> i64);

const INTEGERS: &[Integer] = &[
    ("add", i64::wrapping_add),
    ("subtract", i64::wrapping_sub),
    ("multiply", i64::wrapping_mul),
    ("maximum", |x, y| x.max(y)),
    ("minimum", |x, y| x.min(y)),
    ("and", |x, y| x & y),
    ("or", |x, y| x | y),
    ("xor", |x, y| x ^ y),
];

/// Number of elements in each array.
const COUNT: usize = 301;

pub(crate) fn declare(suite: &mut Suite) {
    for float in FLOATS {
        let profiles = if float.ty == ElementType::F32 { Profiles::MINIMAL } else { Profiles::FRAMEWORKS };
        for &(op, exact, ulps, domain) in UNARY {
            suite
                .case(
                    format!("numerics.unary.{op}[dtype={}]", float.ty),
                    format!(
                        "StableHLO, {op}: returns the function's value. This suite accepts errors of {ulps} units in \
                         the last place, and results that flush subnormal numbers to zero"
                    ),
                    "a wrong function makes a model wrong without any error",
                )
                .profiles(profiles)
                .check(move |cx| check_unary(cx, float, op, exact, ulps, domain));
        }
        for &(op, exact, ulps) in BINARY {
            suite
                .case(
                    format!("numerics.binary.{op}[dtype={}]", float.ty),
                    format!(
                        "StableHLO, {op}: returns the function's value. This suite accepts errors of {ulps} units in \
                         the last place, and results that flush subnormal numbers to zero"
                    ),
                    "a wrong function makes a model wrong without any error",
                )
                .profiles(profiles)
                .check(move |cx| check_binary(cx, float, op, exact, ulps));
        }
    }
    use ElementType::{S8, S16, S32, S64, U8, U16, U32, U64};
    for ty in [S8, S16, S32, S64, U8, U16, U32, U64] {
        let profiles = if ty == S32 { Profiles::MINIMAL } else { Profiles::FRAMEWORKS };
        for &(op, exact) in INTEGERS {
            suite
                .case(
                    format!("numerics.integer.{op}[dtype={ty}]"),
                    format!("StableHLO, {op}: the result is exact; an overflow wraps around"),
                    "indices, hashes and random numbers depend on it",
                )
                .profiles(profiles)
                .check(move |cx| check_integer(cx, ty, op, exact));
        }
    }
}

/// Returns the [`COUNT`] arguments of an operation, which are between -250 and 250 and never 0.
fn arguments() -> impl Iterator<Item = f64> {
    (0..COUNT).map(|at| {
        let at = f64::from(u16::try_from(at).unwrap_or(0));
        (at - 150.0) * 1.66 + 0.37
    })
}

/// Rounds a number to a float type, appends the bytes of the rounded number, and returns the rounded number.
fn encode(ty: ElementType, value: f64, bytes: &mut Vec<u8>) -> f64 {
    match ty {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest number of the type")]
        ElementType::F32 => {
            bytes.extend((value as f32).to_ne_bytes());
            f64::from(value as f32)
        }
        ElementType::F16 => {
            bytes.extend(f16::from_f64(value).to_ne_bytes());
            f16::from_f64(value).to_f64()
        }
        ElementType::Bf16 => {
            bytes.extend(bf16::from_f64(value).to_ne_bytes());
            bf16::from_f64(value).to_f64()
        }
        _ => {
            bytes.extend(value.to_ne_bytes());
            value
        }
    }
}

fn decode(ty: ElementType, bytes: &[u8]) -> Vec<f64> {
    match ty {
        ElementType::F32 => {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f64::from(f32::from_ne_bytes(*bytes))).collect()
        }
        ElementType::F16 => bytes.as_chunks::<2>().0.iter().map(|bytes| f16::from_ne_bytes(*bytes).to_f64()).collect(),
        ElementType::Bf16 => {
            bytes.as_chunks::<2>().0.iter().map(|bytes| bf16::from_ne_bytes(*bytes).to_f64()).collect()
        }
        _ => bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect(),
    }
}

/// Creates an array of a float type. Returns the array, and its elements as `f64`.
fn array(ty: ElementType, values: impl Iterator<Item = f64>) -> Result<(HostArray, Vec<f64>), Stop> {
    let mut bytes = Vec::new();
    let numbers: Vec<f64> = values.map(|value| encode(ty, value, &mut bytes)).collect();
    let len = i64::try_from(numbers.len()).unwrap_or(0);
    Ok((HostArray::new(shape(ty, &[len]), bytes)?, numbers))
}

/// Compiles and executes a program with one output, and reads the output.
fn run(cx: &Context, text: &str, inputs: &[&HostArray]) -> Result<HostArray, Stop> {
    let program = crate::program::for_plugin(text, cx.plugin())?;
    let compiled = cx.client()?.compile(&program, &pjrt::CompileOptions::default());
    let ty = inputs[0].shape().element_type;
    let executable = compiled.map_err(|error| unsupported_type(ty, error))?;
    let buffers: Vec<_> = inputs.iter().map(|input| cx.upload(input)).collect::<Result<_, _>>()?;
    let outputs = executable.execute(&buffers.iter().collect::<Vec<_>>())?;
    let output = outputs.first().ok_or_else(|| Stop::Fail("the run has no output".to_owned()))?;
    download(output)
}

fn tensor(ty: ElementType) -> String {
    format!("tensor<{COUNT}x{}>", ty.stablehlo_name())
}

/// Returns infinity with the sign of `value` if `value` overflows in the type. Otherwise, returns `value` itself.
fn rounded(ty: ElementType, value: f64) -> f64 {
    if encode(ty, value, &mut Vec::new()).is_infinite() { value.signum() * f64::INFINITY } else { value }
}

fn accept(float: Float, found: f64, exact: f64, ulps: f64) -> bool {
    let Float { ty, mantissa_bits, smallest_normal } = float;
    let exact_in_type = rounded(ty, exact);
    // The plugin also rounds the result to the type, which adds an error of half a unit.
    within(found, exact_in_type, ulps + 0.5, mantissa_bits, smallest_normal)
        || encode(ty, exact, &mut Vec::new()) == found
}

fn check_unary(
    cx: &Context,
    float: Float,
    op: &str,
    exact: fn(f64) -> f64,
    ulps: f64,
    domain: fn(f64) -> f64,
) -> Result<(), Stop> {
    let (input, numbers) = array(float.ty, arguments().map(domain))?;
    let ty = tensor(float.ty);
    let found = run(cx, &unary(op, &ty, &ty), &[&input])?;
    for (x, found) in numbers.iter().zip(decode(float.ty, found.bytes())) {
        let exact = exact(*x);
        ensure!(accept(float, found, exact, ulps), "{op}({x:e}) is {found:e}; the exact result is {exact:e}");
    }
    Ok(())
}

fn check_binary(cx: &Context, float: Float, op: &str, exact: fn(f64, f64) -> f64, ulps: f64) -> Result<(), Stop> {
    let left: Box<dyn Iterator<Item = f64>> =
        if op == "power" { Box::new(arguments().map(f64::abs)) } else { Box::new(arguments()) };
    let (first, xs) = array(float.ty, left)?;
    let scale = if op == "power" { 1.0 / 50.0 } else { 1.0 };
    let (second, ys) = array(float.ty, arguments().map(|x| (x * 0.73 + 11.3) * scale))?;
    let found = run(cx, &binary(op, &tensor(float.ty)), &[&first, &second])?;
    for ((x, y), found) in xs.iter().zip(&ys).zip(decode(float.ty, found.bytes())) {
        let exact = if op == "power" { x.powf(*y) } else { exact(*x, *y) };
        ensure!(accept(float, found, exact, ulps), "{op}({x:e}, {y:e}) is {found:e}; the exact result is {exact:e}");
    }
    Ok(())
}

fn check_integer(cx: &Context, ty: ElementType, op: &str, exact: fn(i64, i64) -> i64) -> Result<(), Stop> {
    let size = ty.host_size();
    let signed = matches!(ty, ElementType::S8 | ElementType::S16 | ElementType::S32 | ElementType::S64);
    // The device's integers have `size` bytes. `wrap` therefore keeps the lowest `size` bytes of a number, and extends
    // them with the sign or with zeros.
    let shift = 64 - 8 * u32::try_from(size).unwrap_or(8);
    let wrap = |value: i64| {
        if signed {
            value << shift >> shift
        } else {
            (value << shift).cast_unsigned().wrapping_shr(shift).cast_signed()
        }
    };
    let mut state = cx.seed.wrapping_add(0x1234_5678_9abc_def1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        wrap((state ^ (state >> 29)).cast_signed())
    };
    let xs: Vec<i64> = (0..COUNT).map(|_| next()).collect();
    let ys: Vec<i64> = (0..COUNT).map(|_| next()).collect();
    let bytes = |values: &[i64]| {
        values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect::<Vec<u8>>()
    };
    let len = i64::try_from(COUNT).unwrap_or(0);
    let first = HostArray::new(shape(ty, &[len]), bytes(&xs))?;
    let second = HostArray::new(shape(ty, &[len]), bytes(&ys))?;
    let found = run(cx, &binary(op, &tensor(ty)), &[&first, &second])?;
    // The functions in `INTEGERS` compare signed numbers, so compare unsigned 64-bit numbers here.
    let compare_unsigned = ty == ElementType::U64;
    let expected: Vec<i64> = xs
        .iter()
        .zip(&ys)
        .map(|(x, y)| match op {
            "maximum" if compare_unsigned => x.cast_unsigned().max(y.cast_unsigned()).cast_signed(),
            "minimum" if compare_unsigned => x.cast_unsigned().min(y.cast_unsigned()).cast_signed(),
            _ => exact(*x, *y),
        })
        .collect();
    let expected = bytes(&expected);
    if let Some(at) =
        found.bytes().chunks(size).zip(expected.chunks(size)).position(|(found, expected)| found != expected)
    {
        fail!(
            "{op}({}, {}) has the bytes {:?}, not {:?}",
            xs[at],
            ys[at],
            &found.bytes()[at * size..(at + 1) * size],
            &expected[at * size..(at + 1) * size]
        );
    }
    Ok(())
}
