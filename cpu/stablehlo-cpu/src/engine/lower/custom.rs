//! `custom_call`: targets that frameworks emit for every platform, and targets with a registered handler.

use stablehlo::ir::{Attribute, Attributes, OpKind, Type, inverse_permutation};

use super::context::find_attribute;
use super::{Binding, LoweringContext, Result, TypedValue};
use crate::engine::custom_calls::{self, Bound, CustomCall};
use crate::engine::dtype::TensorType;
use crate::engine::graph::{Node, Op, ValueIndex};
use crate::engine::kernels::custom::Custom;
use crate::engine::kernels::sort::{Order, SortKey};
use crate::engine::tile::Iota;
use crate::error::CompileError;
use crate::order::Order as StorageOrder;

/// Returns the indices of the result and the operand of `#stablehlo.output_operand_alias<output_tuple_indices = [1],
/// operand_index = 0, …>`. Returns `None` if the operand is inside a tuple or the text does not have this form.
fn read_alias(text: &str) -> Option<(usize, usize)> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let after = |name: &str| text.split_once(name).map(|(_, rest)| rest);
    let list = |name: &str| after(name).and_then(|rest| rest.split_once(']')).map_or("", |(inside, _)| inside);
    let result = match list("output_tuple_indices=[") {
        "" => 0,
        index => index.parse().ok()?,
    };
    let operand = after("operand_index=")?;
    let operand = operand[..operand.find(|c: char| !c.is_ascii_digit())?].parse().ok()?;
    list("operand_tuple_indices=[").is_empty().then_some((result, operand))
}

impl<'m> LoweringContext<'_, 'm> {
    pub(super) fn custom_call(&mut self, target: &str) -> Result<()> {
        if let Some(handler) = custom_calls::find(target, self.graph.settings.custom_calls) {
            return self.handled(target, handler);
        }
        match target {
            // Annotations for partitioners and memories have no effect on one device.
            "Sharding"
            | "SPMDFullToShardShape"
            | "SPMDShardToFullShape"
            | "annotate_device_placement"
            | "MoveToHost"
            | "MoveToDevice"
            | "LayoutConstraint" => self.pass_through(),
            "shape_assertion" => self.shape_assertion(),
            "Qr" => self.qr(),
            "ProductOfElementaryHouseholderReflectors" => self.householder_product(),
            "Eigh" => self.eigh(),
            "LuDecomposition" => self.lu_decomposition(),
            "ApproxTopK" => self.approx_top_k(),
            "ragged_all_to_all" => self.ragged_all_to_all(),
            // `dce_sink` only protects its operands from dead code elimination before a program reaches a device. A
            // sharding group has no effect on one device.
            "dce_sink" | "xla.sdy.ShardingGroup" | "local_xla.sdy.ShardingGroup" => self.finish(Vec::new()),
            "TopK" | "mhlo.topk" => self.top_k(),
            "tpu_custom_call" => Err(CompileError::unsupported(
                "custom_call @tpu_custom_call: it runs a kernel that was compiled for TPUs; in PyTorch, \
                 torch.backends.cuda.enable_flash_sdp(False) turns off the attention that needs it",
            )),
            _ => match target.strip_prefix("mhlo.") {
                Some(name) => self.special(name),
                None => self.lapack(target).unwrap_or_else(|| Err(self.unsupported())),
            },
        }
    }

    /// Lowers a call whose results `handler` computes at run time.
    pub(super) fn handled(&mut self, target: &str, handler: std::sync::Arc<custom_calls::Handler>) -> Result<()> {
        let OpKind::CustomCall { has_side_effect, backend_config, api_version, .. } = &self.op.kind else {
            return Err(self.unsupported());
        };
        // Ignore tokens, because calls run in the program's order anyway.
        let (mut ins, mut operands) = (Vec::new(), Vec::new());
        for (at, &id) in self.op.operands.iter().enumerate() {
            match self.frame.get(id)? {
                Binding::Tensor(tv) => {
                    let order = self.order("operand_layouts", at, &tv.ty)?;
                    ins.push(order.as_ref().map_or_else(|| Ok(tv.clone()), |order| self.permuted(&tv, order))?.value);
                    operands.push((tv.ty, order));
                }
                Binding::Token => {}
                Binding::Tuple(_) => return Err(self.unsupported()),
            }
        }
        let is_token = |i: usize| {
            let ty = self.op.results.get(i).and_then(|id| self.frame.func.values.get(id.0 as usize));
            matches!(ty, Some(Type::Token))
        };
        let tensors: Vec<usize> = (0..self.op.results.len()).filter(|&i| !is_token(i)).collect();
        let tokens: Vec<usize> = (0..self.op.results.len()).filter(|&i| is_token(i)).collect();
        let results = tensors.iter().map(|&i| {
            let ty = self.result_type(i)?;
            let order = self.order("result_layouts", i, &ty)?;
            Ok((ty, order))
        });
        let results = results.collect::<Result<Vec<_>>>()?;
        let types = |all: &[(TensorType, StorageOrder)]| all.iter().map(|(ty, _)| ty.clone()).collect();
        let call = CustomCall {
            target: target.to_owned(),
            api_version: *api_version,
            backend_config: backend_config.clone(),
            attributes: self.op.attributes.clone(),
            operands: types(&operands),
            results: types(&results),
            aliases: self.aliases(&operands, &results)?,
        };
        let kernel = Custom { bound: Bound { call, handler }, has_side_effect: *has_side_effect };
        let stored = |(ty, order): &(TensorType, StorageOrder)| match order {
            Some(order) => self.typed(ty.dtype, &order.iter().map(|&d| ty.dims[d]).collect::<Vec<_>>()),
            None => Ok(ty.clone()),
        };
        let stored = results.iter().map(stored).collect::<Result<Vec<_>>>()?;
        let outs = self.kernel(kernel, &ins, &[], &stored);
        for (((&i, v), ty), (_, order)) in tensors.iter().zip(outs).zip(stored).zip(results) {
            let out = TypedValue { value: v, ty };
            let out =
                order.map_or_else(|| Ok(out.clone()), |order| self.permuted(&out, &inverse_permutation(&order)))?;
            self.bind(i, Binding::Tensor(out))?;
        }
        tokens.into_iter().try_for_each(|i| self.bind(i, Binding::Token))
    }

    /// Returns the dimensions of an operand or a result of the call in the order in which they are stored, outermost
    /// first. `name` is the attribute that contains the layouts. Returns `None` for the row-major order.
    fn order(&self, name: &str, at: usize, ty: &TensorType) -> Result<StorageOrder> {
        let Some(Attribute::Array(layouts)) = find_attribute(&self.op.attributes, name) else { return Ok(None) };
        let Some(layout) = layouts.get(at) else { return Ok(None) };
        let integers = layout.as_integers().unwrap_or_default();
        let order: Vec<usize> = integers.iter().rev().filter_map(|&d| usize::try_from(d).ok()).collect();
        let is_order = integers.len() == ty.rank()
            && inverse_permutation(&inverse_permutation(&order)) == order
            && order.len() == ty.rank();
        self.ensure(is_order, || format!("{name} {at} is {integers:?}, but must list each dimension of {ty} once"))?;
        Ok((!order.is_sorted()).then_some(order))
    }

    /// Returns `output_operand_aliases` as pairs of a result index and an operand index.
    fn aliases(
        &self,
        operands: &[(TensorType, StorageOrder)],
        results: &[(TensorType, StorageOrder)],
    ) -> Result<Vec<(usize, usize)>> {
        let Some(Attribute::Array(list)) = find_attribute(&self.op.attributes, "output_operand_aliases") else {
            return Ok(Vec::new());
        };
        let mut aliases = Vec::with_capacity(list.len());
        for alias in list {
            let pair = match alias {
                Attribute::Other(text) => read_alias(text),
                _ => None,
            };
            let pair = pair.filter(|&(result, operand)| {
                let types = results.get(result).zip(operands.get(operand));
                types.is_some_and(|(result, operand)| result == operand)
                    && aliases.iter().all(|(other, _)| *other != result)
            });
            aliases.push(pair.ok_or_else(|| {
                self.invalid(format!(
                    "output_operand_alias {} names no operand and result of one type, or a result twice",
                    aliases.len()
                ))
            })?);
        }
        Ok(aliases)
    }

    /// Returns the attribute `name` of the call. Also searches the dictionaries in which frameworks store attributes.
    pub(super) fn call_attribute(&self, name: &str) -> Option<&'m Attribute> {
        let attributes: &'m Attributes = &self.op.attributes;
        let within = |a: &'m Attribute| match a {
            Attribute::Dictionary(entries) => find_attribute(entries, name),
            _ => None,
        };
        let config = match &self.op.kind {
            OpKind::CustomCall { backend_config, .. } => within(backend_config),
            OpKind::Composite { composite_attributes, .. } => find_attribute(composite_attributes, name),
            _ => None,
        };
        find_attribute(attributes, name)
            .or(config)
            .or_else(|| within(find_attribute(attributes, "mhlo.backend_config")?))
            .or_else(|| within(find_attribute(attributes, "mhlo.attributes")?))
    }

    fn approx_top_k(&mut self) -> Result<()> {
        let (inputs, _) = self.inputs_and_inits()?;
        let dimension = self.call_attribute("reduction_dim").and_then(Attribute::as_integer);
        let rank = i64::try_from(inputs[0].ty.rank()).unwrap_or(0);
        let dimension = dimension.map(|d| if d < 0 { d + rank } else { d }).and_then(|d| usize::try_from(d).ok());
        let dimension = dimension.filter(|&d| d < inputs[0].ty.rank());
        let dimension = dimension.ok_or_else(|| self.invalid("attribute reduction_dim is missing"))?;
        let comparator = match find_attribute(&self.op.attributes, "called_computations") {
            Some(Attribute::Array(names)) => names.first().and_then(Attribute::as_str),
            _ => None,
        };
        let func = comparator.and_then(|name| self.graph.module.func(name));
        let func = func.ok_or_else(|| self.invalid("attribute called_computations must name a function"))?;
        let mut scalars = Vec::with_capacity(2 * inputs.len());
        for x in &inputs {
            let scalar = self.typed(x.ty.dtype, &[])?;
            scalars.extend([scalar.clone(), scalar]);
        }
        let body = self.scalar_func(func, &scalars)?;
        let mut ins: Vec<ValueIndex> = inputs.iter().map(|x| x.value).collect();
        ins.extend(&body.captured);
        let kept = self.declared_extent(dimension)?;
        let results = self.first_sorted(&inputs, dimension, kept, Order::Comparator(body), &ins)?;
        self.finish(results)
    }

    /// Returns the declared extent of a dimension of the first result.
    fn declared_extent(&self, dimension: usize) -> Result<usize> {
        let ty = self.op.results.first().and_then(|id| self.frame.func.values.get(id.0 as usize));
        let extent = match ty {
            Some(Type::Tensor(ty)) => ty.shape.get(dimension).and_then(|&d| usize::try_from(d).ok()),
            _ => None,
        };
        extent.ok_or_else(|| self.invalid(format!("the extent of dimension {dimension} of the result is not known")))
    }

    pub(super) fn top_k(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let Some(dimension) = x.ty.rank().checked_sub(1) else {
            return Err(self.invalid(format!("cannot take a {}", x.ty)));
        };
        self.has_results(2)?;
        let kept = self.declared_extent(dimension)?;
        let largest = !matches!(self.call_attribute("largest"), Some(Attribute::Bool(false)));
        let (given, dtype) = (x.ty.dtype, x.ty.dtype.computed());
        if dtype.part().is_some() {
            return Err(self.unsupported());
        }
        let x = if given.is_narrow_float() { self.widened(x)? } else { x };
        let positions = self.typed(self.result_dtype(1)?, &x.ty.dims)?;
        let iota = Iota::new(positions.dtype, 1, x.ty.dims[dimension]).ok_or_else(|| self.unsupported())?;
        let at = self.graph.value(&positions);
        self.out.push(Node { op: Op::Iota(iota), ins: Vec::new(), outs: vec![at] });
        let order = Order::Keys(vec![SortKey::elements(0, dtype, largest)]);
        let ins = [x.value, at];
        let inputs = [x, TypedValue { value: at, ty: positions }];
        let mut results = self.first_sorted(&inputs, dimension, kept, order, &ins)?;
        results[0] = self.converted(results[0].clone(), given)?;
        self.finish(results)
    }

    /// Lowers a function that PyTorch/XLA calls by its MHLO name.
    fn special(&mut self, name: &str) -> Result<()> {
        let [x] = self.take()?;
        let y = self.special_of(name, x)?;
        self.finish(vec![y])
    }
}
