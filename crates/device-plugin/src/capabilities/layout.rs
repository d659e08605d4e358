//! How arrays lie in the device's memory, and devices in their mesh.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Which layout frameworks give the arrays they send to the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayoutPolicy {
    /// Row-major: dimensions in descending order, the last one dense.
    #[default]
    Descending,
    /// The device stores arrays of two and more dimensions in tiles of their last two.
    Tiled(Tiling),
}

/// A tile, and how much padding to it is acceptable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tiling {
    /// Elements of a tile along the last but one and the last dimension; XLA writes `T(8,128)` for `[8, 128]`.
    pub tile: [NonZeroU32; 2],
    /// Frameworks keep the row-major order while padding to whole tiles multiplies the memory by less than this, and
    /// else put the longest dimensions last. A factor of at least 1.
    pub max_padding: f32,
}

impl LayoutPolicy {
    /// Tiles of that many elements along the last but one and the last dimension.
    pub fn tiled(tile: [NonZeroU32; 2], max_padding: f32) -> Self {
        Self::Tiled(Tiling { tile, max_padding })
    }
}

/// The order in which a collective operation visits the devices of one physical mesh, so that it follows the wires.
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
    /// The order for meshes of those bounds.
    pub fn new(device_kind: impl Into<String>, bounds: impl Into<Vec<u32>>, order: impl Into<Vec<u32>>) -> Self {
        Self { device_kind: device_kind.into(), bounds: bounds.into(), order: order.into() }
    }
}

/// How the address of the process with rank 0 is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MasterAddress {
    /// It is not; the user has to name a coordinator.
    #[default]
    Unknown,
    /// By asking the machine's metadata service, or the other processes through a collective.
    Metadata,
    /// From this environment variable.
    Variable(String),
}
