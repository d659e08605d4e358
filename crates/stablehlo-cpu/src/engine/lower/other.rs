//! Ops that the IR represents by name only, and `map`.

use stablehlo::ir::{Attribute, Attributes};

use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::TensorType;
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::map::Mapped;
use crate::error::CompileError;

/// Finds an attribute of an op.
pub(super) fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
}

impl<'m> LoweringContext<'_, 'm> {
    /// Lowers an op by its name. Returns `None` if the name is unknown.
    pub(super) fn other(&mut self, name: &str, attributes: &'m Attributes) -> Option<Result<()>> {
        let name = name.strip_prefix("stablehlo.")?;
        Some(match name {
            "batch_norm_inference" => self.batch_norm_inference(attributes),
            "batch_norm_training" => self.batch_norm_training(attributes),
            "batch_norm_grad" => self.batch_norm_grad(attributes),
            "map" => self.map_region(),
            "einsum" | "unary_einsum" => self.einsum(attributes),
            "torch_index_select" => self.torch_index_select(attributes),
            "rng" => self.rng(attributes),
            "dynamic_reshape" => self.dynamic_reshape(),
            "dynamic_broadcast_in_dim" => self.dynamic_broadcast_in_dim(attributes),
            "dynamic_iota" => self.dynamic_iota(attributes),
            "dynamic_pad" => self.dynamic_pad(),
            "dynamic_gather" => self.dynamic_gather(attributes),
            "dynamic_conv" => self.dynamic_conv(attributes),
            "real_dynamic_slice" => self.real_dynamic_slice(),
            "set_dimension_size" => self.set_dimension_size(attributes),
            "infeed" | "outfeed" | "send" | "recv" => Err(CompileError::unsupported(format!(
                "{name}: this device has no host queues; pass values as arguments and results, or through a custom_call"
            ))),
            _ => return None,
        })
    }

    /// An attribute with a list of dimensions. Empty if the attribute is missing.
    pub(super) fn dims_of(&self, attributes: &Attributes, name: &str) -> Result<Vec<usize>> {
        let Some(list) = find(attributes, name) else {
            return Ok(Vec::new());
        };
        let list =
            list.as_integers().ok_or_else(|| self.invalid(format!("attribute {name} must be a list of integers")))?;
        let count = list.len();
        self.sizes(&list, count, name)
    }

    /// An attribute with a list of integers. Returns `default` if the attribute is missing.
    pub(super) fn ints_of(&self, attributes: &Attributes, name: &str, default: Vec<i64>) -> Result<Vec<i64>> {
        match find(attributes, name) {
            Some(list) => {
                list.as_integers().ok_or_else(|| self.invalid(format!("attribute {name} must be a list of integers")))
            }
            None => Ok(default),
        }
    }

    /// An integer attribute, which must not be negative.
    pub(super) fn size_of(&self, attributes: &Attributes, name: &str) -> Result<usize> {
        let value = find(attributes, name).and_then(Attribute::as_integer).and_then(|i| usize::try_from(i).ok());
        value.ok_or_else(|| self.invalid(format!("attribute {name} is missing or negative")))
    }

    /// `map`: applies the region to each element.
    fn map_region(&mut self) -> Result<()> {
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
