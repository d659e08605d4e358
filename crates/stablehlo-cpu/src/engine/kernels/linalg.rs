//! `cholesky` and `triangular_solve`, by their definitions.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use num_complex::Complex;

use super::{Context, Kernel};
use crate::error::RunError;

/// A complex number of two `f64`.
pub(crate) type C64 = Complex<f64>;

/// Real or complex numbers of the dense solvers.
pub(crate) trait Scalar: Pod {
    fn real(x: f64) -> Self;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn div(self, o: Self) -> Self;
    fn conj(self) -> Self;
    /// Square root of a diagonal element, whose imaginary part is ignored.
    fn root(self) -> Self;
    fn abs(self) -> f64;
    fn real_part(self) -> f64;
    fn imaginary(self) -> f64;
}

macro_rules! real_scalar {
    ($t:ty, $narrow:expr) => {
        impl Scalar for $t {
            fn real(x: f64) -> Self {
                $narrow(x)
            }
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                self + o
            }
            #[inline(always)]
            fn sub(self, o: Self) -> Self {
                self - o
            }
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                self * o
            }
            #[inline(always)]
            fn div(self, o: Self) -> Self {
                self / o
            }
            #[inline(always)]
            fn conj(self) -> Self {
                self
            }
            fn root(self) -> Self {
                self.sqrt()
            }
            fn abs(self) -> f64 {
                f64::from(self).abs()
            }
            fn real_part(self) -> f64 {
                f64::from(self)
            }
            fn imaginary(self) -> f64 {
                0.0
            }
        }
    };
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
fn round(x: f64) -> f32 {
    x as f32
}

real_scalar!(f32, round);
real_scalar!(f64, std::convert::identity);

impl Scalar for Complex<f64> {
    fn real(x: f64) -> Self {
        Complex::new(x, 0.0)
    }
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        self + o
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        self - o
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        self * o
    }
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        self / o
    }
    #[inline(always)]
    fn conj(self) -> Self {
        Complex::new(self.re, -self.im)
    }
    fn root(self) -> Self {
        Complex::new(self.re.sqrt(), 0.0)
    }
    fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }
    fn real_part(self) -> f64 {
        self.re
    }
    fn imaginary(self) -> f64 {
        self.im
    }
}

/// The number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    F32,
    F64,
    C128,
}

/// Batches of factorisations of `n x n` matrices. The other triangle of the result is zero.
pub(crate) struct Cholesky {
    pub(crate) n: usize,
    pub(crate) lower: bool,
    pub(crate) field: Field,
}

impl Kernel for Cholesky {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        match self.field {
            Field::F32 => self.factor::<f32>(ins[0], outs[0], cx),
            Field::F64 => self.factor::<f64>(ins[0], outs[0], cx),
            Field::C128 => self.factor::<Complex<f64>>(ins[0], outs[0], cx),
        }
    }
}

impl Cholesky {
    fn factor<T: Scalar>(&self, a: &[u8], out: &mut [u8], cx: &Context<'_>) -> Result<(), RunError> {
        let n = self.n;
        if n == 0 {
            return Ok(());
        }
        let (a, out): (&[T], &mut [T]) = (cast_slice(a), cast_slice_mut(out));
        // Row i, column j of the lower factor, in either layout.
        let at = |i: usize, j: usize| if self.lower { i * n + j } else { j * n + i };
        for (a, l) in a.chunks_exact(n * n).zip(out.chunks_exact_mut(n * n)) {
            l.fill(T::zeroed());
            for j in 0..n {
                cx.check()?;
                let mut d = a[at(j, j)];
                for k in 0..j {
                    d = d.sub(l[at(j, k)].mul(l[at(j, k)].conj()));
                }
                // A matrix that is not positive definite has no factor. XLA also handles it this way.
                if d.real_part().is_nan() || d.real_part() <= 0.0 {
                    for i in 0..n {
                        (0..=i).for_each(|k| l[at(i, k)] = T::real(f64::NAN));
                    }
                    break;
                }
                let d = d.root();
                l[at(j, j)] = d;
                for i in j + 1..n {
                    let mut s = a[at(i, j)];
                    for k in 0..j {
                        // The expression is the same for both, because the upper factor's transpose is the lower one's
                        // conjugate.
                        s = s.sub(l[at(i, k)].mul(l[at(j, k)].conj()));
                    }
                    l[at(i, j)] = s.div(d);
                }
            }
        }
        Ok(())
    }
}

/// Batches of solutions of `op(a) x = b` or `x op(a) = b`. Inputs are `a` and `b`. The output starts as `b`.
pub(crate) struct TriangularSolve {
    pub(crate) n: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) left: bool,
    pub(crate) lower: bool,
    pub(crate) unit: bool,
    pub(crate) transpose: bool,
    /// Whether coefficients are conjugated.
    pub(crate) conjugate: bool,
    pub(crate) field: Field,
}

impl Kernel for TriangularSolve {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        match self.field {
            Field::F32 => self.solve::<f32>(ins[0], outs[0], cx),
            Field::F64 => self.solve::<f64>(ins[0], outs[0], cx),
            Field::C128 => self.solve::<Complex<f64>>(ins[0], outs[0], cx),
        }
    }
}

impl TriangularSolve {
    fn solve<T: Scalar>(&self, a: &[u8], x: &mut [u8], cx: &Context<'_>) -> Result<(), RunError> {
        let n = self.n;
        let (a, x): (&[T], &mut [T]) = (cast_slice(a), cast_slice_mut(x));
        if x.is_empty() {
            return Ok(());
        }
        // x op(a) = b is op(a)^T x^T = b^T. Therefore transpose once more, and read x by columns.
        let flipped = self.transpose == self.left;
        let at = |i: usize, k: usize| if flipped { k * n + i } else { i * n + k };
        let forwards = self.lower != flipped;
        let (across, step, line) =
            if self.left { (self.columns, self.columns, 1) } else { (self.rows, 1, self.columns) };
        for (a, x) in a.chunks_exact(n * n).zip(x.chunks_exact_mut(self.rows * self.columns)) {
            for position in 0..n {
                cx.check()?;
                let i = if forwards { position } else { n - 1 - position };
                for done in 0..position {
                    let k = if forwards { done } else { n - 1 - done };
                    let factor = if self.conjugate { a[at(i, k)].conj() } else { a[at(i, k)] };
                    for c in 0..across {
                        let known = x[k * step + c * line];
                        let target = &mut x[i * step + c * line];
                        *target = target.sub(factor.mul(known));
                    }
                }
                if !self.unit {
                    let d = if self.conjugate { a[at(i, i)].conj() } else { a[at(i, i)] };
                    for c in 0..across {
                        let target = &mut x[i * step + c * line];
                        *target = target.div(d);
                    }
                }
            }
        }
        Ok(())
    }
}
