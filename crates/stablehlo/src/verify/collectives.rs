//! Rules of collectives.

use std::collections::HashSet;

use super::asynchronous;
use super::control::region_reduces;
use super::shapes::{agree, tensors, within};
use super::site::{Site, ensure};
use super::slot::Slot;
use super::string_attributes::field;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Set of ids that the replica groups must contain.
#[derive(Clone, Copy, PartialEq)]
enum Groups {
    /// Any ids.
    Subset,
    /// All ids from 0 up to the largest id.
    All,
    /// All ids from 0 up to the largest id, in groups of equal size.
    AllOfOneSize,
}

/// A collective, and the attributes that most collectives have.
struct Rules<'s, 'a> {
    site: &'s Site<'a>,
    channel: ChannelHandle,
    /// Attribute `use_global_device_ids`.
    global: bool,
    /// Number of operands after the data operands: 1 if the root is dynamic, and 0 otherwise.
    roots: usize,
}

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    let rules = |channel: &ChannelHandle, global: &bool, root: &bool| Rules {
        site,
        channel: *channel,
        global: *global,
        roots: usize::from(*root),
    };
    match &site.op.kind {
        OpKind::AllGather { all_gather_dim, channel, replica_groups, use_global_device_ids } => {
            rules(channel, use_global_device_ids, &false).all_gather(replica_groups, *all_gather_dim)
        }
        OpKind::AllReduce { channel, replica_groups, use_global_device_ids } => {
            rules(channel, use_global_device_ids, &false).all_reduce(replica_groups)
        }
        OpKind::ReduceScatter { channel, replica_groups, scatter_dimension, use_global_device_ids } => {
            rules(channel, use_global_device_ids, &false).reduce_scatter(replica_groups, *scatter_dimension)
        }
        OpKind::AllToAll { channel, concat_dimension, replica_groups, split_count, split_dimension } => {
            let rules = rules(channel, &false, &false);
            rules.all_to_all(replica_groups, [*split_dimension, *concat_dimension], *split_count)
        }
        OpKind::CollectivePermute { channel, source_target_pairs } => {
            distinct_ends(source_target_pairs)?;
            rules(channel, &false, &false).same_shapes()
        }
        OpKind::CollectiveBroadcast { channel, has_dynamic_root, replica_groups } => {
            let rules = rules(channel, &false, has_dynamic_root);
            rules.groups(replica_groups, Groups::Subset)?;
            rules.root()?;
            rules.same_shapes()
        }
        OpKind::CollectiveReduce { channel, has_dynamic_root, replica_groups, use_global_device_ids } => {
            let rules = rules(channel, use_global_device_ids, has_dynamic_root);
            rules.groups(replica_groups, Groups::Subset)?;
            rules.root()?;
            for result in 0..rules.result_count(site.op.operands.len() - rules.roots) {
                let (operand, slot) = tensors!(site.operand_tensor(result), site.slot(result));
                slot.element_may_be(operand.element);
                slot.shape_is(&operand.shape)?;
            }
            rules.reduces()
        }
        OpKind::CrossReplicaSum { replica_groups } => {
            let rules = rules(&ChannelHandle::default(), &false, &false);
            rules.groups(replica_groups, Groups::All)?;
            rules.same_shapes()
        }
        OpKind::AsyncStart => asynchronous::start(site),
        OpKind::AsyncDone => asynchronous::done(site),
        _ => Ok(()),
    }
}

/// Checks that each id is nonnegative, and that each id is the source of at most one pair and the target of at most one
/// pair.
fn distinct_ends(pairs: &[(i64, i64)]) -> Result<()> {
    let (mut sources, mut targets) = (HashSet::new(), HashSet::new());
    for &(source, target) in pairs {
        for (id, name, seen) in [(source, "source", &mut sources), (target, "target", &mut targets)] {
            ensure!(Attribute, id >= 0, "attribute `source_target_pairs` holds the negative id {id}");
            ensure!(Attribute, seen.insert(id), "id {id} is a {name} twice in `source_target_pairs`");
        }
    }
    Ok(())
}

impl<'a> Rules<'_, 'a> {
    /// Returns the number of results, or `wanted` if the result types are inferred.
    fn result_count(&self, wanted: usize) -> usize {
        if self.site.wanted.is_some() { wanted } else { self.site.op.results.len() }
    }

    /// Checks that the reducer takes two scalars. Skips the check during inference, which derives the result types from
    /// the reducer.
    fn reduces(&self) -> Result<()> {
        if self.site.wanted.is_some() { Ok(()) } else { region_reduces(self.site, 0, 1) }
    }

    /// Checks that the op has as many results as operands, and at least one. Returns each operand with its result,
    /// except for operands and results whose types the IR keeps as text.
    fn pairs(&self) -> Result<Vec<(&'a TensorType, Slot<'a>)>> {
        let op = self.site.op;
        ensure!(
            Structure,
            op.operands.len() == self.result_count(op.operands.len()) && !op.operands.is_empty(),
            "must have as many results as operands, and at least one"
        );
        let mut pairs = Vec::with_capacity(op.operands.len());
        for i in 0..op.operands.len() {
            if let (Some(operand), Some(result)) = (self.site.operand_tensor(i)?, self.site.slot(i)?) {
                pairs.push((operand, result));
            }
        }
        Ok(pairs)
    }

    /// Checks that each result has the shape and element type of its operand.
    fn same_shapes(&self) -> Result<()> {
        // A dynamic root is an additional operand without a result, so do not count it.
        let op = self.site.op;
        let data = op.operands.len().saturating_sub(self.roots);
        let results = self.result_count(data);
        ensure!(Structure, op.operands.len() >= results && results > 0, "has more results than operands");
        for i in 0..results {
            let (operand, result) = tensors!(self.site.operand_tensor(i), self.site.slot(i));
            result.is_like(operand)?;
        }
        Ok(())
    }

    /// Checks replica groups, which are rows of distinct ids. Short rows are padded with -1.
    fn groups(&self, groups: &ReplicaGroups, kind: Groups) -> Result<()> {
        let channel = self.channel.id;
        ensure!(
            Attribute,
            !self.global || channel > 0,
            "attribute `channel_id` must be positive with `use_global_device_ids`, not {channel}"
        );
        let literal = match groups {
            ReplicaGroups::Ids(literal) => literal,
            ReplicaGroups::Mesh(text) => return self.mesh(text),
        };
        ensure!(
            Attribute,
            literal.ty.rank() == 2,
            "attribute `replica_groups` must have two dimensions, not {}",
            literal.ty
        );
        let Some(ids) = literal.integers() else {
            return Err(Error::new(
                ErrorKind::Attribute,
                "attribute `replica_groups` must hold integers, one per device",
            ));
        };
        let mut seen = HashSet::with_capacity(ids.len());
        for &id in &ids {
            ensure!(Attribute, id >= -1, "attribute `replica_groups` holds the negative id {id}");
            ensure!(Attribute, id == -1 || seen.insert(id), "attribute `replica_groups` holds id {id} twice");
            ensure!(
                Attribute,
                id >= 0 || kind != Groups::AllOfOneSize,
                "the replica groups must have equal sizes; fill up a group with id -1"
            );
        }
        if kind != Groups::Subset {
            let missing = (0..seen.len()).find(|&id| i64::try_from(id).is_ok_and(|id| !seen.contains(&id)));
            ensure!(
                Attribute,
                missing.is_none(),
                "attribute `replica_groups` does not contain id {}",
                missing.unwrap_or(0)
            );
        }
        Ok(())
    }

    /// Checks that a mesh exists if groups along mesh axes refer to it by name.
    fn mesh(&self, text: &str) -> Result<()> {
        let (Some(name), Some(module)) = (field(text, "<mesh").and_then(|m| m.strip_prefix('@')), self.site.module)
        else {
            return Ok(());
        };
        let named = |attributes: &Attributes| {
            attributes.iter().any(|(n, value)| n == "sym_name" && value.as_str() == Some(name))
        };
        let known = module.symbols.iter().any(|(_, a)| named(a)) || module.func(name).is_some();
        ensure!(Reference, known, "attribute `replica_groups` names the mesh @{name}, which does not exist");
        Ok(())
    }

    fn all_gather(&self, groups: &ReplicaGroups, dimension: usize) -> Result<()> {
        self.groups(groups, Groups::AllOfOneSize)?;
        for (operand, result) in self.pairs()? {
            result.element_is(operand.element)?;
            within(dimension, operand.rank(), "all_gather_dim")?;
            let from = operand.shape[dimension];
            let mut expected = operand.shape.clone();
            let Some(actual) = result.actual() else {
                if let Some(devices) = self.group_size(groups) {
                    expected[dimension] = if from == DYNAMIC { DYNAMIC } else { from.saturating_mul(devices) };
                    result.shape_is(&expected)?;
                }
                continue;
            };
            let to = actual.shape.get(dimension).copied().unwrap_or(DYNAMIC);
            // The number of participating devices may depend on the number of partitions, which the program does not
            // contain.
            expected[dimension] = to;
            result.shape_is(&expected)?;
            let whole = from == DYNAMIC || to == DYNAMIC || (if from == 0 { to == 0 } else { to % from == 0 });
            ensure!(Shape, whole, "dimension {dimension} of {actual} is not a multiple of that of {operand}");
        }
        Ok(())
    }

    fn all_reduce(&self, groups: &ReplicaGroups) -> Result<()> {
        self.groups(groups, Groups::All)?;
        for (operand, result) in self.pairs()? {
            result.element_may_be(operand.element);
            result.shape_is(&operand.shape)?;
        }
        self.reduces()
    }

    fn reduce_scatter(&self, groups: &ReplicaGroups, dimension: usize) -> Result<()> {
        self.groups(groups, Groups::AllOfOneSize)?;
        for (operand, result) in self.pairs()? {
            within(dimension, operand.rank(), "scatter_dimension")?;
            result.element_may_be(operand.element);
            let mut expected = operand.shape.clone();
            let from = operand.shape[dimension];
            ensure!(Shape, from != 0, "dimension {dimension} of {operand} has no elements to scatter");
            let Some(actual) = result.actual() else {
                if let Some(devices) = self.group_size(groups) {
                    let whole = from == DYNAMIC || from % devices == 0;
                    ensure!(
                        Shape,
                        whole,
                        "dimension {dimension} of {operand} is not a multiple of the {devices} devices"
                    );
                    expected[dimension] = if from == DYNAMIC { DYNAMIC } else { from / devices };
                    result.shape_is(&expected)?;
                }
                continue;
            };
            let to = actual.shape.get(dimension).copied().unwrap_or(DYNAMIC);
            expected[dimension] = to;
            result.shape_is(&expected)?;
            let whole = from == DYNAMIC || to == DYNAMIC || (to != 0 && from % to == 0);
            ensure!(Shape, whole, "dimension {dimension} of {operand} is not a multiple of that of {actual}");
        }
        self.reduces()
    }

    fn all_to_all(&self, groups: &ReplicaGroups, [split, concat]: [usize; 2], count: i64) -> Result<()> {
        self.groups(groups, Groups::AllOfOneSize)?;
        ensure!(Attribute, count > 0, "attribute `split_count` must be positive");
        if let ReplicaGroups::Ids(groups) = groups {
            let size = groups.ty.shape.get(1).copied().unwrap_or(0);
            ensure!(Attribute, size == count, "replica groups have {size} members, but `split_count` is {count}");
        }
        for (operand, result) in self.pairs()? {
            result.element_is(operand.element)?;
            within(split, operand.rank(), "split_dimension")?;
            within(concat, operand.rank(), "concat_dimension")?;
            let mut expected = operand.shape.clone();
            if expected[split] != DYNAMIC {
                ensure!(
                    Shape,
                    expected[split] % count == 0,
                    "dimension {split} of {operand} cannot be split in {count}"
                );
                expected[split] /= count;
            }
            if expected[concat] != DYNAMIC {
                expected[concat] = expected[concat].saturating_mul(count);
            }
            result.shape_is(&expected)?;
        }
        Ok(())
    }

    /// Returns the number of devices in each group, if the program determines it. Groups of replica ids do not
    /// determine the number if all partitions of a replica participate.
    fn group_size(&self, groups: &ReplicaGroups) -> Option<i64> {
        match groups {
            ReplicaGroups::Ids(groups) if self.global || self.channel.id <= 0 => {
                groups.ty.shape.get(1).copied().filter(|&devices| devices > 0)
            }
            _ => None,
        }
    }

    /// Checks that the last operand of a collective with a dynamic root contains one `i32` element for each data
    /// operand.
    fn root(&self) -> Result<()> {
        if self.roots == 0 {
            return Ok(());
        }
        let data = self.site.op.operands.len().saturating_sub(1);
        ensure!(Structure, data > 0, "must have an operand besides the root");
        let root = tensors!(self.site.operand_tensor(data));
        let count = i64::try_from(data).unwrap_or(i64::MAX);
        let fits = root.element == ElementType::I32 && agree(&root.shape, &[count]);
        ensure!(Type, fits, "the root is {root} but must be tensor<{count}xi32>");
        Ok(())
    }
}
