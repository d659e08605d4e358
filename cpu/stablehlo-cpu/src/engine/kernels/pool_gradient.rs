//! The gradient of a max or min pooling: a `select_and_scatter` that selects by comparison and scatters by addition.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use half::{bf16, f16};
use pulp::NullaryFnOnce;
use stablehlo::ir::ComparisonDirection;

use super::{Context, Kernel};
use crate::engine::dtype::DType;
use crate::engine::elementwise::map::vectorized;
use crate::engine::elementwise::num::Num;
use crate::engine::parallel;
use crate::engine::stop::Stop;
use crate::error::RunError;

/// Number of features that are processed together, so that their selection stays in registers or in the first-level
/// cache.
const TOGETHER: usize = 64;

/// A dimension of the operand, along which the windows slide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// Extent of the operand in this dimension. `stride` is the distance in elements between consecutive indices.
    pub(crate) size: usize,
    pub(crate) stride: usize,
    /// Number of windows. `step` is the distance between consecutive windows. `low` is the padding before index 0, and
    /// may be negative.
    pub(crate) windows: usize,
    pub(crate) step: usize,
    pub(crate) low: isize,
    /// Extent of a window.
    pub(crate) window: usize,
}

impl Axis {
    /// Returns the indices of the operand that a window covers.
    fn covered(&self, window: usize) -> Range<usize> {
        let at = |position: usize| position.saturating_add_signed(-self.low).min(self.size);
        at(window * self.step)..at(window * self.step + self.window)
    }
}

/// The gradient of a pooling. The inputs are the operand, the source and the initial value.
pub(crate) struct PoolGradient {
    /// Number of images. Windows do not extend over several images.
    pub(crate) images: usize,
    /// The dimensions of an image along which the windows slide, outermost first.
    pub(crate) axes: Vec<Axis>,
    /// Number of contiguous elements at each position of the axes. Each of them has its own windows.
    pub(crate) features: usize,
    pub(crate) run: PoolGradientFn,
}

/// The function that computes the gradient for an element type and a comparison.
pub(crate) type PoolGradientFn = fn(&PoolGradient, &[u8], &[u8], &[u8], &mut [u8], &Context<'_>);

/// A comparison that decides whether the selection keeps the first element.
trait Selection<T>: Send + Sync {
    fn keeps(first: T, second: T) -> bool;
}

macro_rules! selections {
    ($($name:ident $op:tt)*) => {$(
        struct $name;
        impl<T: PartialOrd> Selection<T> for $name {
            #[inline(always)]
            fn keeps(first: T, second: T) -> bool { first $op second }
        }
    )*};
}

selections!(Ge >= Gt > Le <= Lt <);

impl PoolGradient {
    /// Returns the function for a selection by this comparison of floats. Returns `None` for other element types and
    /// for equality comparisons.
    pub(crate) fn run_fn(direction: ComparisonDirection, dtype: DType) -> Option<PoolGradientFn> {
        fn of<T: Num>(direction: ComparisonDirection) -> Option<PoolGradientFn> {
            match direction {
                ComparisonDirection::Ge => Some(run::<T, Ge>),
                ComparisonDirection::Gt => Some(run::<T, Gt>),
                ComparisonDirection::Le => Some(run::<T, Le>),
                ComparisonDirection::Lt => Some(run::<T, Lt>),
                _ => None,
            }
        }
        match dtype {
            DType::F32 => of::<f32>(direction),
            DType::F64 => of::<f64>(direction),
            DType::Bf16 => of::<bf16>(direction),
            DType::F16 => of::<f16>(direction),
            _ => None,
        }
    }
}

impl Kernel for PoolGradient {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        (self.run)(self, ins[0], ins[1], ins[2], outs[0], cx);
        Ok(())
    }
}

fn run<T: Num, S: Selection<T>>(
    pool: &PoolGradient,
    x: &[u8],
    source: &[u8],
    init: &[u8],
    out: &mut [u8],
    cx: &Context<'_>,
) {
    let (x, source): (&[T], &[T]) = (cast_slice(x), cast_slice(source));
    let (init, out): (T, &mut [T]) = (cast_slice(init)[0], cast_slice_mut(out));
    let (image, windows) = (x.len() / pool.images.max(1), source.len() / pool.images.max(1));
    let bytes = 4 * size_of_val(x);
    parallel::chunks_until(cx.stop, out, image, bytes, |start, part| {
        part.fill(init);
        for (i, out) in part.chunks_exact_mut(image).enumerate() {
            let at = start / image + i;
            let (x, source) = (&x[at * image..][..image], &source[at * windows..][..windows]);
            vectorized(Image { pool, x, source, out, stop: cx.stop, selection: std::marker::PhantomData::<S> });
        }
    });
}

/// The windows of one image.
struct Image<'a, T, S> {
    pool: &'a PoolGradient,
    x: &'a [T],
    source: &'a [T],
    out: &'a mut [T],
    stop: Option<&'a Stop>,
    selection: std::marker::PhantomData<S>,
}

impl<T: Num, S: Selection<T>> NullaryFnOnce for Image<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Image { pool, x, source, out, stop, .. } = self;
        let mut positions = Vec::new();
        let mut index = vec![0; pool.axes.len()];
        for source in source.chunks_exact(pool.features) {
            if Stop::check(stop).is_err() {
                return;
            }
            // Collect the offsets of the window's elements that are inside the operand, in row-major order.
            positions.clear();
            positions.push(0);
            for (axis, &window) in pool.axes.iter().zip(&index) {
                let (covered, before) = (axis.covered(window), positions.len());
                for outer in 0..before {
                    let at = positions[outer];
                    positions.extend(covered.clone().map(|i| at + i * axis.stride));
                }
                positions.drain(..before);
            }
            if let Some((&first, others)) = positions.split_first() {
                if pool.features == 1 {
                    let mut best = first;
                    for &at in others {
                        best = if S::keeps(x[best], x[at]) { best } else { at };
                    }
                    out[best] = out[best].add(source[0]);
                } else {
                    rows::<T, S>(x, source, out, first, others);
                }
            }
            for (axis, index) in pool.axes.iter().zip(&mut index).rev() {
                *index += 1;
                if *index < axis.windows {
                    break;
                }
                *index = 0;
            }
        }
    }
}

/// Selects and scatters for one window and all features. `first` is the position of the window's first element in `x`,
/// and `others` are the positions of its other elements.
#[inline(always)]
fn rows<T: Num, S: Selection<T>>(x: &[T], source: &[T], out: &mut [T], first: usize, others: &[usize]) {
    for (block, source) in source.chunks(TOGETHER).enumerate() {
        let (from, len) = (block * TOGETHER, source.len());
        let (mut best, mut chosen) = ([T::zeroed(); TOGETHER], [0u32; TOGETHER]);
        best[..len].copy_from_slice(&x[first + from..][..len]);
        for (&at, number) in others.iter().zip(1..) {
            let next = &x[at + from..][..len];
            for ((best, chosen), &next) in best.iter_mut().zip(&mut chosen).zip(next) {
                let keeps = S::keeps(*best, next);
                *best = if keeps { *best } else { next };
                *chosen = if keeps { *chosen } else { number };
            }
        }
        for (&at, number) in std::iter::once(&first).chain(others).zip(0..) {
            let out = &mut out[at + from..][..len];
            for ((o, &s), &chosen) in out.iter_mut().zip(source).zip(&chosen) {
                *o = if chosen == number { o.add(s) } else { *o };
            }
        }
    }
}
