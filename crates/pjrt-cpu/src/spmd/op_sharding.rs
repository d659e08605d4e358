//! How an array is spread over partitions, in the form the C API hands out: XLA's `OpSharding`.

use std::fmt;

use prost::Message;

use super::grid::{Axis, Grid, Spec};

/// How an array is spread over the partitions of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpSharding {
    /// Every partition holds all of it.
    Replicated,
    /// One partition holds it; what the others hold does not matter.
    Maximal {
        /// That partition.
        partition: i64,
    },
    /// Each dimension is cut into equal parts. If its extent is not a multiple of their number, the extent of a part is
    /// rounded up and the last parts are padded.
    Tiled {
        /// Parts along each dimension, then, if `replicated_last`, the number of copies of each part.
        tiles: Vec<i64>,
        /// The partition that holds each part, row-major over `tiles`.
        partitions: Vec<i64>,
        /// Whether `tiles` has that last entry.
        replicated_last: bool,
    },
}

/// The fields of XLA's message this device writes.
#[derive(Clone, PartialEq, Message)]
struct OpShardingProto {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(int64, repeated, tag = "3")]
    tile_assignment_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    tile_assignment_devices: Vec<i64>,
    #[prost(bool, tag = "6")]
    replicate_on_last_tile_dim: bool,
}

/// XLA's numbers of `OpSharding.Type`.
const REPLICATED: i32 = 0;
const MAXIMAL: i32 = 1;
const OTHER: i32 = 3;

impl OpSharding {
    /// What a cut of a tensor is called outside.
    pub(super) fn of(grid: &Grid, spec: &Spec) -> Self {
        let axes: Vec<Axis> = spec.iter().flatten().copied().collect();
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (parts, all) = (grid.parts(&axes), grid.order.len());
        if parts <= 1 {
            return Self::Replicated;
        }
        let mut tiles: Vec<i64> = spec.iter().map(|axes| number(grid.parts(axes))).collect();
        if parts < all {
            tiles.push(number(all / parts));
        }
        let partitions = grid.assignment(&axes).into_iter().map(number).collect();
        Self::Tiled { tiles, partitions, replicated_last: parts < all }
    }

    /// The serialized `xla.OpSharding`, as the Shardings extension hands it out.
    pub fn to_proto(&self) -> Vec<u8> {
        let message = match self {
            Self::Replicated => OpShardingProto { kind: REPLICATED, ..OpShardingProto::default() },
            Self::Maximal { partition } => OpShardingProto {
                kind: MAXIMAL,
                tile_assignment_dimensions: vec![1],
                tile_assignment_devices: vec![*partition],
                replicate_on_last_tile_dim: false,
            },
            Self::Tiled { tiles, partitions, replicated_last } => OpShardingProto {
                kind: OTHER,
                tile_assignment_dimensions: tiles.clone(),
                tile_assignment_devices: partitions.clone(),
                replicate_on_last_tile_dim: *replicated_last,
            },
        };
        message.encode_to_vec()
    }
}

/// XLA's text form, as `mhlo.sharding` holds it.
impl fmt::Display for OpSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tiles, partitions, replicated_last) = match self {
            Self::Replicated => return f.write_str("{replicated}"),
            Self::Maximal { partition } => return write!(f, "{{maximal device={partition}}}"),
            Self::Tiled { tiles, partitions, replicated_last } => (tiles, partitions, replicated_last),
        };
        let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let last = if *replicated_last { " last_tile_dim_replicate" } else { "" };
        write!(f, "{{devices=[{}]{}{last}}}", list(tiles), list(partitions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_xla_reads_it() {
        assert_eq!(OpSharding::Replicated.to_proto(), b"");
        assert_eq!(OpSharding::Replicated.to_string(), "{replicated}");
        let maximal = OpSharding::Maximal { partition: 3 };
        assert_eq!(maximal.to_string(), "{maximal device=3}");
        assert_eq!(maximal.to_proto(), [8, 1, 26, 1, 1, 34, 1, 3]);
        let tiled = OpSharding::Tiled { tiles: vec![2, 1, 2], partitions: vec![0, 2, 1, 3], replicated_last: true };
        assert_eq!(tiled.to_string(), "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}");
        assert_eq!(tiled.to_proto(), [8, 3, 26, 3, 2, 1, 2, 34, 4, 0, 2, 1, 3, 48, 1]);
    }
}
