//! The layout of arrays that frameworks send to a device.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// The layout that frameworks choose for arrays that they send to the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayoutPolicy {
    /// Row-major order, in which the last dimension is the most minor one.
    #[default]
    Descending,
    /// The device stores arrays of two or more dimensions in tiles of the last two dimensions.
    Tiled {
        /// Extents of a tile along the last two dimensions. XLA writes `[8, 128]` as `T(8,128)`.
        tile: [NonZeroU32; 2],
        /// Limit of the padding factor, at least 1. Frameworks keep the row-major order if padding to whole tiles
        /// multiplies the memory by less than this factor. Otherwise they order the dimensions by extent, and the
        /// longest one becomes the most minor one.
        max_padding: f32,
    },
}

impl LayoutPolicy {
    /// Returns the order in which frameworks should store the dimensions of an array, from minor to major. Returns
    /// `None` for the row-major order, and for arrays with unknown extents.
    ///
    /// The order depends only on the extents, so that all programs use the same order for arrays of the same shape.
    pub fn minor_to_major(&self, dimensions: &[i64]) -> Option<Vec<usize>> {
        let Self::Tiled { tile, max_padding } = self else { return None };
        let extents = dimensions.iter().map(|extent| u64::try_from(*extent).ok()).collect::<Option<Vec<u64>>>()?;
        if padding(*tile, &extents)? < f64::from(*max_padding) {
            return None;
        }
        let row_major = (0..extents.len()).rev();
        let mut order: Vec<usize> = row_major.clone().collect();
        // The sort is stable, so dimensions of equal extent stay in row-major order.
        order.sort_by_key(|dimension| std::cmp::Reverse(extents[*dimension]));
        row_major.ne(order.iter().copied()).then_some(order)
    }
}

/// Returns the factor by which padding to whole tiles multiplies the memory of a row-major array. Returns `None` for
/// arrays without elements and for arrays of fewer than two dimensions.
fn padding(tile: [NonZeroU32; 2], extents: &[u64]) -> Option<f64> {
    let [.., rows, columns] = extents else { return None };
    if extents.contains(&0) {
        return None;
    }
    let factor = |extent: u64, tile: NonZeroU32| {
        let tile = f64::from(tile.get());
        let extent = extent as f64;
        (extent / tile).ceil() * tile / extent
    };
    Some(factor(*rows, tile[0]) * factor(*columns, tile[1]))
}
