//! Compares Fourier transforms with their definition.

#![expect(clippy::cast_possible_truncation, reason = "inputs are rounded to the precision of the transform")]

use num_complex::Complex;

use super::{DType, program, tensor};
use crate::Tensor;
use crate::engine::parallel;

/// Returns pseudo-random numbers between -1 and 1, which are the same in every run.
fn signal(count: usize) -> Vec<f64> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(1u32 << 31) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn complex_signal(count: usize) -> Vec<Complex<f64>> {
    signal(2 * count).chunks_exact(2).map(|z| Complex { re: z[0], im: z[1] }).collect()
}

/// Computes the transforms along the last `rank` dimensions by their definition, without the factor of an inverse
/// transform.
fn transform(mut data: Vec<Complex<f64>>, dims: &[usize], rank: usize, sign: f64) -> Vec<Complex<f64>> {
    for axis in dims.len() - rank..dims.len() {
        let (n, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
        let angle = |i: usize| sign * std::f64::consts::TAU * i as f64 / n as f64;
        let mut out = vec![Complex::default(); data.len()];
        for (at, out) in out.iter_mut().enumerate() {
            let (first, to) = (at / (n * inner) * n * inner + at % inner, at / inner % n);
            *out = (0..n).map(|from| data[first + from * inner] * Complex::cis(angle(from * to % n))).sum();
        }
        data = out;
    }
    data
}

/// Returns the first `n / 2 + 1` elements of each row of a spectrum. A row has `n` elements.
fn halved(data: &[Complex<f64>], n: usize) -> Vec<Complex<f64>> {
    data.chunks_exact(n).flat_map(|line| line[..n / 2 + 1].to_vec()).collect()
}

fn parts(data: &[Complex<f64>]) -> Vec<f64> {
    data.iter().flat_map(|z| [z.re, z.im]).collect()
}

fn tensor_of(dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
    let narrow = || values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let pairs = |narrow: &[f32]| narrow.chunks_exact(2).map(|z| [z[0], z[1]]).collect::<Vec<_>>();
    match dtype {
        DType::F32 => tensor(dtype, dims, &narrow()),
        DType::C64 => tensor(dtype, dims, &pairs(&narrow())),
        DType::C128 => tensor(dtype, dims, &values.chunks_exact(2).map(|z| [z[0], z[1]]).collect::<Vec<_>>()),
        _ => tensor(dtype, dims, values),
    }
}

/// An array: its extents, whether it is complex, and its elements.
struct Array {
    dims: Vec<usize>,
    complex: bool,
    values: Vec<f64>,
}

/// Runs a transform in both precisions. Checks that one thread and several threads return the same bits, and compares
/// the result with `want`.
fn check(kind: &str, lengths: &[usize], input: &Array, want: &Array) {
    for double in [false, true] {
        let name = |array: &Array| {
            let part = if double { "f64" } else { "f32" };
            let element = if array.complex { format!("complex<{part}>") } else { part.to_owned() };
            format!("tensor<{}{element}>", array.dims.iter().map(|d| format!("{d}x")).collect::<String>())
        };
        let dtype = match (double, input.complex) {
            (false, false) => DType::F32,
            (false, true) => DType::C64,
            (true, false) => DType::F64,
            (true, true) => DType::C128,
        };
        let (from, to) = (name(input), name(want));
        let body =
            format!("%0 = stablehlo.fft %a, type = {kind}, length = {lengths:?} : ({from}) -> {to}\n return %0 : {to}");
        let program = program(&format!("%a: {from}"), &to, &body);
        let result = || program.run(vec![tensor_of(dtype, &input.dims, &input.values)]).unwrap().remove(0);
        let (got, single) = (result(), parallel::alone(result));
        assert_eq!(got.bytes(), single.bytes(), "{body}");
        let got: Vec<f64> = if double {
            bytemuck::cast_slice(got.bytes()).to_vec()
        } else {
            bytemuck::cast_slice::<u8, f32>(got.bytes()).iter().map(|&x| x.into()).collect()
        };
        let epsilon = if double { f64::EPSILON } else { f32::EPSILON.into() };
        let largest = want.values.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
        assert_eq!(got.len(), want.values.len(), "{body}");
        for (got, want) in got.iter().zip(&want.values) {
            assert!((got - want).abs() <= 16.0 * epsilon * largest, "{body}: {got} {want}");
        }
    }
}

/// Shapes, each with the number of trailing dimensions to transform.
const CASES: &[(&[usize], usize)] = &[
    (&[1], 1),
    (&[2], 1),
    (&[3], 1),
    (&[5, 4], 1),
    (&[3, 37], 1),
    (&[300, 64], 1),
    (&[90, 105], 1),
    (&[4, 1], 2),
    (&[1, 6], 2),
    (&[5, 7], 2),
    (&[2, 3, 4, 5], 2),
    (&[2, 3, 4, 5], 3),
    (&[96, 35], 2),
    (&[70, 66], 2),
    (&[3, 40, 42], 2),
    (&[24, 5, 36], 3),
];

#[test]
fn complex_transforms_match_definition() {
    for &(dims, rank) in CASES {
        let count = dims.iter().product::<usize>();
        let (x, lengths) = (complex_signal(count), &dims[dims.len() - rank..]);
        let array = |data: &[Complex<f64>]| Array { dims: dims.to_vec(), complex: true, values: parts(data) };
        check("FFT", lengths, &array(&x), &array(&transform(x.clone(), dims, rank, -1.0)));
        let size = lengths.iter().product::<usize>() as f64;
        let inverse: Vec<_> = transform(x.clone(), dims, rank, 1.0).iter().map(|z| z / size).collect();
        check("IFFT", lengths, &array(&x), &array(&inverse));
    }
}

#[test]
fn real_transforms_match_definition() {
    for &(dims, rank) in CASES {
        let (n, lengths) = (dims[dims.len() - 1], &dims[dims.len() - rank..]);
        let x = signal(dims.iter().product());
        let spectrum = transform(x.iter().map(|&x| x.into()).collect(), dims, rank, -1.0);
        let mut half = dims.to_vec();
        half[dims.len() - 1] = n / 2 + 1;
        let real = Array { dims: dims.to_vec(), complex: false, values: x };
        let mut complex = Array { dims: half, complex: true, values: parts(&halved(&spectrum, n)) };
        check("RFFT", lengths, &real, &complex);
        check("IRFFT", lengths, &complex, &real);
        if rank == 1 {
            // Imaginary parts that the spectrum of a real signal cannot contain are ignored.
            for line in complex.values.chunks_exact_mut(2 * (n / 2 + 1)) {
                line[1] = 0.5;
                if n % 2 == 0 {
                    line[n + 1] = -0.5;
                }
            }
            check("IRFFT", lengths, &complex, &real);
        }
    }
}

#[test]
fn empty_arrays() {
    for kind in ["FFT", "IFFT"] {
        let array = || Array { dims: vec![0, 4], complex: true, values: Vec::new() };
        check(kind, &[4], &array(), &array());
    }
    let real = Array { dims: vec![0, 5, 6], complex: false, values: Vec::new() };
    let complex = Array { dims: vec![0, 5, 4], complex: true, values: Vec::new() };
    check("RFFT", &[5, 6], &real, &complex);
    check("IRFFT", &[5, 6], &complex, &real);
}
