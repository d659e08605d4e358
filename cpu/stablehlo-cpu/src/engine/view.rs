//! Strided views of row-major buffers. Transposes, slices, broadcasts and windows read and write through such views.
#![expect(clippy::cast_sign_loss, reason = "a view's positions were checked to lie in its buffer when it was made")]
#![expect(clippy::cast_possible_wrap, reason = "extents were checked to fit isize at compile time")]

/// Maximum rank. Higher ranks are rejected at compile time, so loops over a view need no heap memory.
pub(crate) const MAX_RANK: usize = 64;

/// Returns the row-major strides of `dims`, in elements.
pub(crate) fn strides_of(dims: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; dims.len()];
    let mut step = 1isize;
    for (stride, &dim) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        // Count a zero extent as one, so that the strides of the other dimensions do not become zero.
        step *= dim.max(1) as isize;
    }
    strides
}

/// A view of the elements `offset + sum(index * stride)` of a buffer, for every index within `dims`, in row-major
/// order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    dims: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
    len: usize,
}

/// A part of a view that is contiguous in its buffer or repeats one element. Contains the position of the part's first
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Contiguous(usize),
    Repeated(usize),
}

impl View {
    /// Creates a view. `dims` and `strides` are simplified: unit dimensions are dropped, and adjacent dimensions are
    /// merged if one stride covers both.
    pub(crate) fn new(dims: &[usize], strides: &[isize], offset: usize) -> Self {
        let len = dims.iter().product();
        let mut view = View { dims: Vec::new(), strides: Vec::new(), offset, len };
        for (&dim, &stride) in dims.iter().zip(strides).filter(|&(&d, _)| d != 1) {
            match (view.dims.last_mut(), view.strides.last_mut()) {
                (Some(d), Some(s)) if *s == stride * dim as isize => {
                    *d *= dim;
                    *s = stride;
                }
                _ => {
                    view.dims.push(dim);
                    view.strides.push(stride);
                }
            }
        }
        view
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the view is a contiguous range of the buffer.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.len <= 1 || (self.dims.len() == 1 && self.strides[0] == 1)
    }

    /// Returns whether the view repeats each of the buffer's first `rows` elements `columns` times.
    pub(crate) fn repeats(&self, rows: usize, columns: usize) -> bool {
        self.offset == 0 && self.dims == [rows, columns] && self.strides == [1, 0]
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn dims(&self) -> &[usize] {
        &self.dims
    }

    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the positions of the view's elements in the buffer, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).map(|index| self.position(index))
    }

    /// Returns the same view, `by` elements further into the buffer.
    pub(crate) fn shifted(&self, by: usize) -> Self {
        View { offset: self.offset + by, ..self.clone() }
    }

    /// Calls `f(distance from start, position in the buffer, run length)` for the elements `start .. start + count` of
    /// the view. Each run lies within one row of the innermost dimension.
    #[inline(always)]
    fn runs(&self, start: usize, count: usize, mut f: impl FnMut(usize, isize, usize)) {
        if count == 0 {
            return;
        }
        let Some((&inner, outer)) = self.dims.split_last() else {
            f(0, self.offset as isize, 1);
            return;
        };
        let inner_stride = self.strides[outer.len()];
        let mut index = [0usize; MAX_RANK];
        let mut rest = start / inner;
        let mut within = start % inner;
        let mut position = self.offset as isize;
        for axis in (0..outer.len()).rev() {
            index[axis] = rest % outer[axis];
            rest /= outer[axis];
            position += index[axis] as isize * self.strides[axis];
        }
        let mut done = 0;
        loop {
            let run = (inner - within).min(count - done);
            f(done, position + within as isize * inner_stride, run);
            done += run;
            if done >= count {
                return;
            }
            within = 0;
            // Whole lines along the dimension beside the innermost one need no other index. Leave the last one, so that
            // the other indices advance below.
            if let Some(axis) = outer.len().checked_sub(1) {
                let lines = (outer[axis] - index[axis] - 1).min((count - done) / inner);
                for _ in 0..lines {
                    position += self.strides[axis];
                    f(done, position, inner);
                    done += inner;
                }
                index[axis] += lines;
                if done >= count {
                    return;
                }
            }
            for axis in (0..outer.len()).rev() {
                index[axis] += 1;
                position += self.strides[axis];
                if index[axis] < outer[axis] {
                    break;
                }
                position -= index[axis] as isize * self.strides[axis];
                index[axis] = 0;
            }
        }
    }

    /// Returns the length of the view's lines. A line is a run of elements that is contiguous in the buffer or repeats
    /// one element. Returns 0 if the view has no lines or only one element.
    pub(crate) fn line(&self) -> usize {
        match (self.dims.last(), self.strides.last()) {
            (Some(&extent), Some(0 | 1)) => extent,
            _ => 0,
        }
    }

    /// Returns the position of an element in the buffer.
    pub(crate) fn position(&self, index: usize) -> usize {
        let mut rest = index;
        let mut position = self.offset as isize;
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            position += (rest % dim) as isize * stride;
            rest /= dim;
        }
        position as usize
    }

    /// Returns the rest of a line, from element `start` of the view on. The view must have [lines](View::line).
    pub(crate) fn line_at(&self, start: usize) -> Line {
        match self.strides.last() {
            Some(0) => Line::Repeated(self.position(start)),
            _ => Line::Contiguous(self.position(start)),
        }
    }

    /// Copies the view's elements from element `start` on to `dst`, until `dst` is full.
    pub(crate) fn read<T: Copy>(&self, src: &[T], start: usize, dst: &mut [T]) {
        let count = dst.len();
        match self.strides.last().copied().unwrap_or(1) {
            1 => self.runs(start, count, |to, from, run| {
                let from = from as usize;
                copy(&src[from..from + run], &mut dst[to..to + run]);
            }),
            0 => self.runs(start, count, |to, from, run| dst[to..to + run].fill(src[from as usize])),
            stride => self.runs(start, count, |to, from, run| {
                for (i, d) in dst[to..to + run].iter_mut().enumerate() {
                    *d = src[(from + i as isize * stride) as usize];
                }
            }),
        }
    }

    /// Copies the whole view to `dst`. Copies in blocks if the view transposes the buffer.
    pub(crate) fn read_all<T: Copy>(&self, src: &[T], dst: &mut [T]) {
        let Some(last) = self.dims.len().checked_sub(1) else {
            return self.read(src, 0, dst);
        };
        let lines = self.strides.iter().position(|&s| s == 1);
        let (Some(k), true) = (lines, self.len > 0) else {
            return self.read(src, 0, dst);
        };
        if k == last || self.strides[last] == 0 || self.dims[k] < 4 {
            return self.read(src, 0, dst);
        }
        const BLOCK: usize = 16;
        let own = strides_of(&self.dims);
        let (rows, columns) = (self.dims[k], self.dims[last]);
        let (to_row, from_column) = (own[k] as usize, self.strides[last]);
        // Copy one plane after the other. A plane is spanned by the view's last dimension and the dimension that is
        // contiguous in the buffer. The cache lines of a block of the plane stay in the cache until all their elements
        // are copied.
        let others = |v: &[isize]| {
            v.iter().enumerate().filter(|&(a, _)| a != k && a != last).map(|(_, &s)| s).collect::<Vec<_>>()
        };
        let dims: Vec<usize> =
            self.dims.iter().enumerate().filter(|&(a, _)| a != k && a != last).map(|(_, &d)| d).collect();
        let (from, to) = (others(&self.strides), others(&own));
        for plane in 0..dims.iter().product::<usize>() {
            let (mut rest, mut src_at, mut dst_at) = (plane, self.offset as isize, 0);
            for axis in (0..dims.len()).rev() {
                let index = (rest % dims[axis]) as isize;
                rest /= dims[axis];
                src_at += index * from[axis];
                dst_at += index * to[axis];
            }
            for row in (0..rows).step_by(BLOCK) {
                for column in (0..columns).step_by(BLOCK) {
                    let width = BLOCK.min(columns - column);
                    for r in row..rows.min(row + BLOCK) {
                        let at = dst_at as usize + r * to_row + column;
                        let mut s = src_at + r as isize + column as isize * from_column;
                        for d in &mut dst[at..at + width] {
                            *d = src[s as usize];
                            s += from_column;
                        }
                    }
                }
            }
        }
    }

    /// Copies `src` to the view's elements of `dst`.
    pub(crate) fn write<T: Copy>(&self, src: &[T], dst: &mut [T]) {
        let count = self.len.min(src.len());
        match self.strides.last().copied().unwrap_or(1) {
            1 => self.runs(0, count, |from, to, run| {
                let to = to as usize;
                dst[to..to + run].copy_from_slice(&src[from..from + run]);
            }),
            stride => self.runs(0, count, |from, to, run| {
                for (i, &s) in src[from..from + run].iter().enumerate() {
                    dst[(to + i as isize * stride) as usize] = s;
                }
            }),
        }
    }

    /// Splits the view into parts of at most `rows` indices of the outermost dimension. Also returns the number of
    /// elements before each part.
    pub(crate) fn split(&self, rows: usize) -> Vec<(usize, View)> {
        let Some(&outer) = self.dims.first() else {
            return vec![(0, self.clone())];
        };
        let inner = self.len / outer.max(1);
        (0..outer)
            .step_by(rows.max(1))
            .map(|row| {
                let mut part = self.clone();
                part.dims[0] = rows.min(outer - row);
                part.len = part.dims[0] * inner;
                part.offset = (self.offset as isize + row as isize * self.strides[0]) as usize;
                (row * inner, part)
            })
            .collect()
    }
}

/// Copies a slice to a slice of the same length. Short copies call no function.
#[inline(always)]
fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    macro_rules! short {
        ($($n:literal)*) => {
            match from.len() {
                $($n => {
                    if let (Some(from), Some(to)) = (from.first_chunk::<$n>(), to.first_chunk_mut::<$n>()) {
                        *to = *from;
                    }
                })*
                _ => to.copy_from_slice(from),
            }
        };
    }
    short!(1 2 3 4 8 16);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(dims: &[usize], strides: &[isize], offset: usize) -> Vec<u32> {
        (0..dims.iter().product::<usize>())
            .map(|flat| {
                let (mut rest, mut at) = (flat, offset as isize);
                for (&dim, &stride) in dims.iter().zip(strides).rev() {
                    at += (rest % dim) as isize * stride;
                    rest /= dim;
                }
                u32::try_from(at).unwrap()
            })
            .collect()
    }

    #[test]
    fn reads_match_index_arithmetic() {
        let src: Vec<u32> = (0..40 * 40).collect();
        let cases: [(&[usize], &[isize], usize); 11] = [
            (&[], &[], 7),
            (&[5], &[1], 3),
            (&[4, 6], &[0, 1], 2),
            (&[4, 6], &[1, 0], 2),
            (&[40, 40], &[1, 40], 0),
            (&[3, 17, 19], &[1, 40, 3], 5),
            (&[2, 33, 20], &[700, 1, 34], 0),
            (&[3, 4], &[-4, -1], 11),
            (&[2, 5, 3], &[100, 0, 1], 4),
            (&[3, 2, 4, 8], &[300, 90, 11, 1], 1),
            (&[4, 7, 2], &[0, 3, 0], 9),
        ];
        for (dims, strides, offset) in cases {
            let view = View::new(dims, strides, offset);
            let want = naive(dims, strides, offset);
            let mut got = vec![0; want.len()];
            view.read_all(&src, &mut got);
            assert_eq!(got, want, "{dims:?} {strides:?}");
            for start in 0..want.len() {
                let count = (want.len() - start).min(7);
                let mut part = vec![0; count];
                view.read(&src, start, &mut part);
                assert_eq!(part, want[start..start + count]);
            }
            for (before, part) in view.split(2) {
                let mut got = vec![0; part.len()];
                part.read_all(&src, &mut got);
                assert_eq!(got, want[before..before + got.len()]);
            }
        }
    }

    #[test]
    fn writes_invert_reads() {
        let view = View::new(&[2, 3], &[1, 2], 1);
        let mut dst = [0; 8];
        view.write(&[1, 2, 3, 4, 5, 6], &mut dst);
        assert_eq!(dst, [0, 1, 4, 2, 5, 3, 6, 0]);
    }

    #[test]
    fn adjacent_dimensions_merge() {
        assert!(View::new(&[2, 1, 3, 4], &[12, 99, 4, 1], 0).is_contiguous());
        assert_eq!(View::new(&[2, 3, 4], &[0, 0, 1], 0).dims(), [6, 4]);
    }
}
