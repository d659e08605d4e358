//! Decoding of replica groups and source-target pairs.

use stablehlo::ir::{Binary, ChannelHandle, Module, OpKind, ReplicaGroups};
use stablehlo::{Result, VerifyLevel};
use stablehlo_passes::{replica_groups, source_target_pairs};

fn module() -> Module {
    let text = "sdy.mesh @m = <[\"x\"=2, \"y\"=2]>
        func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }";
    stablehlo::parse(text, VerifyLevel::FULL).expect("a valid program")
}

fn all_reduce(groups: ReplicaGroups, channel: i64, use_global_device_ids: bool) -> OpKind {
    OpKind::AllReduce { channel: ChannelHandle::new(channel), replica_groups: groups, use_global_device_ids }
}

fn broadcast(groups: &[&[i64]]) -> OpKind {
    let (channel, replica_groups) = (ChannelHandle::new(1), ReplicaGroups::listed(groups));
    OpKind::CollectiveBroadcast { channel, has_dynamic_root: false, replica_groups }
}

fn permute(pairs: &[(i64, i64)], channel: i64) -> OpKind {
    OpKind::CollectivePermute { channel: ChannelHandle::new(channel), source_target_pairs: pairs.to_vec() }
}

fn listed(groups: &[&[i64]]) -> ReplicaGroups {
    ReplicaGroups::listed(groups)
}

/// Decodes the groups for two replicas of two partitions.
fn groups(op: &OpKind) -> Result<Vec<Vec<usize>>> {
    replica_groups(&module(), op, 2, 2)
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.expect_err("the attributes are invalid").message().to_owned()
}

#[test]
fn four_strategies() {
    let of = |lists: &[&[i64]], channel, global| groups(&all_reduce(listed(lists), channel, global)).unwrap();
    assert_eq!(of(&[&[1, 0]], 0, false), [[2, 0], [3, 1]]);
    assert_eq!(of(&[&[0], &[1]], 1, false), [[0, 1], [2, 3]]);
    assert_eq!(of(&[&[0, 1]], 1, false), [[0, 2, 1, 3]]);
    assert_eq!(of(&[&[0, 3], &[2, 1]], 1, true), [[0, 3], [2, 1]]);
    assert_eq!(groups(&broadcast(&[&[1, 0]])).unwrap(), [[1, 0], [3, 2]]);
}

#[test]
fn reduce_has_partitions_by_default() {
    let reduce = |use_global_device_ids| {
        let (channel, replica_groups) = (ChannelHandle::new(1), listed(&[&[1, 0]]));
        groups(&OpKind::CollectiveReduce { channel, has_dynamic_root: false, replica_groups, use_global_device_ids })
    };
    assert_eq!(reduce(false).unwrap(), [[1, 0], [3, 2]]);
    assert_eq!(reduce(true).unwrap(), [[1, 0]]);
}

#[test]
fn no_groups_mean_one_group() {
    assert_eq!(groups(&all_reduce(listed(&[]), 1, true)).unwrap(), [[0, 1, 2, 3]]);
    assert_eq!(groups(&all_reduce(listed(&[]), 0, false)).unwrap(), [[0, 2], [1, 3]]);
}

#[test]
fn missing_members() {
    // Groups of single members may leave out members. Groups of other executions are ignored.
    assert_eq!(groups(&all_reduce(listed(&[&[1]]), 1, true)).unwrap(), [[1], [0], [2], [3]]);
    assert_eq!(groups(&all_reduce(listed(&[&[0, 1], &[2, 3], &[4, 5]]), 1, true)).unwrap(), [[0, 1], [2, 3]]);
    assert_eq!(groups(&broadcast(&[&[1]])).unwrap(), [[1], [3]]);
    let partial = groups(&all_reduce(listed(&[&[0, 1]]), 1, true));
    assert_eq!(message(partial), "member 2 of the launch's 4 is in no group");
}

#[test]
fn mesh_axes() {
    let axes = |name: &str| {
        let axis = format!("#stablehlo.axis_ref<name = \"{name}\">");
        ReplicaGroups::Mesh(format!("#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [{axis}]>"))
    };
    assert_eq!(groups(&all_reduce(axes("x"), 1, true)).unwrap(), [[0, 2], [1, 3]]);
    assert_eq!(message(groups(&all_reduce(axes("z"), 1, true))), "mesh @m has no axis \"z\"");
}

#[test]
fn invalid_groups() {
    let of = |lists: &[&[i64]], channel, global| message(groups(&all_reduce(listed(lists), channel, global)));
    assert_eq!(of(&[&[0, 2]], 0, false), "a group contains 2, but the launch has only 2 replicas");
    assert_eq!(of(&[&[0, 1], &[1, 2, 3]], 1, true), "member 1 is in two groups");
    assert_eq!(of(&[&[0, 1]], 0, true), "use_global_device_ids without a channel id");
    assert_eq!(of(&[&[0, -2]], 1, true), "attribute `replica_groups` must be a matrix of ids");
    assert_eq!(message(groups(&OpKind::Binary(Binary::Add))), "the op has no replica groups");
    let many = replica_groups(&module(), &broadcast(&[]), usize::MAX, 2);
    assert!(message(many).ends_with("replicas of 2 partitions; the most is 1048576 devices"));
}

#[test]
fn pairs() {
    let pairs = |pairs, channel| source_target_pairs(&permute(pairs, channel), 2, 2);
    assert_eq!(pairs(&[(0, 1), (1, 0)], 1).unwrap(), [(0, 1), (1, 0), (2, 3), (3, 2)]);
    assert_eq!(pairs(&[(1, 0)], 0).unwrap(), [(2, 0), (3, 1)]);
    assert_eq!(pairs(&[], 0).unwrap(), []);
    assert_eq!(message(pairs(&[(0, 1), (1, 1)], 0)), "a source or a target is named twice");
    assert_eq!(message(pairs(&[(0, -1)], 0)), "source_target_pairs contains the id -1");
    assert_eq!(message(pairs(&[(0, 2)], 1)), "a group contains 2, but the launch has only 2 partitions");
    let other = source_target_pairs(&broadcast(&[]), 2, 2);
    assert_eq!(message(other), "the op has no source-target pairs");
}
