//! Compares factorizations and solutions of triangular systems with their definitions.

use bytemuck::{cast_slice, cast_slice_mut};
use num_complex::Complex;

use crate::engine::kernels::linalg::householder::{HouseholderProduct, Qr};
use crate::engine::kernels::linalg::scalar::{C64, Field, Scalar};
use crate::engine::kernels::{Context, Kernel};
use crate::engine::pool::Pool;

mod cholesky;
mod decompositions;
mod qr;
mod triangular_solve;

/// An element type of the kernels.
trait Number: Scalar {
    const FIELD: Field;
    const EPSILON: f64;
    fn new(re: f64, im: f64) -> Self;
    fn wide(self) -> C64 {
        Complex::new(self.real_part(), self.imaginary())
    }
}

impl Number for f32 {
    const FIELD: Field = Field::F32;
    const EPSILON: f64 = 1.2e-7;
    fn new(re: f64, _: f64) -> Self {
        Self::real(re)
    }
}

impl Number for f64 {
    const FIELD: Field = Field::F64;
    const EPSILON: f64 = f64::EPSILON;
    fn new(re: f64, _: f64) -> Self {
        re
    }
}

impl Number for C64 {
    const FIELD: Field = Field::C128;
    const EPSILON: f64 = f64::EPSILON;
    fn new(re: f64, im: f64) -> Self {
        Complex::new(re, im)
    }
}

/// Returns irregular numbers between -1 and 1.
fn values<T: Number>(count: usize, seed: usize) -> Vec<T> {
    let value = |i: usize| {
        let bits = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        f64::from(u16::try_from((bits ^ (bits >> 29)) >> 7 & 0xffff).unwrap()) / 32768.0 - 1.0
    };
    (0..count).map(|i| T::new(value(2 * i), value(2 * i + 1))).collect()
}

fn run(kernel: &dyn Kernel, ins: &[&[u8]], outs: &mut [&mut [u8]]) {
    kernel.run(ins, outs, &Context::unstoppable(Pool::global())).unwrap();
}

/// A matrix in row-major order.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    data: Vec<C64>,
}

impl Matrix {
    fn new<T: Number>(rows: usize, columns: usize, data: &[T]) -> Self {
        Self { rows, columns, data: data.iter().map(|x| x.wide()).collect() }
    }

    fn by(rows: usize, columns: usize, element: impl Fn(usize, usize) -> C64) -> Self {
        let data = (0..rows * columns).map(|at| element(at / columns, at % columns)).collect();
        Self { rows, columns, data }
    }

    fn at(&self, i: usize, j: usize) -> C64 {
        self.data[i * self.columns + j]
    }

    fn identity(n: usize) -> Self {
        Self::by(n, n, |i, j| C64::real(if i == j { 1.0 } else { 0.0 }))
    }

    fn adjoint(&self) -> Self {
        Self::by(self.columns, self.rows, |i, j| self.at(j, i).conj())
    }

    fn times(&self, o: &Self) -> Self {
        let mut out = Self::by(self.rows, o.columns, |_, _| C64::real(0.0));
        for i in 0..self.rows {
            for k in 0..self.columns {
                for j in 0..o.columns {
                    out.data[i * o.columns + j] += self.at(i, k) * o.at(k, j);
                }
            }
        }
        out
    }

    fn largest(&self) -> f64 {
        self.data.iter().fold(0.0, |largest, x| largest.max(Scalar::abs(*x)))
    }

    /// Returns the largest difference between elements. NaN counts as infinity.
    fn distance(&self, o: &Self) -> f64 {
        let size = |d: f64| if d.is_nan() { f64::INFINITY } else { d };
        self.data.iter().zip(&o.data).fold(0.0, |largest, (x, y)| largest.max(size(Scalar::abs(x - y))))
    }
}
