//! Rewrites the collectives between partitions that are outside manual computations.
//!
//! Outside manual computations, a value is the same on every device. A collective there can run as written, with the
//! unsharded value on each partition, if every partition then has the same result.

use stablehlo::ir::{Op, OpKind, ReplicaGroups};

use super::split::Splitter;
use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

impl<'m> Splitter<'_, 'm> {
    pub(super) fn collective_outside(&mut self, op: &'m Op) -> Result<()> {
        let name = op.kind.name();
        if !self.is_same_everywhere(op) {
            return Err(CompileError::unsupported(format!(
                "{name} outside of a manual part of the program, with results that may differ between partitions; use \
                 it inside of shard_map"
            )));
        }
        let mut operands = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            let whole = self.whole(operand)?;
            operands.push(self.get(operand, &whole)?);
        }
        let results = op.results.iter().map(|&v| self.declare(v, vec![Vec::new(); self.plan.state(v).dims.len()]));
        let results: Vec<_> = results.collect::<Result<_>>()?;
        let kind = self.localized(op, &operands, &results)?;
        let regions = op.regions.iter().map(|r| self.scalar_region(r)).collect::<Result<_>>()?;
        self.build.push(Op { kind, operands: operands.into(), results: results.into(), regions, ..op.clone() });
        Ok(())
    }

    /// Returns whether every partition gets the same result. This is the case for an `all_reduce` or an `all_gather`
    /// whose groups have the same size. With several replicas, the groups must also be lists of IDs. In addition, there
    /// must be only one group, or the IDs must not be flattened IDs.
    fn is_same_everywhere(&self, op: &Op) -> bool {
        let (OpKind::AllReduce { replica_groups, use_global_device_ids: global, .. }
        | OpKind::AllGather { replica_groups, use_global_device_ids: global, .. }) = &op.kind
        else {
            return false;
        };
        let ReplicaGroups::Ids(groups) = replica_groups else { return self.build.replicas == 1 };
        // Elements of -1 pad shorter groups.
        let alike = groups.integers().is_some_and(|ids| !ids.contains(&-1));
        let rows = groups.ty.shape.first().copied().unwrap_or(0);
        alike && (self.build.replicas == 1 || !global || rows <= 1)
    }
}
