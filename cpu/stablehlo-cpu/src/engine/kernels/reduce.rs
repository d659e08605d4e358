//! `reduce`: fast loops for common bodies, and a vectorized region for any other body.

use std::any::TypeId;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::{bf16, f16};
use pulp::NullaryFnOnce;
use stablehlo::ir::Binary;

use super::fold::{FRESH, IN_ORDER, LANES, fold, fold_short_rows};
use super::shape::read_all;
use super::{Context, Kernel};
use crate::engine::dtype::{DType, Pred, with_size};
use crate::engine::elementwise::Chained;
use crate::engine::elementwise::map::vectorized;
use crate::engine::elementwise::num::{Bits, Narrow, Num, narrowed};
use crate::engine::parallel;
use crate::engine::pool::Buffer;
use crate::engine::scalar_fn::ScalarFn;
use crate::engine::stop::Stop;
use crate::engine::tile::fill;
use crate::engine::view::View;
use crate::error::RunError;

/// The extents of a reduction of `[outer, reduced, inner]` to `[outer, inner]`.
#[derive(Clone)]
pub(crate) struct Extents {
    pub(crate) outer: usize,
    pub(crate) reduced: usize,
    pub(crate) inner: usize,
}

/// A reduction by an op for which this module has a loop.
pub(crate) struct Reduce {
    pub(crate) extents: Extents,
    pub(crate) op: Binary,
    pub(crate) dtype: DType,
    /// The loop for this op and element type.
    pub(crate) run: ReduceFn,
}

pub(crate) type ReduceFn = fn(&Extents, &[u8], &[u8], &mut [u8], Option<&Stop>);

impl Kernel for Reduce {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        (self.run)(&self.extents, ins[0], ins[1], outs[0], cx.stop);
        Ok(())
    }
}

/// An element type. `Acc` is the type in which the elements are accumulated, such as `f32` for narrow floats.
trait Accumulate: Pod + Send + Sync {
    type Acc: Num;
    fn widen(self) -> Self::Acc;
    fn narrow(acc: Self::Acc) -> Self;
}

macro_rules! accumulate {
    ($($t:ty)*) => {$(
        impl Accumulate for $t {
            type Acc = $t;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(acc: $t) -> $t { acc }
        }
    )*};
}

accumulate!(Pred i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

macro_rules! accumulate_narrow {
    ($($t:ty)*) => {$(
        impl Accumulate for $t {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 { Narrow::widen(self) }
            #[inline(always)]
            fn narrow(acc: f32) -> $t { narrowed(acc) }
        }
    )*};
}

accumulate_narrow!(bf16 f16);

/// An operation that a reduction may apply in any order. The operation has an identity.
trait Monoid<A>: Send + Sync {
    /// The same operation as a function of `f32`s, which reduces rows with vector instructions.
    const FUNCTION: Option<Chained> = None;
    fn identity() -> A;
    fn apply(a: A, b: A) -> A;
}

struct Add;
struct Mul;
struct Max;
struct Min;
struct And;
struct Or;
struct Xor;

macro_rules! monoids {
    ($($t:ty: $zero:expr, $one:expr, $lowest:expr, $highest:expr;)*) => {$(
        impl Monoid<$t> for Add {
            const FUNCTION: Option<Chained> = Some(Chained::Add);
            #[inline(always)]
            fn identity() -> $t { $zero }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Num::add(a, b) }
        }
        impl Monoid<$t> for Mul {
            const FUNCTION: Option<Chained> = Some(Chained::Mul);
            #[inline(always)]
            fn identity() -> $t { $one }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Num::mul(a, b) }
        }
        impl Monoid<$t> for Max {
            const FUNCTION: Option<Chained> = Some(Chained::Max);
            #[inline(always)]
            fn identity() -> $t { $lowest }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Num::max(a, b) }
        }
        impl Monoid<$t> for Min {
            const FUNCTION: Option<Chained> = Some(Chained::Min);
            #[inline(always)]
            fn identity() -> $t { $highest }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Num::min(a, b) }
        }
    )*};
}

monoids! {
    // Adding negative zero leaves every float unchanged, but adding positive zero changes negative zero.
    f32: -0.0, 1.0, f32::NEG_INFINITY, f32::INFINITY;
    f64: -0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY;
    i8: 0, 1, i8::MIN, i8::MAX;
    i16: 0, 1, i16::MIN, i16::MAX;
    i32: 0, 1, i32::MIN, i32::MAX;
    i64: 0, 1, i64::MIN, i64::MAX;
    u8: 0, 1, u8::MIN, u8::MAX;
    u16: 0, 1, u16::MIN, u16::MAX;
    u32: 0, 1, u32::MIN, u32::MAX;
    u64: 0, 1, u64::MIN, u64::MAX;
    Pred: Pred(0), Pred(1), Pred(0), Pred(1);
}

macro_rules! bit_monoids {
    ($($t:ty: $none:expr, $all:expr;)*) => {$(
        impl Monoid<$t> for And {
            #[inline(always)]
            fn identity() -> $t { $all }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Bits::and(a, b) }
        }
        impl Monoid<$t> for Or {
            #[inline(always)]
            fn identity() -> $t { $none }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Bits::or(a, b) }
        }
        impl Monoid<$t> for Xor {
            #[inline(always)]
            fn identity() -> $t { $none }
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t { Bits::xor(a, b) }
        }
    )*};
}

bit_monoids! {
    Pred: Pred(0), Pred(1);
    i8: 0, !0; i16: 0, !0; i32: 0, !0; i64: 0, !0;
    u8: 0, !0; u16: 0, !0; u32: 0, !0; u64: 0, !0;
}

/// Returns the loop for a body `op(a, b)` on this element type. Returns `None` if there is no such loop.
pub(crate) fn reduce_fn(op: Binary, dtype: DType) -> Option<ReduceFn> {
    macro_rules! pick {
        ($m:ident, [$($d:ident = $t:ty),*]) => {
            match dtype { $(DType::$d => Some(reduce::<$t, $m> as ReduceFn),)* _ => None }
        };
    }
    macro_rules! numbers {
        ($m:ident) => {
            pick!(
                $m,
                [
                    F32 = f32,
                    F64 = f64,
                    Bf16 = bf16,
                    F16 = f16,
                    I8 = i8,
                    I16 = i16,
                    I32 = i32,
                    I64 = i64,
                    U8 = u8,
                    U16 = u16,
                    U32 = u32,
                    U64 = u64,
                    Bool = Pred
                ]
            )
        };
    }
    macro_rules! bits {
        ($m:ident) => {
            pick!($m, [I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64, Bool = Pred])
        };
    }
    match op {
        Binary::Add => numbers!(Add),
        Binary::Multiply => numbers!(Mul),
        Binary::Maximum => numbers!(Max),
        Binary::Minimum => numbers!(Min),
        Binary::And => bits!(And),
        Binary::Or => bits!(Or),
        Binary::Xor => bits!(Xor),
        _ => None,
    }
}

/// Returns the element that `op` combines with any other without changing it. Returns `None` for types that
/// [`reduce_fn`] accumulates in another type, and for ops other than those on numbers.
pub(crate) fn identity(op: Binary, dtype: DType) -> Option<[u8; 16]> {
    macro_rules! pick {
        ($m:ident, $($d:ident = $t:ty),*) => {
            match dtype {
                $(DType::$d => {
                    let mut bytes = [0; 16];
                    bytes[..size_of::<$t>()].copy_from_slice(bytemuck::bytes_of(&<$m as Monoid<$t>>::identity()));
                    Some(bytes)
                })*
                _ => None,
            }
        };
        ($m:ident) => {
            pick!($m, F32 = f32, F64 = f64, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64)
        };
    }
    match op {
        Binary::Add => pick!(Add),
        Binary::Multiply => pick!(Mul),
        Binary::Maximum => pick!(Max),
        Binary::Minimum => pick!(Min),
        _ => None,
    }
}

/// Number of rows that are combined with one another before their result is combined with the accumulators of the
/// columns.
pub(crate) const TOGETHER: usize = 4;
/// Number of columns that are accumulated at a time. Their accumulators stay in the first-level cache.
const COLUMNS: usize = 2048;
/// Number of elements of a part of a long reduction. It is fixed, so that results do not depend on the number of cores.
const PART: usize = 1 << 18;

fn reduce<T: Accumulate, M: Monoid<T::Acc>>(
    extents: &Extents,
    src: &[u8],
    init: &[u8],
    out: &mut [u8],
    stop: Option<&Stop>,
) {
    let src: &[T] = cast_slice(src);
    let init = cast_slice::<u8, T>(init)[0].widen();
    let out: &mut [T] = cast_slice_mut(out);
    let (reduced, inner) = (extents.reduced, extents.inner);
    if out.is_empty() {
        return;
    }
    if reduced == 0 {
        return out.fill(T::narrow(init));
    }
    let bytes = size_of_val(src);
    let finish = |acc| T::narrow(M::apply(init, acc));
    if out.len() * 64 < src.len() && out.len() < 4096 && src.len() > PART {
        return parts::<T, M>(extents, src, out, finish, stop);
    }
    if inner == 1 {
        return parallel::chunks_until(stop, out, 1, bytes, |first, part| {
            if let (Some(function), 1..=LANES) = (M::FUNCTION, reduced)
                && TypeId::of::<T>() == TypeId::of::<f32>()
            {
                let rows = &src[first * reduced..][..part.len() * reduced];
                fold_short_rows(function, cast_slice(rows), reduced, cast_slice_mut(part));
                part.iter_mut().for_each(|o| *o = finish(o.widen()));
                return;
            }
            for (i, o) in part.iter_mut().enumerate() {
                let row = &src[(first + i) * reduced..][..reduced];
                *o = finish(contiguous::<T, M>(row));
            }
        });
    }
    // Divide the output by rows, or divide its only row into ranges of columns.
    let unit = if extents.outer > 1 { inner } else { COLUMNS };
    parallel::chunks_until(stop, out, unit, bytes, |first, part| {
        let mut acc = [M::identity(); COLUMNS];
        let mut done = 0;
        while done < part.len() {
            let (o, i) = ((first + done) / inner, (first + done) % inner);
            let width = COLUMNS.min(inner - i).min(part.len() - done);
            columns::<T, M>(&src[o * reduced * inner + i..], reduced, inner, &mut acc[..width]);
            for (o, &a) in part[done..done + width].iter_mut().zip(&acc) {
                *o = finish(a);
            }
            done += width;
        }
    });
}

/// Computes few outputs from many elements. Reduces parts of the reduced dimension separately, then combines their
/// results.
fn parts<T: Accumulate, M: Monoid<T::Acc>>(
    extents: &Extents,
    src: &[T],
    out: &mut [T],
    finish: impl Fn(T::Acc) -> T,
    stop: Option<&Stop>,
) {
    let (reduced, inner) = (extents.reduced, extents.inner);
    let rows = (PART / inner).max(1);
    let count = reduced.div_ceil(rows);
    let mut partial = vec![M::identity(); out.len() * count];
    let tasks: Vec<_> = partial.chunks_mut(inner).enumerate().collect();
    parallel::each_until(stop, tasks, size_of_val(src), |(task, acc)| {
        let (o, part) = (task / count, task % count);
        let (from, to) = (part * rows, reduced.min((part + 1) * rows));
        let src = &src[(o * reduced + from) * inner..(o * reduced + to) * inner];
        if inner == 1 {
            acc[0] = contiguous::<T, M>(src);
        } else {
            for (piece, acc) in acc.chunks_mut(COLUMNS).enumerate() {
                columns::<T, M>(&src[piece * COLUMNS..], to - from, inner, acc);
            }
        }
    });
    for (at, o) in out.iter_mut().enumerate() {
        let first = (at / inner) * count * inner + at % inner;
        let acc = (0..count).fold(M::identity(), |acc, p| M::apply(acc, partial[first + p * inner]));
        *o = finish(acc);
    }
}

struct Contiguous<'a, T, M>(&'a [T], std::marker::PhantomData<M>);

impl<T: Accumulate, M: Monoid<T::Acc>> NullaryFnOnce for Contiguous<'_, T, M> {
    type Output = T::Acc;

    #[inline(always)]
    fn call(self) -> T::Acc {
        let mut total = M::identity();
        for block in self.0.chunks(LANES * FRESH) {
            let mut lanes = [M::identity(); LANES];
            let (steps, rest) = block.as_chunks::<LANES>();
            for step in steps {
                for i in 0..LANES {
                    lanes[i] = M::apply(lanes[i], step[i].widen());
                }
            }
            for (lane, &x) in lanes.iter_mut().zip(rest) {
                *lane = M::apply(*lane, x.widen());
            }
            let mut width = LANES / 2;
            while width > 0 {
                for i in 0..width {
                    lanes[i] = M::apply(lanes[i], lanes[i + width]);
                }
                width /= 2;
            }
            total = M::apply(total, lanes[0]);
        }
        total
    }
}

fn contiguous<T: Accumulate, M: Monoid<T::Acc>>(row: &[T]) -> T::Acc {
    if row.len() < IN_ORDER {
        return row.iter().fold(M::identity(), |acc, &x| M::apply(acc, x.widen()));
    }
    if let Some(function) = M::FUNCTION
        && TypeId::of::<T>() == TypeId::of::<f32>()
    {
        return bytemuck::cast(fold(function, cast_slice(row)));
    }
    vectorized(Contiguous::<T, M>(row, std::marker::PhantomData))
}

struct Columns<'a, T: Accumulate, M> {
    src: &'a [T],
    rows: usize,
    stride: usize,
    acc: &'a mut [T::Acc],
    monoid: std::marker::PhantomData<M>,
}

impl<T: Accumulate, M: Monoid<T::Acc>> NullaryFnOnce for Columns<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Columns { src, rows, stride, acc, .. } = self;
        acc.fill(M::identity());
        let mut fresh = [M::identity(); COLUMNS];
        let fresh = &mut fresh[..acc.len()];
        for block in (0..rows).step_by(FRESH) {
            fresh.fill(M::identity());
            let end = rows.min(block + FRESH);
            let line = |row: usize| &src[row * stride..][..acc.len()];
            let mut row = block;
            // Process four rows for each read and write of the accumulators.
            while row + TOGETHER <= end {
                let (a, b, c, d) = (line(row), line(row + 1), line(row + 2), line(row + 3));
                for ((((f, &a), &b), &c), &d) in fresh.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    let front = M::apply(a.widen(), b.widen());
                    let back = M::apply(c.widen(), d.widen());
                    *f = M::apply(*f, M::apply(front, back));
                }
                row += TOGETHER;
            }
            for row in row..end {
                for (f, &x) in fresh.iter_mut().zip(line(row)) {
                    *f = M::apply(*f, x.widen());
                }
            }
            for (a, &f) in acc.iter_mut().zip(&*fresh) {
                *a = M::apply(*a, f);
            }
        }
    }
}

/// Reduces `rows` rows of `acc.len()` columns to one row, and stores it in `acc`. The rows are `stride` elements apart.
fn columns<T: Accumulate, M: Monoid<T::Acc>>(src: &[T], rows: usize, stride: usize, acc: &mut [T::Acc]) {
    vectorized(Columns::<T, M> { src, rows, stride, acc, monoid: std::marker::PhantomData });
}

/// Maximum number of elements that a call of the body combines, if the kept dimensions have fewer elements.
const LONG: usize = 2048;

/// A reduction with any body over any number of tensors. The inputs are the tensors, their initial values, and the
/// scalars that the body captures.
pub(crate) struct ReduceAny {
    /// View of each tensor as `[reduced, kept]`.
    pub(crate) view: View,
    pub(crate) reduced: usize,
    pub(crate) kept: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) body: ScalarFn,
}

impl Kernel for ReduceAny {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let count = self.sizes.len();
        let (tensors, rest) = ins.split_at(count);
        let (inits, captured) = rest.split_at(count);
        for ((out, init), &size) in outs.iter_mut().zip(inits).zip(&self.sizes) {
            fill(out, &init[..size]);
        }
        if self.reduced == 0 || self.kept == 0 {
            return Ok(());
        }
        let mut rows: Vec<Buffer> = Vec::with_capacity(count);
        for (tensor, &size) in tensors.iter().zip(&self.sizes) {
            let mut buffer = cx.pool.alloc(self.reduced * self.kept * size)?;
            let bytes = buffer.write()?;
            with_size!(size, T => read_all::<T>(&self.view, cast_slice(tensor), cast_slice_mut(bytes)));
            rows.push(buffer);
        }
        let mut left = self.reduced;
        while left > 1 {
            left = self.shorten(&mut rows, left, captured, cx)?;
        }
        let finals: Vec<&[u8]> =
            rows.iter().zip(&self.sizes).map(|(r, &size)| &r.bytes()[..self.kept * size]).collect();
        self.apply(self.kept, outs, &finals, captured, cx)
    }

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        // The tensors, and the running results and the operands of a step, see `shorten`.
        let steps = 3 * self.kept.max(LONG);
        self.reduced.saturating_mul(self.kept).saturating_add(steps).saturating_mul(self.sizes.iter().sum())
    }

    fn has_loop(&self) -> bool {
        self.body.has_loop()
    }
}

impl ReduceAny {
    /// Computes `acc[i] = body(acc[i], x[i])` for `n` elements.
    fn apply(
        &self,
        n: usize,
        acc: &mut [&mut [u8]],
        x: &[&[u8]],
        captured: &[&[u8]],
        cx: &Context<'_>,
    ) -> Result<(), RunError> {
        let count = self.sizes.len();
        let mut ins: Vec<&[u8]> = vec![&[]; count];
        ins.extend(x);
        ins.extend(captured);
        let alias: Vec<Option<u16>> = (0..count).map(|i| u16::try_from(i).ok()).collect();
        self.body.run(n, &ins, acc, &alias, cx.stop)
    }

    /// Reduces `left` rows to fewer rows. Splits the rows into consecutive segments, whose running results form one
    /// long vector. Returns the number of remaining rows.
    fn shorten(
        &self,
        rows: &mut [Buffer],
        left: usize,
        captured: &[&[u8]],
        cx: &Context<'_>,
    ) -> Result<usize, RunError> {
        let kept = self.kept;
        let segments = if kept >= 512 || left < 8 { 1 } else { left.isqrt().min(LONG / kept).max(1) };
        let steps = left / segments;
        let over = left - segments * steps;
        let n = segments * kept;
        let mut step: Vec<Buffer> = Vec::with_capacity(rows.len());
        let mut acc: Vec<Buffer> = Vec::with_capacity(rows.len());
        for &size in &self.sizes {
            step.push(cx.pool.alloc(n * size)?);
            acc.push(cx.pool.alloc((segments + over) * kept * size)?);
        }
        let stride = |x: usize| isize::try_from(x).unwrap_or(isize::MAX);
        for t in 0..steps {
            let view = View::new(&[segments, kept], &[stride(steps * kept), 1], t * kept);
            for (i, &size) in self.sizes.iter().enumerate() {
                let target = if t == 0 { &mut acc[i] } else { &mut step[i] };
                let target = &mut target.write()?[..n * size];
                with_size!(size, T => view.read::<T>(cast_slice(rows[i].bytes()), 0, cast_slice_mut(target)));
            }
            if t > 0 {
                let mut targets = Vec::with_capacity(acc.len());
                for (a, &size) in acc.iter_mut().zip(&self.sizes) {
                    targets.push(&mut a.write()?[..n * size]);
                }
                let xs: Vec<&[u8]> = step.iter().map(Buffer::bytes).collect();
                self.apply(n, &mut targets, &xs, captured, cx)?;
            }
        }
        for ((a, row), &size) in acc.iter_mut().zip(rows.iter_mut()).zip(&self.sizes) {
            let tail = &row.bytes()[segments * steps * kept * size..left * kept * size];
            a.write()?[n * size..].copy_from_slice(tail);
            *row = a.clone();
        }
        Ok(segments + over)
    }
}
