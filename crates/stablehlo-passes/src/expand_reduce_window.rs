//! The pass `expand_reduce_window`.

use stablehlo::ir::{Binary, Module, Op, OpKind, Region, TensorType, ValueId, Window};
use stablehlo::{Patch, Result, rewrite};

use crate::apply::apply;
use crate::build::Build;
use crate::loops::{digit, elementwise, index, is_elementwise, repeat};

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
/// Keeps ops of dynamic shape, and ops whose body contains other ops than elementwise ones, uses arrays from outside,
/// or converts its operands to another type. The module must be verified.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn expand_reduce_window(module: &Module) -> Result<Option<Module>> {
    let is_window = |op: &Op| matches!(op.kind, OpKind::ReduceWindow { .. });
    apply(
        module,
        |func| func.body.all_ops().any(is_window),
        |func, locations| {
            let mut changed = false;
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
            })?;
            Ok(changed)
        },
    )
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
        repeat(patch, self.count, sums, |patch, counter, carried| {
            let mut starts = Vec::new();
            let mut inner = self.count;
            for (&extent, &dilation) in self.window.dimensions.iter().zip(&self.window.window_dilations) {
                inner /= extent;
                let at = digit(patch, counter, inner, extent)?;
                let dilation = index(patch, dilation)?;
                starts.push(patch.binary(Binary::Multiply, at, dilation)?);
            }
            let mut elements = carried.to_vec();
            for &x in padded {
                let ty = TensorType::new(self.spans.clone(), patch.tensor(x)?.element);
                let operands: Vec<ValueId> = [x].into_iter().chain(starts.iter().copied()).collect();
                let part = patch.add(OpKind::DynamicSlice { slice_sizes: self.spans.clone() }, &operands, ty);
                elements.push(self.slice(patch, part, &vec![0; self.spans.len()])?);
            }
            elementwise(body, &elements, &self.shape, patch)
        })
    }
}
