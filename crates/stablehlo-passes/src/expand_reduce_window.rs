//! The pass `expand_reduce_window`.

use std::collections::HashMap;

use stablehlo::ir::{
    Binary, ComparisonDirection, Dims, ElementType, Literal, Module, Op, OpKind, Region, TensorType, Type, ValueId,
    Window,
};
use stablehlo::{Patch, Result, rewrite};

use crate::apply::apply;
use crate::build::Build;
use crate::evaluate::Number;

/// Maximum number of elements of a window for which the pass adds ops without a loop.
const MAX_UNROLLED: i64 = 16;

/// Replaces `reduce_window` with padding, strided slices and elementwise ops. Returns `None` if the program has no
/// `reduce_window` that the pass replaces.
///
/// ```text
/// %0 = "stablehlo.reduce_window"(%x, %init) ({ maximum })      %1 = stablehlo.maximum %init, %x[0:7:2]
///   {window_dimensions = [2], window_strides = [2]}        =>  %0 = stablehlo.maximum %1, %x[1:8:2]
///   : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
/// ```
///
/// There is one slice for each element of the window. If the window has more than 16 elements, a loop takes the slices.
/// The elements of a window are combined in row-major order, beginning with the initial value.
///
/// Keeps ops of dynamic shape, and ops whose body contains other ops than elementwise ones, uses arrays from outside, or
/// converts its operands to another type. The module must be verified.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn expand_reduce_window(module: &Module) -> Result<Option<Module>> {
    let is_window = |op: &Op| matches!(op.kind, OpKind::ReduceWindow { .. });
    let mut changed = false;
    let module = apply(
        module,
        |func| func.body.all_ops().any(is_window),
        |func, locations| {
            rewrite(func, locations, |op, patch| match Plan::new(&op, patch) {
                Some(plan) => {
                    changed = true;
                    let values = plan.expand(&op, patch)?;
                    patch.replace(&op.results, &values)
                }
                None => {
                    patch.push(op);
                    Ok(())
                }
            })
        },
    )?;
    Ok(module.filter(|_| changed))
}

/// The slices of an op.
struct Plan {
    window: Window,
    /// Shape of the results.
    shape: Vec<i64>,
    /// Extents of the slices before the strides are applied.
    spans: Vec<i64>,
    /// Number of elements of the window.
    count: i64,
}

impl Plan {
    fn new(op: &Op, patch: &Patch<'_>) -> Option<Self> {
        let (OpKind::ReduceWindow { window }, [body]) = (&op.kind, &op.regions[..]) else { return None };
        let tensor = |value: &ValueId| patch.tensor(*value).ok().filter(|ty| ty.num_elements().is_some());
        let (inputs, inits) = op.operands.split_at(op.results.len().min(op.operands.len()));
        let shape = tensor(op.results.first()?)?.shape.clone();
        let rank = shape.len();
        for (index, result) in op.results.iter().enumerate() {
            let (input, init, result) = (tensor(inputs.get(index)?)?, tensor(inits.get(index)?)?, tensor(result)?);
            let element = result.element;
            let is_same = input.element == element && init.element == element && result.shape == shape;
            let arg = |at: usize| tensor(body.args.get(at)?).map(|ty| ty.element);
            if !is_same || arg(index)? != element || arg(index + op.results.len())? != element || input.rank() != rank {
                return None;
            }
        }
        let lists = [&window.dimensions, &window.strides, &window.base_dilations, &window.window_dilations];
        if lists.iter().any(|list| list.len() != rank || list.iter().any(|&n| n < 1)) || window.padding.len() != rank {
            return None;
        }
        let spans: Option<Vec<i64>> = shape
            .iter()
            .zip(&window.strides)
            .map(|(extent, stride)| extent.checked_sub(1)?.checked_mul(*stride)?.checked_add(1))
            .collect();
        let count = window.dimensions.iter().try_fold(1i64, |count, &extent| count.checked_mul(extent))?;
        let is_empty = shape.contains(&0);
        let is_supported = !is_empty && is_elementwise(body, patch);
        is_supported.then_some(Self { window: (**window).clone(), shape, spans: spans?, count })
    }

    fn expand(&self, op: &Op, patch: &mut Patch<'_>) -> Result<Vec<ValueId>> {
        let (inputs, inits) = op.operands.split_at(op.results.len());
        let body = &op.regions[0];
        let mut padded = Vec::with_capacity(inputs.len());
        let mut sums = Vec::with_capacity(inputs.len());
        for (&input, &init) in inputs.iter().zip(inits) {
            padded.push(self.padded(patch, input, init)?);
            sums.push(patch.broadcast(init, &[], &self.shape)?);
        }
        if self.count > MAX_UNROLLED {
            return self.looped(patch, body, &padded, &sums);
        }
        for element in 0..self.count {
            let mut args = sums.clone();
            for &x in &padded {
                args.push(self.slice(patch, x, &self.offsets(element))?);
            }
            sums = elementwise(body, &args, &self.shape, patch)?;
        }
        Ok(sums)
    }

    /// Returns the coordinates of an element of the window in the padded operand.
    fn offsets(&self, element: i64) -> Vec<i64> {
        let mut rest = element;
        let mut offsets: Vec<i64> = self
            .window
            .dimensions
            .iter()
            .zip(&self.window.window_dilations)
            .rev()
            .map(|(extent, dilation)| {
                let at = rest % extent;
                rest /= extent;
                at * dilation
            })
            .collect();
        offsets.reverse();
        offsets
    }

    /// Pads an operand with the initial value, also between its elements.
    fn padded(&self, patch: &mut Patch<'_>, x: ValueId, init: ValueId) -> Result<ValueId> {
        let ty = patch.tensor(x)?.clone();
        let interior: Vec<i64> = self.window.base_dilations.iter().map(|dilation| dilation - 1).collect();
        let (low, high): (Vec<i64>, Vec<i64>) = self.window.padding.iter().copied().unzip();
        if low.iter().chain(&high).chain(&interior).all(|&padding| padding == 0) {
            return Ok(x);
        }
        let extent = |d: usize| {
            let inner = ty.shape[d] + (ty.shape[d] - 1).max(0) * interior[d];
            inner + low[d] + high[d]
        };
        let to = TensorType::new((0..ty.rank()).map(extent).collect::<Vec<_>>(), ty.element);
        let kind = OpKind::Pad { edge_padding_low: low, edge_padding_high: high, interior_padding: interior };
        Ok(patch.add(kind, &[x, init], to))
    }

    /// Takes the elements of all windows at these offsets.
    fn slice(&self, patch: &mut Patch<'_>, x: ValueId, offsets: &[i64]) -> Result<ValueId> {
        let ty = TensorType::new(self.shape.clone(), patch.tensor(x)?.element);
        let limit_indices = offsets.iter().zip(&self.spans).map(|(offset, span)| offset + span).collect();
        let (start_indices, strides) = (offsets.to_vec(), self.window.strides.clone());
        Ok(patch.add(OpKind::Slice { start_indices, limit_indices, strides }, &[x], ty))
    }

    /// Adds a loop over the elements of the window.
    fn looped(
        &self,
        patch: &mut Patch<'_>,
        body: &Region,
        padded: &[ValueId],
        sums: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let index = TensorType::new([], ElementType::I64);
        let number = |patch: &mut Patch<'_>, n: i64| patch.splat(index.clone(), Number::Integer(n.into()));
        let zero = number(patch, 0)?;
        let fresh = |patch: &mut Patch<'_>| -> Result<Vec<ValueId>> {
            let mut values = vec![patch.value(Type::Tensor(index.clone()))];
            for &sum in sums {
                let ty = Type::Tensor(patch.tensor(sum)?.clone());
                values.push(patch.value(ty));
            }
            Ok(values)
        };
        let args = fresh(patch)?;
        let counter = args[0];
        let condition = patch.region(args, |patch| {
            let end = number(patch, self.count)?;
            let less = patch.compare(ComparisonDirection::Lt, counter, end)?;
            patch.define(OpKind::Return, &[less], &[]);
            Ok(())
        })?;
        let args = fresh(patch)?;
        let (counter, carried) = (args[0], args[1..].to_vec());
        let turn = patch.region(args, |patch| {
            let mut starts = Vec::new();
            let mut inner = self.count;
            for (&extent, &dilation) in self.window.dimensions.iter().zip(&self.window.window_dilations) {
                inner /= extent;
                let [inner, extent, dilation] =
                    [number(patch, inner)?, number(patch, extent)?, number(patch, dilation)?];
                let at = patch.binary(Binary::Divide, counter, inner)?;
                let at = patch.binary(Binary::Remainder, at, extent)?;
                starts.push(patch.binary(Binary::Multiply, at, dilation)?);
            }
            let mut elements = carried;
            for &x in padded {
                let ty = TensorType::new(self.spans.clone(), patch.tensor(x)?.element);
                let operands: Vec<ValueId> = [x].into_iter().chain(starts.iter().copied()).collect();
                let part = patch.add(OpKind::DynamicSlice { slice_sizes: self.spans.clone() }, &operands, ty);
                elements.push(self.slice(patch, part, &vec![0; self.spans.len()])?);
            }
            let one = number(patch, 1)?;
            let mut next = vec![patch.binary(Binary::Add, counter, one)?];
            next.extend(elementwise(body, &elements, &self.shape, patch)?);
            patch.define(OpKind::Return, &next, &[]);
            Ok(())
        })?;
        let results = fresh(patch)?;
        let operands: Vec<ValueId> = [zero].into_iter().chain(sums.iter().copied()).collect();
        patch.define(OpKind::While, &operands, &results).regions = vec![condition, turn];
        Ok(results[1..].to_vec())
    }
}

/// Returns whether the ops of a region of scalars can be applied to arrays.
fn is_elementwise(region: &Region, patch: &Patch<'_>) -> bool {
    let is_scalar = |value: &ValueId| patch.tensor(*value).is_ok_and(|ty| ty.rank() == 0);
    region.ops.last().is_some_and(|end| matches!(end.kind, OpKind::Return))
        && region.ops.iter().all(|op| {
            let is_known = matches!(
                op.kind,
                OpKind::Binary(_)
                    | OpKind::Clamp
                    | OpKind::Compare { .. }
                    | OpKind::Constant(_)
                    | OpKind::Convert
                    | OpKind::Return
                    | OpKind::Select
                    | OpKind::Unary(_)
            );
            is_known && op.operands.iter().chain(&op.results).all(is_scalar)
        })
}

/// Applies the ops of a region of scalars to arrays.
fn elementwise(region: &Region, args: &[ValueId], shape: &[i64], patch: &mut Patch<'_>) -> Result<Vec<ValueId>> {
    let mut arrays: HashMap<ValueId, ValueId> = region.args.iter().copied().zip(args.iter().copied()).collect();
    for op in &region.ops {
        let mut operands = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            operands.push(match arrays.get(&operand) {
                Some(&array) => array,
                None => {
                    // A scalar from outside.
                    let ty = TensorType::new(shape, patch.tensor(operand)?.element);
                    patch.add(OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() }, &[operand], ty)
                }
            });
        }
        let &[result] = &op.results[..] else { return Ok(operands) };
        let scalar = patch.tensor(result)?.clone();
        let ty = TensorType::new(shape, scalar.element);
        let kind = match &op.kind {
            OpKind::Constant(literal) => OpKind::Constant(Literal::new(ty.clone(), literal.data.clone())?),
            kind => kind.clone(),
        };
        arrays.insert(result, patch.add(kind, &operands, ty));
    }
    Ok(Vec::new())
}
