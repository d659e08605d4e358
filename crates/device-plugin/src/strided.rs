//! Copies between strided and dense row-major arrays, without out-of-bounds accesses.

use crate::{Error, Result, Shape};

/// Memory layout of an array with byte strides: its extents, its strides, and the range of bytes around its first
/// element.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    /// Extent and byte stride of each dimension, major to minor. Dimensions that a single stride can traverse are
    /// merged.
    dims: Vec<(usize, isize)>,
    element: usize,
    /// Number of bytes from the element with the lowest address to the first element. Greater than 0 only if a stride
    /// is negative.
    pub(crate) before: usize,
    /// Number of bytes from the start of the element with the lowest address to the end of the element with the highest
    /// address. 0 for an empty array.
    pub(crate) span: usize,
}

impl Strided {
    /// Describes an array of this shape with these byte strides.
    pub(crate) fn new(shape: &Shape, byte_strides: &[i64]) -> Result<Self> {
        let fault = |what: &str| Error::argument(format!("byte_strides {byte_strides:?} of {shape}: {what}"));
        if byte_strides.len() != shape.dimensions.len() {
            return Err(fault("each dimension needs one stride"));
        }
        let element = shape.element_type.host_size();
        let count = shape.num_elements().ok_or_else(|| fault("the array is too large"))?;
        let mut dims = Vec::with_capacity(byte_strides.len());
        let (mut before, mut after) = (0usize, element);
        for (extent, stride) in shape.dimensions.iter().zip(byte_strides) {
            let too_far = || fault("the array exceeds the address space");
            let extent = usize::try_from(*extent).map_err(|_| too_far())?;
            let stride = isize::try_from(*stride).map_err(|_| too_far())?;
            if count > 0 {
                let reach = stride.unsigned_abs().checked_mul(extent - 1).ok_or_else(too_far)?;
                let side = if stride < 0 { &mut before } else { &mut after };
                *side = side.checked_add(reach).filter(|sum| isize::try_from(*sum).is_ok()).ok_or_else(too_far)?;
            }
            // The stride of a dimension of extent 1 is never used.
            if extent != 1 {
                dims.push((extent, stride));
            }
        }
        let span =
            if count == 0 || element == 0 { 0 } else { before.checked_add(after).ok_or_else(|| fault("too large"))? };
        let mut new = Self { dims, element, before, span };
        new.join();
        Ok(new)
    }

    /// Returns the byte strides of a dense array of this shape. `order` lists the dimensions, fastest varying first.
    pub(crate) fn dense_strides(shape: &Shape, order: &[i64]) -> Result<Vec<i64>> {
        let fault =
            || Error::argument(format!("minor_to_major {order:?} does not list each dimension of {shape} once"));
        let mut strides = vec![None; shape.dimensions.len()];
        let mut stride = i64::try_from(shape.element_type.host_size()).map_err(|_| fault())?;
        for dim in order {
            let dim = usize::try_from(*dim).map_err(|_| fault())?;
            match strides.get_mut(dim) {
                Some(slot @ None) => *slot = Some(stride),
                _ => return Err(fault()),
            }
            stride = stride.checked_mul(shape.dimensions[dim].max(1)).ok_or_else(fault)?;
        }
        strides.into_iter().collect::<Option<_>>().ok_or_else(fault)
    }

    /// Merges neighboring dimensions that a single stride can traverse.
    fn join(&mut self) {
        let mut joined: Vec<(usize, isize)> = Vec::with_capacity(self.dims.len());
        for (extent, stride) in self.dims.drain(..) {
            match joined.last_mut() {
                Some((outer, outer_stride))
                    if isize::try_from(extent).ok().and_then(|n| n.checked_mul(stride)) == Some(*outer_stride) =>
                {
                    *outer *= extent;
                    *outer_stride = stride;
                }
                _ => joined.push((extent, stride)),
            }
        }
        self.dims = joined;
    }

    /// Whether the elements are stored as in a dense row-major array.
    pub(crate) fn is_dense(&self) -> bool {
        let one_run = match self.dims.as_slice() {
            [] => true,
            [(_, stride)] => usize::try_from(*stride) == Ok(self.element),
            _ => false,
        };
        one_run || self.span == 0
    }

    /// Copies the strided array in `from`, which has `span` bytes, to the dense array `to`.
    pub(crate) fn gather(&self, from: &[u8], to: &mut [u8]) {
        self.copy(from, self.before, to, 0, |axis| axis);
    }

    /// Copies the dense array `from` to the strided array in `to`, which has `span` bytes.
    pub(crate) fn scatter(&self, from: &[u8], to: &mut [u8]) {
        self.copy(from, 0, to, self.before, |axis| Axis { from: axis.to, to: axis.from, ..axis });
    }

    /// Copies elements from offset `at_from` of `from` to offset `at_to` of `to`. The axes are computed for a copy from
    /// the strided array to a dense one. `turned` converts them to the direction of this copy.
    fn copy(&self, from: &[u8], at_from: usize, to: &mut [u8], at_to: usize, turned: fn(Axis) -> Axis) {
        if self.span == 0 {
            return;
        }
        // The axes from the most minor dimension to the most major one.
        let mut dense = self.element;
        let mut axes = Vec::with_capacity(self.dims.len());
        for &(extent, stride) in self.dims.iter().rev() {
            axes.push(Axis { extent, from: stride, to: dense.cast_signed() });
            dense *= extent;
        }
        let mut run = self.element;
        if axes.first().is_some_and(|axis| axis.from == axis.to) {
            run *= axes.remove(0).extent;
        }
        let inner = if axes.is_empty() { Axis::ONE } else { axes.remove(0) };
        let nearest = (0..axes.len()).min_by_key(|at| axes[*at].from.unsigned_abs());
        let across = nearest.map_or(Axis::ONE, |at| axes.remove(at));
        // Copy in blocks if elements that are close together in one array are far apart in the other. Each loaded cache
        // line is then used completely.
        let blocks = across.extent > 1 && across.from.unsigned_abs() < inner.from.unsigned_abs();
        let (mut across, mut inner) = (turned(across), turned(inner));
        // Sequential writes save more time than sequential reads, so the inner axis is the one with the smaller stride
        // in `to`.
        if blocks && across.to.unsigned_abs() < inner.to.unsigned_abs() {
            std::mem::swap(&mut across, &mut inner);
        }
        let plane = Plane {
            across,
            inner,
            block: if blocks { BLOCK } else { usize::MAX },
            run,
            copy: match run {
                1 => copy_block::<1>,
                2 => copy_block::<2>,
                4 => copy_block::<4>,
                8 => copy_block::<8>,
                16 => copy_block::<16>,
                _ => copy_block::<0>,
            },
        };
        let outer: Vec<Axis> = axes.into_iter().map(turned).collect();
        plane.copy_all(&outer, from, at_from, to, at_to);
    }
}

/// One dimension of a copy, with its byte strides in the source and in the destination.
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    from: isize,
    to: isize,
}

impl Axis {
    const ONE: Self = Self { extent: 1, from: 0, to: 0 };

    /// Returns the source offset that is `steps` steps after the offset `at`.
    fn from(&self, at: usize, steps: usize) -> usize {
        at.wrapping_add_signed(self.from.wrapping_mul(steps.cast_signed()))
    }

    fn to(&self, at: usize, steps: usize) -> usize {
        at.wrapping_add_signed(self.to.wrapping_mul(steps.cast_signed()))
    }
}

/// Number of steps along each side of a block. For elements of 4 bytes, 16 steps fill a cache line of 64 bytes.
const BLOCK: usize = 16;

/// A function that copies one block. It takes the plane, the number of steps in each of its two dimensions, and the
/// source and the destination. A byte offset follows each of the two buffers.
type CopyBlock = fn(&Plane, [usize; 2], &[u8], usize, &mut [u8], usize);

/// The two dimensions that are copied in blocks, and the parameters of the copy. If `block` is `usize::MAX`, one block
/// covers the whole plane.
struct Plane {
    across: Axis,
    inner: Axis,
    block: usize,
    /// Number of contiguous bytes that are copied at each step.
    run: usize,
    copy: CopyBlock,
}

impl Plane {
    /// Copies one plane for each combination of indices of the outer dimensions. The recursion is not deep, because
    /// each outer dimension has at least two elements.
    fn copy_all(&self, outer: &[Axis], from: &[u8], at_from: usize, to: &mut [u8], at_to: usize) {
        let Some((axis, outer)) = outer.split_last() else {
            for a in (0..self.across.extent).step_by(self.block) {
                let count = self.block.min(self.across.extent - a);
                let (at_from, at_to) = (self.across.from(at_from, a), self.across.to(at_to, a));
                for b in (0..self.inner.extent).step_by(self.block) {
                    let counts = [count, self.block.min(self.inner.extent - b)];
                    (self.copy)(self, counts, from, self.inner.from(at_from, b), to, self.inner.to(at_to, b));
                }
            }
            return;
        };
        for i in 0..axis.extent {
            self.copy_all(outer, from, axis.from(at_from, i), to, axis.to(at_to, i));
        }
    }
}

/// Copies a block of runs, which are contiguous byte ranges. Each run has `N` bytes, or `plane.run` bytes if `N` is 0.
/// `counts` contains the numbers of runs along `across` and `inner`.
fn copy_block<const N: usize>(
    plane: &Plane,
    counts: [usize; 2],
    from: &[u8],
    at_from: usize,
    to: &mut [u8],
    at_to: usize,
) {
    let run = if N == 0 { plane.run } else { N };
    for a in 0..counts[0] {
        let (at_from, at_to) = (plane.across.from(at_from, a), plane.across.to(at_to, a));
        for b in 0..counts[1] {
            let (at_from, at_to) = (plane.inner.from(at_from, b), plane.inner.to(at_to, b));
            to[at_to..at_to + run].copy_from_slice(&from[at_from..at_from + run]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;

    fn shape(dims: &[i64]) -> Shape {
        Shape::new(ElementType::S16, dims)
    }

    /// Returns `n` elements of two bytes. The first byte of element `i` is `i`.
    fn counted(n: u8) -> Vec<u8> {
        (0..n).flat_map(|i| [i, 100 + i]).collect()
    }

    fn gathered(dims: &[i64], strides: &[i64], first: usize, from: &[u8]) -> Vec<u8> {
        let shape = shape(dims);
        let strided = Strided::new(&shape, strides).unwrap();
        let from = &from[first - strided.before..][..strided.span];
        let mut to = vec![0; shape.host_size().unwrap()];
        strided.gather(from, &mut to);
        to.chunks(2).map(|element| element[0]).collect()
    }

    #[test]
    fn gathers_whatever_the_strides() {
        let from = counted(12);
        assert_eq!(gathered(&[2, 3], &[6, 2], 0, &from), [0, 1, 2, 3, 4, 5]);
        assert_eq!(gathered(&[3, 2], &[2, 6], 0, &from), [0, 3, 1, 4, 2, 5]);
        assert_eq!(gathered(&[2, 2], &[12, 4], 0, &from), [0, 2, 6, 8]);
        assert_eq!(gathered(&[4], &[-2], 6, &from), [3, 2, 1, 0]);
        assert_eq!(gathered(&[2, 3], &[-6, 2], 6, &from), [3, 4, 5, 0, 1, 2]);
        assert_eq!(gathered(&[2, 3], &[0, 2], 0, &from), [0, 1, 2, 0, 1, 2]);
        assert_eq!(gathered(&[2, 2, 2], &[2, 8, 4], 0, &from), [0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(gathered(&[], &[], 4, &from), [2]);
        assert_eq!(gathered(&[0, 2], &[0, 0], 0, &from), [0u8; 0]);
        assert_eq!(gathered(&[1, 2, 1], &[-400, 2, 999], 0, &from), [0, 1]);
    }

    #[test]
    fn scatter_is_the_way_back() {
        let shape = shape(&[2, 3, 2]);
        let strided = Strided::new(&shape, &Strided::dense_strides(&shape, &[1, 0, 2]).unwrap()).unwrap();
        let from = counted(12);
        let (mut there, mut back) = (vec![0; 24], vec![0; 24]);
        strided.scatter(&from, &mut there);
        assert_ne!(there, from);
        strided.gather(&there, &mut back);
        assert_eq!(back, from);
    }

    #[test]
    fn blocked_copy_equals_elementwise_copy() {
        let types = [ElementType::S8, ElementType::S16, ElementType::F32, ElementType::F64, ElementType::C128];
        let orders: [(&[i64], &[i64]); 6] = [
            (&[37, 41], &[0, 1]),
            (&[41, 37], &[1, 0]),
            (&[3, 20, 35], &[0, 1, 2]),
            (&[20, 3, 35], &[1, 2, 0]),
            (&[35, 20, 3], &[2, 0, 1]),
            (&[2, 17, 3, 1, 18], &[1, 4, 0, 3, 2]),
        ];
        for (case, (dims, order)) in orders.iter().enumerate() {
            let shape = Shape::new(types[case % types.len()], *dims);
            for spread in [1, 2, -1] {
                let dense = Strided::dense_strides(&shape, order).unwrap();
                let strides: Vec<i64> = dense.iter().map(|stride| stride * spread).collect();
                let strided = Strided::new(&shape, &strides).unwrap();
                let element = strided.element;
                let from: Vec<u8> = (0..strided.span).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
                let mut expected = Vec::new();
                for number in 0..shape.num_elements().unwrap() {
                    let (mut rest, mut at) = (number, strided.before);
                    for (extent, stride) in dims.iter().zip(&strides).rev() {
                        let extent = usize::try_from(*extent).unwrap();
                        at = at.wrapping_add_signed(isize::try_from(*stride).unwrap() * (rest % extent).cast_signed());
                        rest /= extent;
                    }
                    expected.extend_from_slice(&from[at..at + element]);
                }
                let mut to = vec![0; expected.len()];
                strided.gather(&from, &mut to);
                assert!(to == expected, "{shape} {order:?} {spread}");
                let (mut back, mut again) = (vec![0; strided.span], vec![0; expected.len()]);
                strided.scatter(&expected, &mut back);
                strided.gather(&back, &mut again);
                assert!(again == expected, "{shape} {order:?} {spread}");
                assert!(spread == 2 || back == from, "{shape} {order:?} {spread}");
            }
        }
    }

    #[test]
    fn knows_dense_arrays() {
        let dense = |dims: &[i64], strides: &[i64]| Strided::new(&shape(dims), strides).unwrap().is_dense();
        assert!(dense(&[2, 3], &[6, 2]));
        assert!(dense(&[2, 1, 3], &[6, 77, 2]));
        assert!(dense(&[], &[]) && dense(&[0, 4], &[0, 0]));
        assert!(!dense(&[2, 3], &[8, 2]) && !dense(&[3], &[-2]) && !dense(&[2, 3], &[2, 4]));
        let order = |order: &[i64]| Strided::dense_strides(&shape(&[2, 3]), order).unwrap();
        assert!(dense(&[2, 3], &order(&[1, 0])) && !dense(&[2, 3], &order(&[0, 1])));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let new = |dims: &[i64], strides: &[i64]| Strided::new(&shape(dims), strides);
        assert!(new(&[2], &[]).is_err());
        assert!(new(&[i64::MAX, 4], &[2, 2]).is_err());
        assert!(new(&[-1], &[2]).is_err());
        assert!(new(&[3], &[i64::MIN]).is_err() && new(&[3], &[i64::MAX]).is_err());
        for order in [&[0i64][..], &[0, 0], &[0, 2], &[-1, 0], &[0, 1, 2]] {
            assert!(Strided::dense_strides(&shape(&[2, 2]), order).is_err(), "{order:?}");
        }
    }
}
