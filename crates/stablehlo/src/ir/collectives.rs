//! Attributes of collectives.

use super::literal::Literal;
use super::types::{ElementType, TensorType};

/// Groups of the devices that participate in a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaGroups {
    /// Matrix of 64-bit integers with one row of ids for each group. Short rows are padded with -1. A matrix without
    /// elements represents one group of all devices.
    Ids(Literal),
    /// Groups along the axes of a mesh, as the MLIR text `#stablehlo.replica_group_mesh_axes<...>`.
    Mesh(String),
}

impl ReplicaGroups {
    /// Creates groups from the ids of each group. Pads short groups with -1.
    ///
    /// ```
    /// use stablehlo::ir::ReplicaGroups;
    ///
    /// let groups = ReplicaGroups::listed(&[vec![0, 2], vec![1]]);
    /// assert_eq!(groups.rows(), Some(vec![vec![0, 2], vec![1]]));
    /// ```
    #[must_use]
    pub fn listed<R: AsRef<[i64]>>(groups: &[R]) -> Self {
        let columns = groups.iter().map(|group| group.as_ref().len()).max().unwrap_or(0);
        let padded = |group: &R| {
            let ids = group.as_ref().iter().copied();
            ids.chain(std::iter::repeat(-1)).take(columns).collect::<Vec<_>>()
        };
        let data: Vec<u8> = groups.iter().flat_map(padded).flat_map(i64::to_le_bytes).collect();
        let extent = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let ty = TensorType::new([extent(groups.len()), extent(columns)], ElementType::I64);
        Self::Ids(Literal { ty, data: data.into(), splat: false })
    }

    /// Returns the ids of each group, without padding. Returns `None` for groups along the axes of a mesh, or if the
    /// attribute is not a matrix of integers.
    #[must_use]
    pub fn rows(&self) -> Option<Vec<Vec<i64>>> {
        let Self::Ids(literal) = self else { return None };
        let &[_, columns] = &literal.ty.shape[..] else { return None };
        let ids = literal.integers()?;
        let columns = usize::try_from(columns).ok()?;
        if columns == 0 {
            return Some(Vec::new());
        }
        let row = |row: &[i64]| row.iter().copied().filter(|&id| id != -1).collect();
        Some(ids.chunks(columns).map(row).collect())
    }
}

/// Channel over which devices communicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelHandle {
    /// Id of the channel, or 0 if the op does not use a channel.
    pub id: i64,
    /// 1 for a channel between devices, 2 from a device to the host, 3 from the host to a device, and 0 if the type is
    /// unspecified. Portable artifacts store this field only for `send` and `recv`.
    pub channel_type: i64,
}

impl ChannelHandle {
    /// Creates a channel with this id and an unspecified type.
    #[must_use]
    pub fn new(id: i64) -> Self {
        Self { id, channel_type: 0 }
    }
}
