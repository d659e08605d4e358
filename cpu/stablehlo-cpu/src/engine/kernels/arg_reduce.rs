//! The position of the largest or smallest element along a dimension, as `jnp.argmax` and `jnp.argmin` compute it.

use std::marker::PhantomData;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use pulp::NullaryFnOnce;

use super::reduce::Extents;
use super::{Context, Kernel};
use crate::engine::dtype::DType;
use crate::engine::elementwise::map::vectorized;
use crate::engine::elementwise::num::{Cast, Num};
use crate::engine::parallel;
use crate::error::RunError;

/// Number of elements of a row whose extreme is found before its position.
const BLOCK: usize = 2048;
/// Number of running extremes of a block.
const LANES: usize = 32;
/// Maximum length of short rows, several of which are searched at once.
const SHORT: usize = 64;
/// Number of short rows that are searched at once.
const ROWS: usize = 16;
/// Number of elements of a task, if a row has fewer.
const TASK: usize = 16_384;

/// Finds the first NaN along the reduced dimension, or else the first of the largest (or smallest) elements. The inputs
/// are the elements and an initial value, which counts as an element in front of the others, at position 0. The outputs
/// are the elements found and their positions. If zeros of both signs are the largest elements, the output is the last
/// of them, as if the region of the program compared them one after the other.
pub(crate) struct ArgReduce {
    pub(crate) extents: Extents,
    pub(crate) run: ArgReduceFn,
}

pub(crate) type ArgReduceFn = fn(&Extents, &[u8], &[u8], &mut [u8], &mut [u8]);

impl Kernel for ArgReduce {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let (found, positions) = outs.split_at_mut(1);
        (self.run)(&self.extents, ins[0], ins[1], found[0], positions[0]);
        Ok(())
    }
}

/// Returns the loop for elements of type `dtype` and positions of type `position`, if there is one.
pub(crate) fn arg_reduce_fn(is_max: bool, dtype: DType, position: DType) -> Option<ArgReduceFn> {
    macro_rules! of {
        ($t:ty) => {
            match (is_max, position) {
                (true, DType::I32) => Some(run::<$t, i32, Largest>),
                (true, DType::I64) => Some(run::<$t, i64, Largest>),
                (false, DType::I32) => Some(run::<$t, i32, Smallest>),
                (false, DType::I64) => Some(run::<$t, i64, Smallest>),
                _ => None,
            }
        };
    }
    match dtype {
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        DType::U32 => of!(u32),
        _ => None,
    }
}

/// The order of the elements.
trait Order: Send + Sync {
    /// Returns whether `x` is before `y` and neither is NaN.
    fn is_before<T: PartialOrd>(x: T, y: T) -> bool;
}

struct Largest;
struct Smallest;

impl Order for Largest {
    #[inline(always)]
    fn is_before<T: PartialOrd>(x: T, y: T) -> bool {
        x > y
    }
}

impl Order for Smallest {
    #[inline(always)]
    fn is_before<T: PartialOrd>(x: T, y: T) -> bool {
        x < y
    }
}

#[inline(always)]
#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: PartialOrd>(x: T) -> bool {
    x != x
}

/// Returns whether `x` replaces `best`, which precedes it.
#[inline(always)]
fn replaces<T: Num, O: Order>(x: T, best: T) -> bool {
    O::is_before(x, best) | (is_nan(x) & !is_nan(best))
}

fn run<T: Num, P: Pod + Send + Sync, O: Order>(
    extents: &Extents,
    x: &[u8],
    init: &[u8],
    found: &mut [u8],
    positions: &mut [u8],
) where
    u64: Cast<P>,
{
    let &Extents { reduced, inner, .. } = extents;
    let (elements, init) = (cast_slice::<u8, T>(x), cast_slice::<u8, T>(init)[0]);
    let (found, positions) = (cast_slice_mut::<u8, T>(found), cast_slice_mut::<u8, P>(positions));
    found.fill(init);
    positions.fill(0.cast());
    if reduced * inner == 0 {
        return;
    }
    // A task searches several rows, or several columns of adjacent elements.
    let rows = if inner == 1 { (TASK / reduced).max(1) } else { 1 };
    let (elements, results) = (elements.chunks(rows * reduced * inner), rows * inner);
    let tasks: Vec<_> = elements.zip(found.chunks_mut(results)).zip(positions.chunks_mut(results)).collect();
    parallel::each(tasks, x.len(), |((elements, found), positions)| {
        let order = PhantomData::<O>;
        if inner != 1 {
            vectorized(Columns::<T, P, O> { elements, found: &mut *found, positions, order });
        } else if reduced <= SHORT {
            vectorized(ShortRows::<T, P, O> { elements, length: reduced, found: &mut *found, positions, order });
        } else {
            for ((elements, found), position) in elements.chunks_exact(reduced).zip(&mut *found).zip(positions) {
                if let Some((x, at)) = vectorized(Row { elements, best: *found, order }) {
                    (*found, *position) = (x, (at as u64).cast());
                }
            }
        }
        for (at, found) in found.iter_mut().enumerate().filter(|(_, found)| **found == T::zeroed()) {
            let (row, column) = (at / inner, at % inner);
            let row = &elements[row * reduced * inner..][..reduced * inner];
            let last = row[column..].iter().step_by(inner).rfind(|x| **x == T::zeroed());
            *found = last.copied().unwrap_or(*found);
        }
    });
}

/// One row of adjacent elements. Returns the element that replaces `best` last, and its position.
struct Row<'a, T, O> {
    elements: &'a [T],
    best: T,
    order: PhantomData<O>,
}

impl<T: Num, O: Order> NullaryFnOnce for Row<'_, T, O> {
    type Output = Option<(T, usize)>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        let mut best = self.best;
        let mut block_found = None;
        for (number, block) in self.elements.chunks(BLOCK).enumerate() {
            let mut lanes = [block[0]; LANES];
            let (rows, rest) = block.as_chunks::<LANES>();
            for row in rows {
                for (lane, &x) in lanes.iter_mut().zip(row) {
                    *lane = if O::is_before(x, *lane) | is_nan(x) { x } else { *lane };
                }
            }
            let mut extreme = block[0];
            for &x in lanes.iter().chain(rest) {
                extreme = if replaces::<T, O>(x, extreme) { x } else { extreme };
            }
            if replaces::<T, O>(extreme, best) {
                best = extreme;
                block_found = Some((number * BLOCK, block));
            }
            if is_nan(best) {
                break;
            }
        }
        let (start, block) = block_found?;
        let within = block.iter().position(|&x| x == best || (is_nan(best) && is_nan(x)))?;
        Some((block[within], start + within))
    }
}

/// Several columns, whose elements are the rows of a matrix.
struct Columns<'a, T, P, O> {
    elements: &'a [T],
    found: &'a mut [T],
    positions: &'a mut [P],
    order: PhantomData<O>,
}

impl<T: Num, P: Pod, O: Order> NullaryFnOnce for Columns<'_, T, P, O>
where
    u64: Cast<P>,
{
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (at, row) in self.elements.chunks_exact(self.found.len()).enumerate() {
            let at = (at as u64).cast();
            for ((&x, best), position) in row.iter().zip(&mut *self.found).zip(&mut *self.positions) {
                let is_replaced = replaces::<T, O>(x, *best);
                *best = if is_replaced { x } else { *best };
                *position = if is_replaced { at } else { *position };
            }
        }
    }
}

/// Several rows of `length` adjacent elements, at most [`SHORT`].
struct ShortRows<'a, T, P, O> {
    elements: &'a [T],
    length: usize,
    found: &'a mut [T],
    positions: &'a mut [P],
    order: PhantomData<O>,
}

impl<T: Num, P: Pod, O: Order> NullaryFnOnce for ShortRows<'_, T, P, O>
where
    u64: Cast<P>,
{
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let results = self.found.chunks_mut(ROWS).zip(self.positions.chunks_mut(ROWS));
        // The rows of a block become columns. The results of columns without a row are ignored.
        let mut columns = [[T::zeroed(); ROWS]; SHORT];
        for (block, (found, positions)) in self.elements.chunks(ROWS * self.length).zip(results) {
            for (at, row) in block.chunks_exact(self.length).enumerate() {
                for (&x, column) in row.iter().zip(&mut columns) {
                    column[at] = x;
                }
            }
            let (mut best, mut best_at) = ([found[0]; ROWS], [positions[0]; ROWS]);
            let elements = columns[..self.length].as_flattened();
            Columns { elements, found: &mut best, positions: &mut best_at, order: self.order }.call();
            found.copy_from_slice(&best[..found.len()]);
            positions.copy_from_slice(&best_at[..positions.len()]);
        }
    }
}
