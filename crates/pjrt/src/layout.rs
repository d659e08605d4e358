//! Layouts: comparison, conversion to row-major order, and conversion to the C struct.

use pjrt_sys::*;
use pjrt_types::{Layout, Shape};

use crate::error::Error;

/// A layout and the arrays that the C struct points to.
pub(crate) struct MemoryLayout<'a> {
    layout: &'a Layout,
    tile_dims: Vec<i64>,
    tile_dim_sizes: Vec<usize>,
}

impl<'a> MemoryLayout<'a> {
    /// Prepares the arrays for the C struct of `layout`. Returns an error if `minor_to_major` is not a permutation of
    /// the shape's dimensions.
    pub(crate) fn new(layout: &'a Layout, shape: &Shape) -> Result<Self, Error> {
        let mut order = layout.minor_to_major.clone();
        order.sort_unstable();
        if !order.iter().copied().eq((0i64..).take(shape.dimensions.len())) {
            return Err(Error::invalid(format!("{layout} is not a layout of {shape}: name each dimension once")));
        }
        Ok(Self {
            layout,
            tile_dims: layout.tiles.concat(),
            tile_dim_sizes: layout.tiles.iter().map(Vec::len).collect(),
        })
    }

    /// Returns the layout as a C struct. The struct points into `self`.
    pub(crate) fn raw(&self) -> PJRT_Buffer_MemoryLayout {
        let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
        tiled.minor_to_major = self.layout.minor_to_major.as_ptr();
        tiled.minor_to_major_size = self.layout.minor_to_major.len();
        tiled.tile_dims = self.tile_dims.as_ptr();
        tiled.tile_dim_sizes = self.tile_dim_sizes.as_ptr();
        tiled.num_tiles = self.tile_dim_sizes.len();
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
        layout.__bindgen_anon_1.tiled = tiled;
        layout
    }
}

/// Returns whether the layout has a valid dimension order that is not equivalent to row-major order. Compares the
/// layout with the row-major layout that has the same tiles, because tiles alone do not affect the order of the
/// elements on the host. Returns `false` if the rank is 0 or 1, or if the length of the order is not the rank.
pub(crate) fn is_non_default(layout: &Layout, shape: &Shape) -> bool {
    let rank = shape.dimensions.len();
    // A layout whose length differs from the rank is invalid, so ignore it.
    rank > 1 && layout.minor_to_major.len() == rank && {
        let usual = Layout::row_major(rank).with_tiles(layout.tiles.clone());
        !is_same(layout, &usual, &shape.dimensions)
    }
}

/// Returns whether two layouts are equivalent for arrays with these extents.
pub(crate) fn is_same(a: &Layout, b: &Layout, dimensions: &[i64]) -> bool {
    if a.minor_to_major == b.minor_to_major {
        // A layout without tiles may come from a source that omits tiles, so it matches any tiles.
        return a.tiles == b.tiles || a.tiles.is_empty() || b.tiles.is_empty();
    }
    if dimensions.contains(&0) {
        return true;
    }
    // The position of a dimension of extent 1 has no effect, unless the layout has tiles.
    let extent = |d: &i64| usize::try_from(*d).ok().and_then(|d| dimensions.get(d)).copied();
    let long = |layout: &Layout| -> Vec<i64> {
        layout.minor_to_major.iter().copied().filter(|d| extent(d) != Some(1)).collect()
    };
    a.tiles.is_empty() && b.tiles.is_empty() && long(a) == long(b)
}

/// A conversion from the dimension order of a layout to row-major order.
#[derive(Debug)]
pub(crate) struct Reorder {
    /// Extent of each dimension, and its stride in the layout's order, in elements.
    dimensions: Vec<(usize, usize)>,
}

impl Reorder {
    /// Creates the conversion. Returns `None` if `minor_to_major` is not a permutation of the shape's dimensions, if an
    /// extent is negative, or if the number of elements overflows.
    pub(crate) fn new(layout: &Layout, shape: &Shape) -> Option<Self> {
        let rank = shape.dimensions.len();
        let mut dimensions = vec![None; rank];
        let mut stride = 1usize;
        for dimension in &layout.minor_to_major {
            let place = dimensions.get_mut(usize::try_from(*dimension).ok()?)?;
            let extent = usize::try_from(shape.dimensions[usize::try_from(*dimension).ok()?]).ok()?;
            if place.replace((extent, stride)).is_some() {
                return None;
            }
            stride = stride.checked_mul(extent)?;
        }
        Some(Self { dimensions: dimensions.into_iter().collect::<Option<_>>()? })
    }

    /// Converts row-major elements to the layout's order. Each element consists of `unit` consecutive values of `data`.
    fn undo<B: Copy>(&self, data: &[B], unit: usize) -> Vec<B> {
        let indices: Vec<usize> = (0..data.len() / unit).collect();
        let mut out = data.to_vec();
        for (place, element) in self.apply(&indices, 1).into_iter().zip(data.chunks_exact(unit)) {
            out[place * unit..][..unit].copy_from_slice(element);
        }
        out
    }

    /// Converts elements to row-major order. Each element consists of `unit` consecutive values of `data`.
    fn apply<B: Copy>(&self, data: &[B], unit: usize) -> Vec<B> {
        let mut out = Vec::with_capacity(data.len());
        let mut index = vec![0usize; self.dimensions.len()];
        let mut from = 0usize;
        while out.len() < data.len() {
            out.extend_from_slice(&data[from * unit..][..unit]);
            // Increment the index in row-major order.
            for (i, (extent, stride)) in index.iter_mut().zip(&self.dimensions).rev() {
                *i += 1;
                from += stride;
                if *i < *extent {
                    break;
                }
                from -= *i * stride;
                *i = 0;
            }
        }
        out
    }
}

/// The conversion of elements that were copied to the host. The default converts nothing.
#[derive(Debug, Default)]
pub(crate) struct HostOrder {
    /// The order of the copied elements. `None` if they are row-major.
    copied: Option<Reorder>,
    /// The order in which the caller receives the elements. `None` if it is row-major.
    wanted: Option<Reorder>,
}

impl HostOrder {
    pub(crate) fn new(copied: Option<Reorder>, wanted: Option<Reorder>) -> Self {
        Self { copied, wanted }
    }

    /// Converts the copied elements. Each element consists of `unit` consecutive values of `data`.
    pub(crate) fn apply<B: Copy>(&self, mut data: Vec<B>, unit: usize) -> Vec<B> {
        if let Some(copied) = &self.copied {
            data = copied.apply(&data, unit);
        }
        if let Some(wanted) = &self.wanted {
            data = wanted.undo(&data, unit);
        }
        data
    }

    /// Converts the copied elements in place, like [`Self::apply`].
    pub(crate) fn apply_to<B: Copy>(&self, data: &mut [B], unit: usize) {
        if self.copied.is_some() || self.wanted.is_some() {
            let converted = self.apply(data.to_vec(), unit);
            data.copy_from_slice(&converted);
        }
    }
}

#[cfg(test)]
mod tests {
    use pjrt_types::ElementType;

    use super::*;

    fn order(minor_to_major: &[i64]) -> Layout {
        Layout::new(minor_to_major.to_vec())
    }

    #[test]
    fn only_another_order_is_non_default() {
        let non_default = |layout: &Layout, dims: &[i64]| is_non_default(layout, &Shape::new(ElementType::F32, dims));
        assert!(non_default(&order(&[0, 1]), &[2, 3]));
        assert!(!non_default(&order(&[1, 0]), &[2, 3]));
        assert!(!non_default(&order(&[0, 1]), &[2, 1]));
        assert!(!non_default(&order(&[0, 1]), &[2, 0]));
        assert!(!non_default(&order(&[0]), &[2]));
        assert!(!non_default(&order(&[0, 1]), &[2, 3, 4]), "not an order of three dimensions");
        assert!(non_default(&order(&[1, 2, 0]), &[2, 3, 4]));
        assert!(!non_default(&"{1,0:T(8,128)}".parse().unwrap(), &[2, 3]));
        assert!(non_default(&"{0,1:T(8,128)}".parse().unwrap(), &[2, 1]));
    }

    #[test]
    fn any_order_converts_to_row_major() {
        let shape = Shape::new(ElementType::U8, [2, 3, 4]);
        let expected: Vec<usize> = (0..24).collect();
        for layout in [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            // Arrange the elements in the order of this layout.
            let mut strides = [0; 3];
            let mut stride = 1;
            for d in layout {
                strides[d] = stride;
                stride *= [2, 3, 4][d];
            }
            let mut data = vec![0; 24];
            for (value, i) in expected.iter().enumerate() {
                data[i / 12 * strides[0] + i / 4 % 3 * strides[1] + i % 4 * strides[2]] = value;
            }
            let layout = order(&layout.map(|d| i64::try_from(d).unwrap()));
            let reorder = Reorder::new(&layout, &shape).unwrap();
            assert_eq!(reorder.apply(&data, 1), expected, "{layout}");
            assert_eq!(reorder.undo(&expected, 1), data, "{layout}");
            let pairs: Vec<usize> = data.iter().flat_map(|i| [*i, *i + 100]).collect();
            let expected: Vec<usize> = expected.iter().flat_map(|i| [*i, *i + 100]).collect();
            assert_eq!(reorder.apply(&pairs, 2), expected, "{layout}");
        }
        let empty = Shape::new(ElementType::U8, [2, 0]);
        assert_eq!(Reorder::new(&order(&[0, 1]), &empty).unwrap().apply::<u8>(&[], 1), []);
        assert!(Reorder::new(&order(&[0, 0]), &empty).is_none());
        assert!(Reorder::new(&order(&[0, 2]), &empty).is_none());
        assert!(Reorder::new(&order(&[0]), &empty).is_none());
    }
}
