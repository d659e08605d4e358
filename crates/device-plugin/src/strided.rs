//! Copies between strided and dense row-major arrays, in bounds by construction.

use crate::{Error, Result, Shape};

/// An array laid out by byte strides: extents, strides, and the bytes it spans around its first element.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    /// Extent and stride of each dimension, most major first.
    dims: Vec<(usize, isize)>,
    element: usize,
    /// Bytes before the first element, which negative strides reach.
    pub(crate) before: usize,
    /// Bytes from the lowest to the end of the highest element; 0 for an empty array.
    pub(crate) span: usize,
}

impl Strided {
    /// An array of that shape with those strides.
    pub(crate) fn new(shape: &Shape, byte_strides: &[i64]) -> Result<Self> {
        let fault = |what: &str| Error::argument(format!("byte_strides {byte_strides:?} of {shape}: {what}"));
        if byte_strides.len() != shape.dimensions.len() {
            return Err(fault("one stride is needed for each dimension"));
        }
        let element = shape.element_type.host_size();
        let count = shape.num_elements().ok_or_else(|| fault("the array is too large"))?;
        let mut dims = Vec::with_capacity(byte_strides.len());
        let (mut before, mut after) = (0usize, element);
        for (extent, stride) in shape.dimensions.iter().zip(byte_strides) {
            let too_far = || fault("the array does not fit into memory");
            let extent = usize::try_from(*extent).map_err(|_| too_far())?;
            let stride = isize::try_from(*stride).map_err(|_| too_far())?;
            if count > 0 {
                let reach = stride.unsigned_abs().checked_mul(extent - 1).ok_or_else(too_far)?;
                let side = if stride < 0 { &mut before } else { &mut after };
                *side = side.checked_add(reach).filter(|sum| isize::try_from(*sum).is_ok()).ok_or_else(too_far)?;
            }
            // A dimension of one element never uses its stride.
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

    /// The strides of a dense array of that shape whose dimensions lie in that order, fastest first.
    pub(crate) fn dense_strides(shape: &Shape, order: &[i64]) -> Result<Vec<i64>> {
        let fault = || Error::argument(format!("minor_to_major {order:?} is no order of the dimensions of {shape}"));
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

    /// Joins neighbouring dimensions that one stride walks.
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

    /// Whether the elements lie as in a dense row-major array.
    pub(crate) fn is_dense(&self) -> bool {
        let one_run = match self.dims.as_slice() {
            [] => true,
            [(_, stride)] => usize::try_from(*stride) == Ok(self.element),
            _ => false,
        };
        one_run || self.span == 0
    }

    /// Copies the array, whose span is `from`, to the dense `to`.
    pub(crate) fn gather(&self, from: &[u8], to: &mut [u8]) {
        let mut dense = 0;
        self.walk(|at, len| {
            to[dense..dense + len].copy_from_slice(&from[at..at + len]);
            dense += len;
        });
    }

    /// Copies the dense `from` to the array, whose span is `to`.
    pub(crate) fn scatter(&self, from: &[u8], to: &mut [u8]) {
        let mut dense = 0;
        self.walk(|at, len| {
            to[at..at + len].copy_from_slice(&from[dense..dense + len]);
            dense += len;
        });
    }

    /// Calls `visit` with the place in the span and the length of each run of bytes, in row-major order.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        if self.span == 0 {
            return;
        }
        let (outer, run) = match self.dims.split_last() {
            Some(((extent, stride), outer)) if usize::try_from(*stride) == Ok(self.element) => {
                (outer, extent * self.element)
            }
            _ => (self.dims.as_slice(), self.element),
        };
        let Some(((extent, stride), outer)) = outer.split_last() else {
            return visit(self.before, run);
        };
        let mut index = vec![0usize; outer.len()];
        let mut start = self.before;
        loop {
            let mut at = start;
            for i in 0..*extent {
                visit(at, run);
                if i + 1 < *extent {
                    at = at.wrapping_add_signed(*stride);
                }
            }
            // The next index of the outer dimensions, most minor first.
            let mut dim = outer.len();
            loop {
                let Some(next) = dim.checked_sub(1) else { return };
                dim = next;
                let (extent, stride) = outer[dim];
                if index[dim] + 1 < extent {
                    index[dim] += 1;
                    start = start.wrapping_add_signed(stride);
                    break;
                }
                for _ in 0..index[dim] {
                    start = start.wrapping_add_signed(stride.wrapping_neg());
                }
                index[dim] = 0;
            }
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

    /// Elements 0, 1, 2, ... as bytes.
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
        assert!(new(&[2], &[]).unwrap_err().message().contains("one stride"));
        assert!(new(&[i64::MAX, 4], &[2, 2]).unwrap_err().message().contains("too large"));
        assert!(new(&[-1], &[2]).is_err());
        assert!(new(&[3], &[i64::MIN]).is_err() && new(&[3], &[i64::MAX]).is_err());
        for order in [&[0i64][..], &[0, 0], &[0, 2], &[-1, 0], &[0, 1, 2]] {
            assert!(Strided::dense_strides(&shape(&[2, 2]), order).is_err(), "{order:?}");
        }
    }
}
