//! Lowers `map` and reports an error for ops that need host queues.

use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::TensorType;
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::map::Mapped;
use crate::error::CompileError;
use crate::op_names::op_name;

impl LoweringContext<'_, '_> {
    /// Returns the error for an op that exchanges data with the host.
    pub(super) fn no_host_queues(&self) -> CompileError {
        CompileError::unsupported(format!(
            "{}: this device has no host queues; pass values as arguments and results, or through a custom_call",
            op_name(&self.op.kind)
        ))
    }

    /// Lowers `map`, which applies the region to each element.
    pub(super) fn map_region(&mut self) -> Result<()> {
        let inputs = self.operands()?;
        let Some(first) = inputs.first().cloned() else {
            return Err(self.invalid("must have an operand"));
        };
        for x in &inputs {
            self.ensure(x.ty.dims == first.ty.dims, || format!("{} beside {}", x.ty, first.ty))?;
        }
        let scalars: Result<Vec<TensorType>> = inputs.iter().map(|x| self.typed(x.ty.dtype, &[])).collect();
        let body = self.scalar_fn(self.body()?, &scalars?)?;
        let types: Vec<TensorType> =
            body.results.iter().map(|r| TensorType { dtype: r.dtype, dims: first.ty.dims.clone() }).collect();
        let mut ins: Vec<ValueIndex> = inputs.iter().map(|x| x.value).collect();
        ins.extend(&body.captured);
        let outs = self.kernel(Mapped { n: first.ty.elements(), body }, &ins, &[], &types);
        self.finish(outs.into_iter().zip(types).map(|(v, ty)| TypedValue { value: v, ty }).collect())
    }
}
