//! Decodes the replica groups and the source-target pairs of collectives.

use stablehlo::ir::{Module, OpKind, ReplicaGroups};
use stablehlo::{Error, ErrorKind, Result};

use crate::mesh_groups::{MAX_DEVICES, mesh_groups};

/// The devices of an execution, and the strategies by which collectives group them.
struct Devices {
    replicas: usize,
    partitions: usize,
}

/// Meaning of the ids in a list. The variants have the names that the StableHLO specification uses.
#[derive(Clone, Copy)]
enum Strategy {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

impl Devices {
    /// A count of zero is treated as one.
    fn new(replicas: usize, partitions: usize) -> Result<Self> {
        let (replicas, partitions) = (replicas.max(1), partitions.max(1));
        match replicas.checked_mul(partitions) {
            Some(count) if count <= MAX_DEVICES => Ok(Self { replicas, partitions }),
            _ => Err(invalid(format!(
                "{replicas} replicas of {partitions} partitions; the most is {MAX_DEVICES} devices"
            ))),
        }
    }

    fn count(&self) -> usize {
        self.replicas * self.partitions
    }

    /// Returns the number of ids of a strategy, and a plural noun for what they identify.
    fn ids(&self, strategy: Strategy) -> (usize, &'static str) {
        match strategy {
            Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => (self.replicas, "replicas"),
            Strategy::CrossPartition => (self.partitions, "partitions"),
            Strategy::FlattenedIds => (self.count(), "members"),
        }
    }

    /// Converts lists of ids to lists of flattened ids.
    fn flatten(&self, lists: &[Vec<usize>], strategy: Strategy) -> Result<Vec<Vec<usize>>> {
        let (count, what) = self.ids(strategy);
        if let Some(id) = lists.iter().flatten().find(|id| **id >= count) {
            return Err(invalid(format!("a group contains {id}, but the launch has only {count} {what}")));
        }
        let flat = |replica: usize, partition: usize| replica * self.partitions + partition;
        Ok(match strategy {
            Strategy::CrossReplica => (0..self.partitions)
                .flat_map(|p| lists.iter().map(move |list| list.iter().map(|&r| flat(r, p)).collect()))
                .collect(),
            Strategy::CrossPartition => (0..self.replicas)
                .flat_map(|r| lists.iter().map(move |list| list.iter().map(|&p| flat(r, p)).collect()))
                .collect(),
            Strategy::CrossReplicaAndPartition => lists
                .iter()
                .map(|list| (0..self.partitions).flat_map(|p| list.iter().map(move |&r| flat(r, p))).collect())
                .collect(),
            Strategy::FlattenedIds => lists.to_vec(),
        })
    }
}

/// Returns the groups of a collective in an execution on `replicas * partitions` devices, as lists of flattened ids.
/// The flattened id of a device is `replica * partitions + partition`. Each device is in at most one group.
///
/// The channel and the attribute `use_global_device_ids` select one of the four strategies of the StableHLO
/// specification. An op without groups has one group of all devices. Groups without a device of the execution are
/// ignored, because programs may also list groups of other executions. If every group of an op other than
/// `collective_broadcast` and `collective_reduce` has one device, each other device gets a group of its own. XLA
/// removes such collectives, so they may leave out devices.
///
/// ```
/// # use stablehlo::VerifyLevel;
/// let module = stablehlo::parse("func.func @main(%x: tensor<f32>) -> tensor<f32> {
///   %0 = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
///     ^bb0(%a: tensor<f32>, %b: tensor<f32>):
///       %s = stablehlo.add %a, %b : tensor<f32>
///       stablehlo.return %s : tensor<f32>
///   }) : (tensor<f32>) -> tensor<f32>
///   return %0 : tensor<f32>
/// }", VerifyLevel::FULL)?;
/// let all_reduce = &module.funcs[0].body.ops[0].kind;
/// // Without a channel, the ids are those of replicas.
/// assert_eq!(stablehlo_passes::replica_groups(&module, all_reduce, 2, 2)?, [[0, 2], [1, 3]]);
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the op has no replica groups, if a group mixes devices of the execution with others, if a device
/// is in two groups, or if groups along the axes of a mesh do not match the mesh. All ops except `collective_broadcast`
/// and `collective_reduce` must contain each device in a group.
pub fn replica_groups(module: &Module, op: &OpKind, replicas: usize, partitions: usize) -> Result<Vec<Vec<usize>>> {
    let devices = Devices::new(replicas, partitions)?;
    let groups = op.replica_groups().ok_or_else(|| invalid("the op has no replica groups"))?;
    // Unlike in `all_reduce`, the groups of a `collective_reduce` with a channel consist of partitions by default.
    let (global, covers) = match op {
        OpKind::AllGather { use_global_device_ids, .. }
        | OpKind::AllReduce { use_global_device_ids, .. }
        | OpKind::ReduceScatter { use_global_device_ids, .. } => (Some(*use_global_device_ids), true),
        OpKind::CollectiveReduce { use_global_device_ids, .. } => (use_global_device_ids.then_some(true), false),
        OpKind::CollectiveBroadcast { .. } => (None, false),
        _ => (None, true),
    };
    let strategy = match (op.channel().is_some_and(|channel| channel.id > 0), global) {
        (true, Some(true)) => Strategy::FlattenedIds,
        (true, Some(false)) => Strategy::CrossReplicaAndPartition,
        (true, None) => Strategy::CrossPartition,
        (false, None | Some(false)) => Strategy::CrossReplica,
        (false, Some(true)) => return Err(invalid("use_global_device_ids without a channel id")),
    };
    let count = devices.ids(strategy).0;
    let mut lists = match groups {
        ReplicaGroups::Mesh(text) => mesh_groups(text, module)?,
        ids => rows(ids)?,
    };
    if lists.iter().all(Vec::is_empty) {
        lists = vec![(0..count).collect()];
    }
    lists.retain(|list| !list.is_empty());
    let single = lists.iter().all(|list| list.len() == 1);
    lists.retain(|list| list.iter().any(|&id| id < count));
    if single && covers {
        let others = (0..count).filter(|id| !lists.iter().flatten().any(|own| own == id)).map(|id| vec![id]);
        let others: Vec<Vec<usize>> = others.collect();
        lists.extend(others);
    }
    let groups = devices.flatten(&lists, strategy)?;
    let mut seen = vec![false; devices.count()];
    for &id in groups.iter().flatten() {
        if std::mem::replace(&mut seen[id], true) {
            return Err(invalid(format!("member {id} is in two groups")));
        }
    }
    match seen.iter().position(|seen| !seen).filter(|_| covers) {
        Some(id) => Err(invalid(format!("member {id} of the launch's {} is in no group", seen.len()))),
        None => Ok(groups),
    }
}

/// Returns the ids of each group.
fn rows(groups: &ReplicaGroups) -> Result<Vec<Vec<usize>>> {
    let wrong = || invalid("attribute `replica_groups` must be a matrix of ids");
    let row = |row: Vec<i64>| row.into_iter().map(|id| usize::try_from(id).map_err(|_| wrong())).collect();
    groups.rows().ok_or_else(wrong)?.into_iter().map(row).collect()
}

/// Returns the pairs of a `collective_permute` in an execution on `replicas * partitions` devices, as the flattened ids
/// of the source and the target. With a channel, the pairs of the op apply to the partitions of each replica. Without
/// a channel, they apply to the replicas of each partition. The result contains all pairs of the first replica or
/// partition, followed by those of the next one.
///
/// The result of a device that is not the target of a pair is filled with zeros.
///
/// # Errors
///
/// Returns an error if the op is not a `collective_permute`, if an id is out of range, or if two pairs have the same
/// source or the same target.
pub fn source_target_pairs(op: &OpKind, replicas: usize, partitions: usize) -> Result<Vec<(usize, usize)>> {
    let OpKind::CollectivePermute { channel, source_target_pairs } = op else {
        return Err(invalid("the op has no source-target pairs"));
    };
    let id = |id: i64| usize::try_from(id).map_err(|_| invalid(format!("source_target_pairs contains the id {id}")));
    let pairs = source_target_pairs.iter().map(|&(source, target)| Ok(vec![id(source)?, id(target)?]));
    let pairs: Vec<Vec<usize>> = pairs.collect::<Result<_>>()?;
    let repeats = |end: usize| {
        let mut ends: Vec<usize> = pairs.iter().map(|pair| pair[end]).collect();
        ends.sort_unstable();
        ends.windows(2).any(|two| two[0] == two[1])
    };
    if repeats(0) || repeats(1) {
        return Err(invalid("a source or a target is named twice"));
    }
    let strategy = if channel.id > 0 { Strategy::CrossPartition } else { Strategy::CrossReplica };
    let pairs = Devices::new(replicas, partitions)?.flatten(&pairs, strategy)?;
    Ok(pairs.into_iter().map(|pair| (pair[0], pair[1])).collect())
}

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Attribute, message)
}
