//! `dot_general`, normalized to a batch of matrix products.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::{bf16, f16};

use super::gemm::{Float, Integer, Matrix, Operand, VectorProduct, gemm};
use super::{Context, Kernel};
use crate::engine::dtype::{DType, Pred};
use crate::engine::elementwise::num::{Cast, Num};
use crate::engine::parallel;
use crate::engine::stop::Stop;
use crate::engine::view::View;
use crate::error::RunError;

/// The layout of one operand as a batch of matrices. Offsets and strides are in elements.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The first element of each matrix of the batch.
    pub(crate) batch: View,
    /// Stride along the free dimension. `contract` is the stride along the contracting dimension.
    pub(crate) free: usize,
    pub(crate) contract: usize,
}

/// A batch of `m x k` by `k x n` products. The output is row-major `[batch, m, n]`.
pub(crate) struct Dot {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) lhs: Side,
    pub(crate) rhs: Side,
    /// Element type of both operands.
    pub(crate) operand: DType,
    pub(crate) run: DotFn,
}

pub(crate) type DotFn = fn(&Dot, &[u8], &[u8], &mut [u8], &Context<'_>) -> Result<(), RunError>;

/// Returns the function that computes the product for operands and results of these types. Returns `None` if no
/// function supports the types.
pub(crate) fn dot_fn(operand: DType, result: DType) -> Option<DotFn> {
    Some(match (operand, result) {
        (DType::F32, DType::F32) => direct::<f32>,
        (DType::F64, DType::F64) => direct::<f64>,
        (DType::Bf16, DType::F32) => direct::<bf16>,
        (DType::F16, DType::F32) => direct::<f16>,
        (DType::Bf16, DType::Bf16) => narrowing::<bf16>,
        (DType::F16, DType::F16) => narrowing::<f16>,
        (DType::Bool, DType::Bool) => plain::<Pred, Pred>,
        (DType::I8, DType::I8) => integers::<i8, i8>,
        (DType::I8, DType::I32) => integers::<i8, i32>,
        (DType::I16, DType::I16) => integers::<i16, i16>,
        (DType::I16, DType::I32) => integers::<i16, i32>,
        (DType::I32, DType::I32) => integers::<i32, i32>,
        (DType::I64, DType::I64) => plain::<i64, i64>,
        (DType::U8, DType::U8) => integers::<u8, u8>,
        (DType::U8, DType::U32) => integers::<u8, u32>,
        (DType::U8, DType::I32) => integers::<u8, i32>,
        (DType::U16, DType::U16) => integers::<u16, u16>,
        (DType::U32, DType::U32) => integers::<u32, u32>,
        (DType::U64, DType::U64) => plain::<u64, u64>,
        _ => return None,
    })
}

impl Kernel for Dot {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        (self.run)(self, ins[0], ins[1], outs[0], cx)
    }

    fn scratch(&self, _: &[usize], outs: &[usize]) -> usize {
        // Narrow results are computed in a wide type.
        let elements = self.lhs.batch.len() * self.m * self.n;
        let is_narrow = outs[0] < elements * size_of::<u32>() && self.operand != DType::Bool;
        if is_narrow { elements * size_of::<u32>() } else { 0 }
    }
}

impl Dot {
    /// Returns the product that computes the transpose of this product, by swapping the operands. Returns `None` unless
    /// the batch contains exactly one product, and its result is a matrix of `rows x columns`.
    pub(crate) fn swapped(&self, rows: usize, columns: usize) -> Option<Dot> {
        let fits = self.lhs.batch.len() == 1 && (self.m, self.n) == (rows, columns);
        fits.then(|| Dot {
            m: self.n,
            k: self.k,
            n: self.m,
            lhs: self.rhs.clone(),
            rhs: self.lhs.clone(),
            operand: self.operand,
            run: self.run,
        })
    }

    /// Describes this product if [`Kernel::run`] computes it as a small product of a matrix and a vector of `f32` or
    /// `f64`.
    pub(crate) fn vector_product(&self) -> Option<VectorProduct> {
        let fits = self.lhs.batch.len() == 1 && matches!(self.operand, DType::F32 | DType::F64) && self.k > 0;
        let (a, b) = ((self.lhs.free, self.lhs.contract), (self.rhs.contract, self.rhs.free));
        if fits { VectorProduct::new((self.m, self.k, self.n), a, b) } else { None }
    }

    fn work(&self) -> usize {
        self.lhs.batch.len().saturating_mul(self.m).saturating_mul(self.k).saturating_mul(self.n)
    }

    fn matrices<'a, T>(&self, batch: usize, a: &'a [T], b: &'a [T]) -> (Matrix<'a, T>, Matrix<'a, T>) {
        let a =
            Matrix { data: a, offset: self.lhs.batch.position(batch), row: self.lhs.free, column: self.lhs.contract };
        let b =
            Matrix { data: b, offset: self.rhs.batch.position(batch), row: self.rhs.contract, column: self.rhs.free };
        (a, b)
    }
}

fn direct<T: Operand<Wide: Float> + Pod>(
    dot: &Dot,
    a: &[u8],
    b: &[u8],
    out: &mut [u8],
    cx: &Context<'_>,
) -> Result<(), RunError>
where
    T::Wide: Pod,
{
    floats::<T>(dot, a, b, cast_slice_mut(out), cx);
    Ok(())
}

fn narrowing<T: Operand<Wide = f32> + Pod>(
    dot: &Dot,
    a: &[u8],
    b: &[u8],
    out: &mut [u8],
    cx: &Context<'_>,
) -> Result<(), RunError>
where
    f32: Cast<T>,
{
    narrowed::<f32, T>(out, cx, |wide| floats::<T>(dot, a, b, wide, cx))
}

/// Computes the product for floats.
fn floats<T: Operand<Wide: Float> + Pod>(dot: &Dot, a: &[u8], b: &[u8], out: &mut [T::Wide], cx: &Context<'_>) {
    products(dot, cast_slice(a), cast_slice(b), out, cx.stop, |[m, k, n], a: Matrix<'_, T>, b, out| {
        gemm(m, k, n, a, b, out, cx.stop);
    });
}

/// Computes each product of the batch with `multiply`, which receives the extents `m`, `k` and `n`.
fn products<T: Sync, R: Send>(
    dot: &Dot,
    a: &[T],
    b: &[T],
    out: &mut [R],
    stop: Option<&Stop>,
    multiply: impl Fn([usize; 3], Matrix<'_, T>, Matrix<'_, T>, &mut [R]) + Sync,
) {
    let size = dot.m * dot.n;
    if size == 0 {
        return;
    }
    let one = |(batch, out): (usize, &mut [R])| {
        let (a, b) = dot.matrices(batch, a, b);
        multiply([dot.m, dot.k, dot.n], a, b, out);
    };
    if out.len() == size {
        return one((0, out));
    }
    // If there are enough matrix products for all cores, compute each product on one core.
    if out.len() / size >= 2 * parallel::threads(dot.work()) {
        parallel::chunks_until(stop, out, size, dot.work(), |start, part| {
            parallel::alone(|| (start / size..).zip(part.chunks_exact_mut(size)).for_each(one));
        });
    } else {
        out.chunks_exact_mut(size).enumerate().for_each(one);
    }
}

/// Minimum number of multiplications in a product of integers for which packing the operands is worth it.
const PACKED: usize = 4096;

/// Computes the product for integers of at most 32 bits.
fn integers<T: Integer + Cast<R>, R: Num>(
    dot: &Dot,
    a: &[u8],
    b: &[u8],
    out: &mut [u8],
    cx: &Context<'_>,
) -> Result<(), RunError>
where
    u32: Cast<R>,
{
    if dot.m.saturating_mul(dot.n).saturating_mul(dot.k) < PACKED {
        return plain::<T, R>(dot, a, b, out, cx);
    }
    let multiply = |[m, k, n]: [usize; 3], a: Matrix<'_, T>, b: Matrix<'_, T>, out: &mut [u32]| {
        T::product((m, k, n), a, b, out, cx.stop);
    };
    if size_of::<R>() == size_of::<u32>() {
        products(dot, cast_slice(a), cast_slice(b), cast_slice_mut(out), cx.stop, multiply);
        return Ok(());
    }
    narrowed::<u32, R>(out, cx, |wide| products(dot, cast_slice(a), cast_slice(b), wide, cx.stop, multiply))
}

/// Computes a result in the wider type `W`, and converts its elements to `T`.
fn narrowed<W: Pod + Sync + Cast<T>, T: Pod + Send>(
    out: &mut [u8],
    cx: &Context<'_>,
    compute: impl FnOnce(&mut [W]),
) -> Result<(), RunError> {
    let out: &mut [T] = cast_slice_mut(out);
    let mut wide = cx.pool.alloc(out.len() * size_of::<W>())?;
    let wide: &mut [W] = cast_slice_mut(wide.write()?);
    compute(wide);
    parallel::chunks(out, 4096, size_of_val(wide), |start, part| {
        for (o, &w) in part.iter_mut().zip(&wide[start..]) {
            *o = w.cast();
        }
    });
    Ok(())
}

/// Computes the product for integers and booleans. Scales rows of B and adds them up, so that the inner loop is
/// contiguous in the output.
fn plain<T: Pod + Send + Sync + Cast<R>, R: Num>(
    dot: &Dot,
    a: &[u8],
    b: &[u8],
    out: &mut [u8],
    cx: &Context<'_>,
) -> Result<(), RunError> {
    let (a, b): (&[T], &[T]) = (cast_slice(a), cast_slice(b));
    let out: &mut [R] = cast_slice_mut(out);
    if dot.m * dot.n == 0 {
        return Ok(());
    }
    parallel::chunks_until(cx.stop, out, dot.n, dot.work().saturating_mul(4), |start, part| {
        for (row, out) in part.chunks_exact_mut(dot.n).enumerate() {
            let row = start / dot.n + row;
            let (batch, i) = (row / dot.m, row % dot.m);
            let (lhs, rhs) = (dot.lhs.batch.position(batch) + i * dot.lhs.free, dot.rhs.batch.position(batch));
            out.fill(R::zeroed());
            for p in 0..dot.k {
                let x: R = a[lhs + p * dot.lhs.contract].cast();
                let at = rhs + p * dot.rhs.contract;
                if dot.rhs.free == 1 {
                    for (o, &y) in out.iter_mut().zip(&b[at..at + dot.n]) {
                        *o = o.add(x.mul(y.cast()));
                    }
                } else {
                    for (j, o) in out.iter_mut().enumerate() {
                        *o = o.add(x.mul(b[at + j * dot.rhs.free].cast()));
                    }
                }
            }
        }
    });
    Ok(())
}
