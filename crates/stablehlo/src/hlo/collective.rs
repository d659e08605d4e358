//! Collectives and their replica groups.

use bytes::Bytes;
use prost::Message;

use super::dimensions::dimension;
use super::proto::{Instruction, IotaReplicaGroups, MeshAxesReplicaGroups, decode};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Maximum number of devices in replica groups in XLA's iota form, such as `[2,4]<=[8]`. It limits the memory for the
/// ids.
const MAX_MEMBERS: usize = 1 << 16;
/// Maximum rank of the device array in the iota form, which may repeat the extent 1 any number of times.
const MAX_RANK: usize = 64;

/// Returns the StableHLO op that corresponds to the instruction.
pub(super) fn kind(i: &Instruction) -> Result<OpKind> {
    let channel = channel(i);
    if i.opcode == "collective-permute" {
        let source_target_pairs = i.source_target_pairs.iter().map(|pair| (pair.source, pair.target)).collect();
        return Ok(OpKind::CollectivePermute { channel, source_target_pairs });
    }
    let groups = groups(i)?;
    let members = groups.first().map_or(0, Vec::len);
    let replica_groups = matrix(&groups)?;
    let use_global_device_ids = i.use_global_device_ids;
    Ok(match i.opcode.as_str() {
        "all-reduce" => OpKind::AllReduce { channel, replica_groups, use_global_device_ids },
        "all-gather" => {
            OpKind::AllGather { all_gather_dim: dimension(i)?, channel, replica_groups, use_global_device_ids }
        }
        "reduce-scatter" => {
            OpKind::ReduceScatter { channel, replica_groups, scatter_dimension: dimension(i)?, use_global_device_ids }
        }
        "all-to-all" => {
            let dimension = dimension(i)?;
            if members == 0 {
                return Err(Error::new(ErrorKind::Encoding, "an all-to-all must state its replica groups"));
            }
            OpKind::AllToAll {
                channel,
                concat_dimension: dimension,
                replica_groups,
                split_count: i64::try_from(members).unwrap_or(i64::MAX),
                split_dimension: dimension,
            }
        }
        _ => OpKind::CollectiveBroadcast { channel, has_dynamic_root: false, replica_groups },
    })
}

fn channel(i: &Instruction) -> ChannelHandle {
    ChannelHandle::new(i.channel_id.max(0))
}

/// Returns an all-to-all op that splits the first dimension into `split_count` slices and concatenates along the same
/// dimension.
pub(super) fn exchange(i: &Instruction, split_count: i64) -> Result<OpKind> {
    let replica_groups = matrix(&groups(i)?)?;
    Ok(OpKind::AllToAll { channel: channel(i), concat_dimension: 0, replica_groups, split_count, split_dimension: 0 })
}

fn groups(i: &Instruction) -> Result<Vec<Vec<i64>>> {
    if let Some(groups) = &i.mesh_axes_replica_groups {
        return expand(&along_axes(groups)?);
    }
    if let Some(iota) = &i.iota_collective_device_list {
        return expand(iota);
    }
    let listed = match &i.collective_device_list {
        Some(list) => match &list.iota {
            Some(iota) => return expand(iota),
            None => &list.replica_groups,
        },
        None => &i.replica_groups,
    };
    let listed = if listed.is_empty() { &i.replica_groups } else { listed };
    Ok(listed.iter().map(|group| group.replica_ids.clone()).collect())
}

/// Converts replica groups along axes of a mesh to the iota form. The transposition moves the axes of the groups to the
/// end.
fn along_axes(encoded: &Bytes) -> Result<IotaReplicaGroups> {
    let groups: MeshAxesReplicaGroups = decode(encoded.clone())?;
    if groups.encoded_len() != encoded.len() {
        let error = "replica groups by parts of axes, or of devices in an order of their own, cannot be read; send the \
                     program as StableHLO";
        return Err(Error::new(ErrorKind::Encoding, error));
    }
    let reshape_dims: Vec<i64> = groups.mesh.iter().flat_map(|mesh| &mesh.axes).map(|axis| axis.size).collect();
    let count = i32::try_from(reshape_dims.len())
        .map_err(|_| Error::new(ErrorKind::Limit, "the mesh of the replica groups has too many axes"))?;
    let within: Vec<i32> = groups.axes.iter().filter_map(|axis| i32::try_from(axis.index).ok()).collect();
    let across = (0..count).filter(|axis| !within.contains(axis));
    let size = |axis: &i32| usize::try_from(*axis).ok().and_then(|axis| reshape_dims.get(axis)).copied();
    let product = |of: Vec<i32>| {
        let product = of.iter().try_fold(1i64, |product, axis| product.checked_mul(size(axis)?));
        product
            .ok_or_else(|| Error::new(ErrorKind::Encoding, "the replica groups name axes that the mesh does not have"))
    };
    let (groups, devices_per_group) = (product(across.clone().collect())?, product(within.clone())?);
    let transpose_perm = across.chain(within.iter().copied()).collect();
    Ok(IotaReplicaGroups { groups, devices_per_group, reshape_dims, transpose_perm })
}

/// Returns the device ids of each replica group in the iota form. Reshapes the list of all ids to an array, transposes
/// the array, and splits it into groups of equal size.
fn expand(iota: &IotaReplicaGroups) -> Result<Vec<Vec<i64>>> {
    let wrong = || Error::new(ErrorKind::Encoding, "the numbers of the compact replica groups contradict each other");
    let size = |n: i64| usize::try_from(n).ok().filter(|&n| n > 0).ok_or_else(wrong);
    let (groups, each) = (size(iota.groups)?, size(iota.devices_per_group)?);
    let total = groups.checked_mul(each).filter(|&n| n <= MAX_MEMBERS).ok_or_else(wrong)?;
    let extents = iota.reshape_dims.iter().map(|&n| size(n)).collect::<Result<Vec<_>>>()?;
    let rank = extents.len();
    let product = extents.iter().try_fold(1usize, |product, &n| product.checked_mul(n)).ok_or_else(wrong)?;
    if product != total || iota.transpose_perm.len() != rank || rank > MAX_RANK {
        return Err(wrong());
    }
    let mut strides = vec![1; rank];
    for d in (0..rank.saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * extents[d + 1];
    }
    let mut order = Vec::with_capacity(rank);
    for &d in &iota.transpose_perm {
        let d = usize::try_from(d).ok().filter(|d| *d < rank && !order.contains(d)).ok_or_else(wrong)?;
        order.push(d);
    }
    let member = |position: usize| {
        let (mut rest, mut id) = (position, 0);
        for &d in order.iter().rev() {
            id += rest % extents[d] * strides[d];
            rest /= extents[d];
        }
        i64::try_from(id).unwrap_or(i64::MAX)
    };
    let ids: Vec<i64> = (0..total).map(member).collect();
    Ok(ids.chunks(each).map(<[i64]>::to_vec).collect())
}

/// Creates a matrix with one row of ids for each group. Rejects groups whose sizes differ so much that the padding
/// takes too much memory.
fn matrix(rows: &[Vec<i64>]) -> Result<ReplicaGroups> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    if rows.len().saturating_mul(columns) > MAX_MEMBERS.max(4 * rows.iter().map(Vec::len).sum::<usize>()) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the sizes of the replica groups differ too much; use groups of similar sizes",
        ));
    }
    Ok(ReplicaGroups::listed(rows))
}
