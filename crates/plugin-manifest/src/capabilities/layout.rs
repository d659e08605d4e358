//! The layout of arrays in the device's memory, and of devices in their mesh.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// The layout that frameworks choose for arrays that they send to the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayoutPolicy {
    /// Row-major: dimensions in descending order, the last one dense.
    #[default]
    Descending,
    /// The device stores arrays of two or more dimensions in tiles of their last two.
    Tiled(Tiling),
}

/// A tile, and the acceptable amount of padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tiling {
    /// Elements of a tile along the last two dimensions; XLA writes `T(8,128)` for `[8, 128]`.
    pub tile: [NonZeroU32; 2],
    /// Frameworks keep the row-major order if padding to whole tiles multiplies the memory by less than this. Otherwise
    /// they put the longest dimensions last. A factor of at least 1.
    pub max_padding: f32,
}

impl LayoutPolicy {
    /// Tiles of `tile` elements along the last two dimensions.
    pub fn tiled(tile: [NonZeroU32; 2], max_padding: f32) -> Self {
        Self::Tiled(Tiling { tile, max_padding })
    }

    /// The order in which to store the dimensions of an array, from minor to major. `None` for row-major, and for arrays of
    /// unknown extents.
    ///
    /// The order depends only on the extents, so that all programs agree about it.
    pub fn minor_to_major(&self, dimensions: &[i64]) -> Option<Vec<usize>> {
        let Self::Tiled(tiling) = self else { return None };
        let extents = dimensions.iter().map(|extent| u64::try_from(*extent).ok()).collect::<Option<Vec<u64>>>()?;
        if tiling.padding(&extents)? < f64::from(tiling.max_padding) {
            return None;
        }
        let row_major = (0..extents.len()).rev();
        let mut order: Vec<usize> = row_major.clone().collect();
        // Equal extents keep their order.
        order.sort_by_key(|dimension| std::cmp::Reverse(extents[*dimension]));
        row_major.ne(order.iter().copied()).then_some(order)
    }
}

impl Tiling {
    /// By how much padding to whole tiles multiplies the memory of a row-major array. `None` for arrays without elements and
    /// of fewer than two dimensions.
    fn padding(&self, extents: &[u64]) -> Option<f64> {
        let [.., rows, columns] = extents else { return None };
        if extents.contains(&0) {
            return None;
        }
        let factor = |extent: u64, tile: NonZeroU32| {
            let tile = f64::from(tile.get());
            let extent = extent as f64;
            (extent / tile).ceil() * tile / extent
        };
        Some(factor(*rows, self.tile[0]) * factor(*columns, self.tile[1]))
    }
}

/// The order in which a collective operation visits the devices of one physical mesh, to follow its physical links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplicaOrder {
    /// The kind of device, as the vendor names the generation: `v5p`.
    pub device_kind: String,
    /// Devices along each coordinate.
    pub bounds: Vec<u32>,
    /// Every device of the mesh once, by its logical number.
    pub order: Vec<u32>,
}

impl ReplicaOrder {
    /// The order for meshes with these bounds.
    pub fn new(device_kind: impl Into<String>, bounds: impl Into<Vec<u32>>, order: impl Into<Vec<u32>>) -> Self {
        Self { device_kind: device_kind.into(), bounds: bounds.into(), order: order.into() }
    }
}

/// How processes find the address of the process with rank 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MasterAddress {
    /// Processes cannot find it, so the user must specify a coordinator.
    #[default]
    Unknown,
    /// Processes query the machine's metadata service, or the other processes through a collective.
    Metadata,
    /// The address is in this environment variable.
    Variable(String),
}
