//! Element type, extents and device layout of an array.
//!
//! Frameworks number the dimensions of an array in their own order. A backend sees the dimensions in the order of
//! storage, from the slowest varying to the fastest varying. For the backend, the data is therefore always dense and
//! row-major, regardless of the layout that the framework requested. If the default layout has tiles, the backend does
//! the tiling itself.

use std::fmt;
use std::sync::Arc;

use crate::strided::Strided;
use crate::{ElementType, Error, Layout, Result, Shape};

/// Element type, extents and layout of an array. Row-major arrays of at most four dimensions need no allocation, so
/// that copying or comparing them takes only a few instructions.
pub(crate) struct ArrayLayout {
    pub(crate) element_type: ElementType,
    /// Number of extents in `few` if `more` is `None`, else [`Self::MORE`].
    rank: u8,
    /// The extents, padded with zeros, if `more` is `None`. All zero if `more` is set.
    few: [i64; ArrayLayout::FEW],
    /// All extents, and the layout if it is not row-major. Set if the rank exceeds `FEW` or the layout is not
    /// row-major.
    more: Option<Arc<More>>,
}

#[derive(PartialEq)]
struct More {
    dims: Box<[i64]>,
    stored: Option<Stored>,
}

/// A layout other than row-major, with the extents in the order of storage.
#[derive(PartialEq)]
pub(crate) struct Stored {
    pub(crate) layout: Layout,
    /// Extents in the order of storage, slowest varying first.
    dims: Vec<i64>,
    /// Extents of all tiles, concatenated.
    pub(crate) tile_dims: Vec<i64>,
    /// Number of extents of each tile.
    pub(crate) tile_ranks: Vec<usize>,
}

impl Clone for ArrayLayout {
    #[inline]
    fn clone(&self) -> Self {
        // Clone `more` first, and copy the extents one by one. The compiler can then keep them in registers. Otherwise
        // it copies them to the stack first.
        let more = self.more.clone();
        let [first, second, third, fourth] = self.few;
        Self { element_type: self.element_type, rank: self.rank, few: [first, second, third, fourth], more }
    }
}

impl PartialEq for ArrayLayout {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Compares the extents as arrays of a constant length. Comparing slices would call a function, which is slow
        // for so few bytes.
        self.element_type == other.element_type
            && self.rank == other.rank
            && self.few == other.few
            // Equal ranks imply that both layouts have `more` or neither does, because only such layouts have the rank
            // `MORE`.
            && (self.more.is_none() || self.has_same_more(other))
    }
}

impl ArrayLayout {
    const FEW: usize = 4;
    /// The `rank` of a layout with `more`.
    const MORE: u8 = u8::MAX;

    fn with_more(element_type: ElementType, more: More) -> Self {
        Self { element_type, rank: Self::MORE, few: [0; Self::FEW], more: Some(Arc::new(more)) }
    }

    /// Returns whether the `more` fields of both layouts are equal. Not inlined, so that `eq` stays small for arrays
    /// without `more`.
    #[cold]
    #[inline(never)]
    fn has_same_more(&self, other: &Self) -> bool {
        self.more == other.more
    }

    /// Describes a row-major array of this shape.
    pub(crate) fn row_major(shape: &Shape) -> Self {
        let mut new = Self { element_type: shape.element_type, rank: 0, few: [0; Self::FEW], more: None };
        match (new.few.get_mut(..shape.dimensions.len()), u8::try_from(shape.dimensions.len())) {
            (Some(few), Ok(rank)) => {
                few.copy_from_slice(&shape.dimensions);
                new.rank = rank;
            }
            _ => {
                let more = More { dims: shape.dimensions.as_slice().into(), stored: None };
                return Self::with_more(shape.element_type, more);
            }
        }
        new
    }

    /// Describes an array of this shape with this layout.
    pub(crate) fn with_layout(shape: &Shape, layout: Layout) -> Result<Self> {
        let dims = layout.stored_dimensions(&shape.dimensions);
        let dims = dims.ok_or_else(|| {
            Error::argument(format!("the layout {layout} does not list each dimension of {shape} once"))
        })?;
        if layout.is_row_major() {
            return Ok(Self::row_major(shape));
        }
        let (tile_dims, tile_ranks) = (layout.tiles.concat(), layout.tiles.iter().map(Vec::len).collect());
        let stored = Some(Stored { layout, dims, tile_dims, tile_ranks });
        Ok(Self::with_more(shape.element_type, More { dims: shape.dimensions.as_slice().into(), stored }))
    }

    pub(crate) fn dims(&self) -> &[i64] {
        match &self.more {
            None => &self.few[..usize::from(self.rank)],
            Some(more) => &more.dims,
        }
    }

    /// Returns the shape with its dimensions in the framework's order.
    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.element_type, self.dims())
    }

    /// Returns the shape with its dimensions in the order of storage, in which the backend sees them.
    pub(crate) fn stored_shape(&self) -> Shape {
        Shape::new(self.element_type, self.stored().map_or(self.dims(), |stored| &stored.dims))
    }

    /// Returns the layout and the extents in the order of storage, or `None` if the layout is row-major.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        self.more.as_ref()?.stored.as_ref()
    }

    pub(crate) fn to_layout(&self) -> Layout {
        self.stored().map_or_else(|| Layout::row_major(self.dims().len()), |stored| stored.layout.clone())
    }

    /// Returns the layout in XLA's notation. For types narrower than a byte, the notation includes their width in bits.
    pub(crate) fn layout_text(&self) -> String {
        let text = self.to_layout().to_string();
        match self.element_type.bits() {
            bits @ 1..8 => {
                let separator = if text.contains(':') { "" } else { ":" };
                format!("{}{separator}E({bits})}}", text.trim_end_matches('}'))
            }
            _ => text,
        }
    }

    /// Whether an array with this layout can be passed where `other` is expected, because both layouts store the same
    /// bytes in the same order. In a layout without tiles, dimensions of extent 1 do not matter. torch_tpu passes `[1]`
    /// for a scalar, which XLA's devices accept because they compare sizes. Called only if `self` and `other` are not
    /// equal.
    ///
    /// An empty array of booleans is accepted in place of a token. Frameworks cannot upload a token, and JAX passes
    /// such an array as the first token.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_stored_as(&self, other: &Self) -> bool {
        if (self.element_type, other.element_type) == (ElementType::Pred, ElementType::Token) {
            return self.dims().contains(&0);
        }
        let (own, others) = (self.to_layout(), other.to_layout());
        if self.element_type != other.element_type || !own.tiles.is_empty() || !others.tiles.is_empty() {
            return false;
        }
        long(&own, self.dims()) == long(&others, other.dims())
    }

    /// Describes host memory. `byte_strides` contains the stride of each dimension in bytes, in the framework's order
    /// of dimensions. The elements are traversed in the order in which the device stores them.
    pub(crate) fn strided(&self, byte_strides: &[i64]) -> Result<Strided> {
        match self.stored() {
            Some(stored) if byte_strides.len() == self.dims().len() => {
                let order = stored.layout.stored_dimensions(byte_strides);
                // The order was checked when the layout was created.
                Strided::new(&self.stored_shape(), &order.unwrap_or_default())
            }
            _ => Strided::new(&self.shape(), byte_strides),
        }
    }

    /// Describes dense host memory whose dimensions have the order `minor_to_major`, fastest varying first. The
    /// elements are traversed in the order in which the device stores them.
    pub(crate) fn ordered(&self, minor_to_major: &[i64]) -> Result<Strided> {
        self.strided(&Strided::dense_strides(&self.shape(), minor_to_major)?)
    }

    /// Describes dense row-major host memory, whose elements are traversed in the order in which the device stores
    /// them. Returns `None` if the device stores the elements in row-major order, too.
    pub(crate) fn row_major_host(&self) -> Result<Option<Strided>> {
        let Some(stored) = self.stored() else { return Ok(None) };
        let row_major = Layout::row_major(stored.layout.minor_to_major.len());
        Ok(Some(self.ordered(&row_major.minor_to_major)?).filter(|strided| !strided.is_dense()))
    }
}

/// Writes the shape, and the layout if it is not row-major.
impl fmt::Display for ArrayLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape())?;
        self.stored().map_or(Ok(()), |stored| write!(f, "{}", stored.layout))
    }
}

/// Returns the dimensions whose extent is not 1, fastest varying first. Each has its position among these dimensions in
/// the framework's order, and its extent.
fn long(layout: &Layout, dims: &[i64]) -> Vec<(usize, i64)> {
    let position = |at: usize| dims.iter().take(at).filter(|extent| **extent != 1).count();
    let order = layout.minor_to_major.iter().filter_map(|d| usize::try_from(*d).ok());
    let all = order.filter_map(|at| Some((position(at), *dims.get(at)?)));
    all.filter(|(_, extent)| *extent != 1).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn form(dims: &[i64], layout: &str) -> ArrayLayout {
        ArrayLayout::with_layout(&Shape::new(ElementType::F32, dims), layout.parse().unwrap()).unwrap()
    }

    #[test]
    fn backend_dimensions_follow_storage_order() {
        let columns = form(&[2, 3], "{0,1}");
        assert_eq!(columns.shape(), Shape::new(ElementType::F32, [2, 3]));
        assert_eq!(columns.stored_shape(), Shape::new(ElementType::F32, [3, 2]));
        let plain = form(&[2, 3], "{1,0}");
        assert!(plain.stored().is_none() && plain == ArrayLayout::row_major(&plain.shape()));
        assert!(plain != columns && columns == columns.clone());
        let many = form(&[1, 2, 3, 4, 5, 6], "{5,4,3,2,1,0}");
        assert_eq!((many.dims(), many.stored_shape()), (&[1, 2, 3, 4, 5, 6][..], many.shape()));
    }

    #[test]
    fn rejects_invalid_order() {
        let mut messages = String::new();
        for order in ["{0,0}", "{0}", "{2,0}", "{-1,0}", "{}"] {
            let error = ArrayLayout::with_layout(&Shape::new(ElementType::F32, [2, 3]), order.parse().unwrap()).err();
            messages += &format!("{order}: {}\n", error.unwrap().message());
        }
        expect![[r#"
            {0,0}: the layout {0,0} does not list each dimension of f32[2,3] once
            {0}: the layout {0} does not list each dimension of f32[2,3] once
            {2,0}: the layout {2,0} does not list each dimension of f32[2,3] once
            {-1,0}: the layout {-1,0} does not list each dimension of f32[2,3] once
            {}: the layout {} does not list each dimension of f32[2,3] once
        "#]]
        .assert_eq(&messages);
    }

    #[test]
    fn one_element_fits_any_order() {
        assert!(form(&[5, 1], "{0,1}").is_stored_as(&form(&[5, 1], "{1,0}")));
        assert!(!form(&[5, 2], "{0,1}").is_stored_as(&form(&[5, 2], "{1,0}")));
        assert!(form(&[1], "{0}").is_stored_as(&form(&[], "{}")));
        assert!(form(&[5, 2], "{0,1}").is_stored_as(&form(&[5, 1, 2], "{0,2,1}")));
        assert!(!form(&[5, 5], "{0,1}").is_stored_as(&form(&[1, 5, 5], "{2,1,0}")));
        assert!(!form(&[5, 2], "{1,0}").is_stored_as(&form(&[2, 5], "{1,0}")));
        assert!(!form(&[2], "{0}").is_stored_as(&form(&[], "{}")));
        assert!(!form(&[5, 1], "{0,1:T(8)}").is_stored_as(&form(&[5, 1], "{1,0:T(8)}")));
    }

    #[test]
    fn host_strides_follow_storage_order() {
        let columns = form(&[2, 3], "{0,1}");
        let rows: Vec<u8> = (0..6u8).flat_map(|n| [n, 0, 0, 0]).collect();
        let mut stored = vec![0; 24];
        columns.row_major_host().unwrap().unwrap().gather(&rows, &mut stored);
        let first: Vec<u8> = stored.iter().step_by(4).copied().collect();
        assert_eq!(first, [0, 3, 1, 4, 2, 5]);
        let mut back = vec![0; 24];
        columns.ordered(&[1, 0]).unwrap().scatter(&stored, &mut back);
        assert_eq!(back, rows);
        assert!(columns.ordered(&[0, 1]).unwrap().is_dense());
        assert!(form(&[2, 3], "{1,0}").row_major_host().unwrap().is_none());
    }

    #[test]
    fn text_is_that_of_xla() {
        assert_eq!(form(&[2, 3], "{0,1:T(2,1)}").layout_text(), "{0,1:T(2,1)}");
        let narrow = |layout: &str| {
            let shape = Shape::new(ElementType::S4, [2, 3]);
            ArrayLayout::with_layout(&shape, layout.parse().unwrap()).unwrap().layout_text()
        };
        assert_eq!(narrow("{1,0}"), "{1,0:E(4)}");
        assert_eq!(narrow("{0,1:T(8,128)}"), "{0,1:T(8,128)E(4)}");
    }
}
