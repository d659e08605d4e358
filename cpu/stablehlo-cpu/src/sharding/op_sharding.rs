//! The sharding of an array over partitions, in the form that PJRT's C API returns: XLA's `OpSharding`.

use std::fmt;

use prost::Message;

use super::grid::{Axis, AxisSet, Grid, Spec};

/// The sharding of an array over the partitions of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpSharding {
    /// Every partition holds the whole array.
    Replicated,
    /// One partition holds the array. The contents of the array on other partitions do not matter.
    Maximal {
        /// Index of the partition that holds the array.
        partition: i64,
    },
    /// Every partition holds a summand of the whole array.
    Unreduced,
    /// Each dimension is divided into equal parts. If its extent is not a multiple of the number of parts, the extent
    /// of a part is rounded up and the last parts are padded.
    Tiled {
        /// Number of parts along each dimension. If `replicated_last` is set, the number of copies of each part
        /// follows. If `unreduced_last` is set, the number of summands of each part is the last element.
        tiles: Vec<i64>,
        /// The partition at each position of the tiles, in row-major order of `tiles`.
        partitions: Vec<i64>,
        /// Whether `tiles` contains the number of copies.
        replicated_last: bool,
        /// Whether `tiles` contains the number of summands.
        unreduced_last: bool,
    },
}

/// The fields of XLA's `OpSharding` message that this crate writes.
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
    #[prost(int32, repeated, tag = "8")]
    last_tile_dims: Vec<i32>,
}

/// Values of XLA's `OpSharding.Type`.
const REPLICATED: i32 = 0;
const MAXIMAL: i32 = 1;
const OTHER: i32 = 3;
const UNREDUCED: i32 = 6;

impl OpSharding {
    /// Converts a sharding along the axes of `grid`. `spec` contains the axes of each dimension. `unreduced` contains
    /// the axes along which the partitions hold summands.
    pub(crate) fn of(grid: &Grid, spec: &Spec, unreduced: AxisSet) -> Self {
        let cut: Vec<Axis> = spec.iter().flatten().copied().collect();
        let summed = unreduced.axes();
        let copied = grid.all().difference(unreduced).difference(AxisSet::of(&cut)).axes();
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (parts, copies, summands) = (grid.parts(&cut), grid.parts(&copied), grid.parts(&summed));
        match (parts, copies, summands) {
            (1, _, 1) => return Self::Replicated,
            (1, 1, _) => return Self::Unreduced,
            _ => {}
        }
        let mut tiles: Vec<i64> = spec.iter().map(|axes| number(grid.parts(axes))).collect();
        tiles.extend([copies, summands].into_iter().filter(|&n| n > 1).map(number));
        let partitions = grid.assignment(&[cut, copied, summed].concat()).into_iter().map(number).collect();
        Self::Tiled { tiles, partitions, replicated_last: copies > 1, unreduced_last: summands > 1 }
    }

    /// Serializes the sharding as `xla.OpSharding`, for the Shardings extension.
    pub fn to_proto(&self) -> Vec<u8> {
        let message = match self {
            Self::Replicated => OpShardingProto { kind: REPLICATED, ..OpShardingProto::default() },
            Self::Maximal { partition } => OpShardingProto {
                kind: MAXIMAL,
                tile_assignment_dimensions: vec![1],
                tile_assignment_devices: vec![*partition],
                ..OpShardingProto::default()
            },
            Self::Unreduced => OpShardingProto { kind: UNREDUCED, ..OpShardingProto::default() },
            Self::Tiled { tiles, partitions, replicated_last, unreduced_last } => OpShardingProto {
                kind: OTHER,
                tile_assignment_dimensions: tiles.clone(),
                tile_assignment_devices: partitions.clone(),
                replicate_on_last_tile_dim: *replicated_last && !*unreduced_last,
                last_tile_dims: match (*replicated_last, *unreduced_last) {
                    (_, false) => Vec::new(),
                    (false, true) => vec![UNREDUCED],
                    (true, true) => vec![REPLICATED, UNREDUCED],
                },
            },
        };
        message.encode_to_vec()
    }
}

/// Formats the sharding in XLA's text form, as in the attribute `mhlo.sharding`.
impl fmt::Display for OpSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tiles, partitions, replicated, unreduced) = match self {
            Self::Replicated => return f.write_str("{replicated}"),
            Self::Maximal { partition } => return write!(f, "{{maximal device={partition}}}"),
            Self::Unreduced => return f.write_str("{unreduced}"),
            Self::Tiled { tiles, partitions, replicated_last, unreduced_last } => {
                (tiles, partitions, *replicated_last, *unreduced_last)
            }
        };
        let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let last = match (replicated, unreduced) {
            (false, false) => "",
            (true, false) => " last_tile_dim_replicate",
            (false, true) => " last_tile_dims={unreduced}",
            (true, true) => " last_tile_dims={replicated, unreduced}",
        };
        write!(f, "{{devices=[{}]{}{last}}}", list(tiles), list(partitions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xla_encoding() {
        assert_eq!(OpSharding::Replicated.to_proto(), b"");
        assert_eq!(OpSharding::Replicated.to_string(), "{replicated}");
        let maximal = OpSharding::Maximal { partition: 3 };
        assert_eq!(maximal.to_string(), "{maximal device=3}");
        assert_eq!(maximal.to_proto(), [8, 1, 26, 1, 1, 34, 1, 3]);
        assert_eq!(OpSharding::Unreduced.to_proto(), [8, 6]);
        assert_eq!(OpSharding::Unreduced.to_string(), "{unreduced}");
        let tiled = |unreduced_last: bool| OpSharding::Tiled {
            tiles: vec![2, 1, 2],
            partitions: vec![0, 2, 1, 3],
            replicated_last: !unreduced_last,
            unreduced_last,
        };
        let summed = tiled(true);
        assert_eq!(summed.to_string(), "{devices=[2,1,2]0,2,1,3 last_tile_dims={unreduced}}");
        assert_eq!(summed.to_proto(), [8, 3, 26, 3, 2, 1, 2, 34, 4, 0, 2, 1, 3, 66, 1, 6]);
        let tiled = tiled(false);
        assert_eq!(tiled.to_string(), "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}");
        assert_eq!(tiled.to_proto(), [8, 3, 26, 3, 2, 1, 2, 34, 4, 0, 2, 1, 3, 48, 1]);
    }
}
