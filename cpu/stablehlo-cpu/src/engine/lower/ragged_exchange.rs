//! The custom call `ragged_all_to_all`, to which JAX lowers the collective of that name.

use stablehlo::ir::{Attribute, ChannelHandle, OpKind, ReplicaGroups};

use super::context::find_attribute;
use super::{LoweringContext, Result};
use crate::engine::dtype::DType;
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::collective::Kind;
use crate::engine::kernels::ragged_exchange::RaggedAllToAll;

impl LoweringContext<'_, '_> {
    pub(super) fn ragged_all_to_all(&mut self) -> Result<()> {
        let OpKind::CustomCall { backend_config: Attribute::Dictionary(attributes), .. } = &self.op.kind else {
            return Err(self.invalid("backend_config must be a dictionary with `replica_groups`"));
        };
        let groups = match find_attribute(attributes, "replica_groups") {
            Some(Attribute::Tensor(literal)) => ReplicaGroups::Ids(literal.clone()),
            Some(Attribute::Other(text)) => ReplicaGroups::Mesh(text.clone()),
            _ => return Err(self.invalid("backend_config must be a dictionary with `replica_groups`")),
        };
        let channel =
            ChannelHandle::new(find_attribute(attributes, "channel_id").and_then(Attribute::as_integer).unwrap_or(0));
        // The groups have the meaning of those of `all_to_all`.
        let (concat_dimension, split_count, split_dimension) = (0, 0, 0);
        let kind = OpKind::AllToAll { channel, concat_dimension, replica_groups: groups, split_count, split_dimension };
        let (groups, size) = self.groups(&kind)?;
        self.even(&groups, size)?;
        let operands = self.operands()?;
        let [operand, output, numbers @ ..] = &operands[..] else {
            return Err(self.invalid(format!("takes 6 operands, not {}", operands.len())));
        };
        self.ensure(numbers.len() == 4, || format!("takes 6 operands, not {}", operands.len()))?;
        let (x, y) = (&operand.ty, &output.ty);
        let alike = x.dtype == y.dtype && x.rank() > 0 && x.rank() == y.rank() && x.dims[1..] == y.dims[1..];
        self.ensure(alike, || format!("rows of a {x} for a {y}"))?;
        let count = numbers[0].ty.dims.first().copied().unwrap_or(0);
        for numbers in numbers {
            let ty = &numbers.ty;
            let fits = ty.rank() == 1 && ty.dims[0] == count && count % size == 0;
            self.ensure(fits, || format!("offsets and sizes in a {ty} for groups of {size} members"))?;
        }
        let mut ins: Vec<ValueIndex> = vec![operand.value, output.value];
        let row = x.dims[1..].iter().product::<usize>() * x.dtype.size();
        // The last operand is not needed, because the sizes of the received runs follow from the sizes of the sent
        // runs.
        for numbers in &numbers[..3] {
            ins.push(self.converted(numbers.clone(), DType::I64)?.value);
        }
        let kind = Kind::RaggedAllToAll(RaggedAllToAll { row, runs: count / size });
        self.finish_collective(kind, groups, &ins, vec![y.clone()])
    }
}
