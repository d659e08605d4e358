//! Kernels of ops that move elements or reinterpret their bits.

use bytemuck::{cast_slice, cast_slice_mut};

use super::{Context, Kernel};
use crate::engine::dtype::{DType, with_size};
use crate::engine::parallel;
use crate::engine::tile::fill;
use crate::engine::view::View;
use crate::error::RunError;

/// Reinterprets the bits of the first input as another type. The kernel does nothing, because the output starts as a
/// copy of the input.
pub(crate) struct Reinterpret;

impl Kernel for Reinterpret {
    fn run(&self, _: &[&[u8]], _: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        Ok(())
    }
}

/// Writes a strided view of the input to the output, for ops such as `transpose` and `reverse`.
pub(crate) struct Gathered {
    pub(crate) view: View,
    pub(crate) size: usize,
}

impl Kernel for Gathered {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        with_size!(self.size, T => read_all::<T>(&self.view, cast_slice(ins[0]), cast_slice_mut(outs[0])));
        Ok(())
    }

    fn view(&self) -> Option<&View> {
        Some(&self.view)
    }
}

/// Copies the elements of a view to a buffer. Uses several threads if the buffer is large.
pub(crate) fn read_all<T: Copy + Send + Sync>(view: &View, src: &[T], dst: &mut [T]) {
    let bytes = size_of_val(dst);
    let threads = parallel::threads(bytes);
    let Some(&outer) = view.dims().first() else {
        return view.read_all(src, dst);
    };
    if threads == 1 || outer < 2 {
        return view.read_all(src, dst);
    }
    let mut rest = dst;
    let mut tasks = Vec::new();
    // Split at multiples of 16 rows, so that no block of a transpose is divided.
    for (_, part) in view.split(outer.div_ceil(threads * 4).next_multiple_of(16)) {
        let (head, tail) = rest.split_at_mut(part.len());
        tasks.push((part, head));
        rest = tail;
    }
    parallel::each(tasks, bytes, |(part, out)| part.read_all(src, out));
}

/// `concatenate`.
pub(crate) struct Concatenate {
    /// Number of bytes that each operand contributes to a row of the result. A row consists of the elements at one
    /// index of the dimensions outside of the concatenated dimension. `row` is its size in bytes.
    pub(crate) chunks: Vec<usize>,
    pub(crate) row: usize,
}

impl Kernel for Concatenate {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        if self.row == 0 {
            return Ok(());
        }
        let bytes = outs[0].len();
        parallel::chunks(outs[0], self.row, bytes, |start, part| {
            for (i, row) in part.chunks_exact_mut(self.row).enumerate() {
                let outer = start / self.row + i;
                let mut at = 0;
                for (input, &chunk) in ins.iter().zip(&self.chunks) {
                    row[at..at + chunk].copy_from_slice(&input[outer * chunk..(outer + 1) * chunk]);
                    at += chunk;
                }
            }
        });
        Ok(())
    }
}

/// `pad`. The inputs are the operand and the padding element.
pub(crate) struct Pad {
    /// View of the elements of the operand that remain after negative padding.
    pub(crate) from: View,
    /// View of the result at the positions of the remaining elements.
    pub(crate) to: View,
    pub(crate) size: usize,
}

impl Kernel for Pad {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        fill(outs[0], &ins[1][..self.size]);
        if self.from.len() == 0 {
            return Ok(());
        }
        if self.from.is_contiguous() {
            with_size!(self.size, T => {
                let src: &[T] = &cast_slice(ins[0])[self.from.offset()..][..self.from.len()];
                self.to.write(src, cast_slice_mut::<u8, T>(outs[0]));
            });
            return Ok(());
        }
        let mut kept = cx.pool.alloc(self.from.len() * self.size)?;
        let kept = kept.write()?;
        with_size!(self.size, T => {
            self.from.read_all::<T>(cast_slice(ins[0]), cast_slice_mut(kept));
            self.to.write::<T>(cast_slice(kept), cast_slice_mut(outs[0]));
        });
        Ok(())
    }

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        if self.from.is_contiguous() { 0 } else { self.from.len() * self.size }
    }
}

/// Evaluates `$body` with the elements of an index tensor, and with a function that converts an element to `i64`.
/// Larger numbers become the largest `i64`.
macro_rules! with_indices {
    (@ $t:ty, $bytes:expr, $indices:ident, $wide:ident, $body:expr, $convert:expr) => {{
        let ($indices, $wide) = (bytemuck::cast_slice::<u8, $t>($bytes), $convert);
        $body
    }};
    ($dtype:expr, $bytes:expr, |$indices:ident, $wide:ident| $body:expr) => {
        match $dtype {
            DType::I8 => with_indices!(@ i8, $bytes, $indices, $wide, $body, i64::from),
            DType::I16 => with_indices!(@ i16, $bytes, $indices, $wide, $body, i64::from),
            DType::I32 => with_indices!(@ i32, $bytes, $indices, $wide, $body, i64::from),
            DType::U8 => with_indices!(@ u8, $bytes, $indices, $wide, $body, i64::from),
            DType::U16 => with_indices!(@ u16, $bytes, $indices, $wide, $body, i64::from),
            DType::U32 => with_indices!(@ u32, $bytes, $indices, $wide, $body, i64::from),
            DType::U64 => with_indices!(@ u64, $bytes, $indices, $wide, $body, |x| i64::try_from(x).unwrap_or(i64::MAX)),
            _ => with_indices!(@ i64, $bytes, $indices, $wide, $body, i64::from),
        }
    };
}

pub(super) use with_indices;

/// Reads integers of any type as `i64`. Unsigned numbers that exceed `i64::MAX` saturate.
#[derive(Clone, Copy)]
pub(crate) struct ReadIndex {
    dtype: DType,
}

impl ReadIndex {
    pub(crate) fn new(dtype: DType) -> Option<Self> {
        dtype.is_integer().then_some(ReadIndex { dtype })
    }

    pub(crate) fn dtype(self) -> DType {
        self.dtype
    }

    /// Returns element `i` of `bytes`.
    pub(crate) fn get(self, bytes: &[u8], i: usize) -> i64 {
        with_indices!(self.dtype, bytes, |indices, wide| wide(indices[i]))
    }

    /// Returns element `i` of `bytes`, clamped to `0..=max`.
    pub(crate) fn clamped(self, bytes: &[u8], i: usize, max: usize) -> usize {
        usize::try_from(self.get(bytes, i).max(0)).unwrap_or(usize::MAX).min(max)
    }
}

/// Start of a slice along one dimension, read at run time.
pub(crate) struct Start {
    pub(crate) read: ReadIndex,
    /// Largest start at which the slice is still inside the tensor.
    pub(crate) max: usize,
    /// Stride of the dimension, in elements.
    pub(crate) stride: usize,
}

fn offset(starts: &[Start], ins: &[&[u8]]) -> usize {
    starts.iter().zip(ins).map(|(s, bytes)| s.read.clamped(bytes, 0, s.max) * s.stride).sum()
}

/// `dynamic_slice`. The inputs are the operand and the starts.
pub(crate) struct DynamicSlice {
    pub(crate) view: View,
    pub(crate) starts: Vec<Start>,
    pub(crate) size: usize,
}

impl Kernel for DynamicSlice {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let view = self.view.shifted(offset(&self.starts, &ins[1..]));
        with_size!(self.size, T => read_all::<T>(&view, cast_slice(ins[0]), cast_slice_mut(outs[0])));
        Ok(())
    }
}

/// `dynamic_update_slice`. The inputs are the operand, the update and the starts. The output starts as a copy of the
/// operand.
pub(crate) struct DynamicUpdateSlice {
    pub(crate) view: View,
    pub(crate) starts: Vec<Start>,
    pub(crate) size: usize,
}

impl Kernel for DynamicUpdateSlice {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let view = self.view.shifted(offset(&self.starts, &ins[2..]));
        with_size!(self.size, T => view.write::<T>(cast_slice(ins[1]), cast_slice_mut(outs[0])));
        Ok(())
    }
}

/// `bitcast_convert` to or from a type narrower than a byte, whose elements occupy one byte each. The first narrow
/// element corresponds to the lowest bits of the wider element.
pub(crate) struct Repack {
    /// Width of an element of the operand in bits. `to` is the width of an element of the result.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Kernel for Repack {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let (narrow, wide) = (self.from.min(self.to), self.from.max(self.to));
        // Number of narrow elements in each byte of the wider type.
        let per = wide.min(8) / narrow;
        let mask = u8::MAX >> (8 - narrow);
        if self.from > self.to {
            for (&byte, parts) in ins[0].iter().zip(outs[0].chunks_exact_mut(per)) {
                parts.iter_mut().enumerate().for_each(|(i, part)| *part = (byte >> (i * narrow)) & mask);
            }
        } else {
            for (byte, parts) in outs[0].iter_mut().zip(ins[0].chunks_exact(per)) {
                *byte = parts.iter().enumerate().fold(0, |byte, (i, &part)| byte | (part & mask) << (i * narrow));
            }
        }
        Ok(())
    }
}
