//! Convolutions whose input is dilated, such as transposed convolutions and the gradients of convolutions with strides.
//! Along a dilated axis, most taps of a window read zeros between the elements. Output positions whose distance is a
//! multiple of the dilation read elements with the same taps. These positions form a phase, which is a convolution of
//! the input without dilation and of every n-th tap of the kernel.

use stablehlo::ir::{ConvDimensions, Window};

use super::convolution::{Attributes, Output, Phases};
use super::window::Spec;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::DType;

/// Minimum number of output elements of a convolution that is divided. For smaller ones, the steps of the phases would
/// take longer than the multiplications by zero.
const MIN_ELEMENTS: usize = 1 << 12;
/// Maximum number of phases along all axes together.
const MAX_PHASES: usize = 16;

impl LoweringContext<'_, '_> {
    /// Returns an axis along which to divide the convolution.
    pub(super) fn dilated_axis(window: &Spec, output: &Output, dimensions: &ConvDimensions) -> Option<usize> {
        let phases = window.base.iter().try_fold(1usize, |product, &base| product.checked_mul(base));
        if output.dims.iter().product::<usize>() < MIN_ELEMENTS || phases.is_none_or(|phases| phases > MAX_PHASES) {
            return None;
        }
        (0..window.base.len()).find(|&i| {
            let is_longer = output.dims[dimensions.output_spatial[i]] > window.base[i];
            is_longer && window.base[i] > 1 && window.strides[i] == 1 && window.dilations[i] == 1
        })
    }

    /// Computes each phase, and interleaves the results.
    pub(super) fn by_phases(
        &mut self,
        x: TypedValue,
        k: TypedValue,
        of: Attributes<'_>,
        dtype: DType,
        phases: Phases<'_>,
    ) -> Result<TypedValue> {
        let Phases { axis, count, window, reversal } = phases;
        let d = of.dimensions;
        let (input, kernel, output) = (d.input_spatial[axis], d.kernel_spatial[axis], d.output_spatial[axis]);
        let (base, size, taps) = (signed(window.base[axis]), signed(x.ty.dims[input]), signed(k.ty.dims[kernel]));
        // Compute the same number of positions in each phase, and remove those that are too many at the end.
        let positions = signed(count.div_ceil(window.base[axis]));
        let low = window.padding[axis].0;
        let mut parts = Vec::with_capacity(window.base[axis]);
        for phase in 0..base {
            // The first tap that reads an element, the number of such taps, and the element at the first position.
            let first = (low - phase).rem_euclid(base);
            if first >= taps {
                parts.push(None);
                continue;
            }
            let reading = (taps - first + base - 1) / base;
            let element = (phase + first - low) / base;
            let (mut starts, mut steps) = (vec![0; k.ty.rank()], vec![1; k.ty.rank()]);
            let mut limits: Vec<i64> = k.ty.dims.iter().map(|&extent| signed(extent)).collect();
            steps[kernel] = base;
            (starts[kernel], limits[kernel]) = match reversal[axis] {
                true => (taps - 1 - first - (reading - 1) * base, taps - first),
                false => (first, taps),
            };
            let part = self.sliced(&k, &starts, &limits, &steps)?;
            let padding = (-element, positions + reading - 1 - size + element);
            let window = undilated(window, reversal, axis, padding);
            parts.push(Some(self.convolved(x.clone(), part, Attributes { window: &window, ..of }, dtype)?));
        }
        let one = parts.iter().flatten().next().ok_or_else(|| self.invalid("no tap reads an element"))?;
        let mut dims = one.ty.dims.to_vec();
        let zeros = self.filled(0.0, dtype, &dims)?;
        dims.insert(output + 1, 1);
        let ty = self.typed(dtype, &dims)?;
        let part = |part: Option<TypedValue>| TypedValue { value: part.unwrap_or(zeros.clone()).value, ty: ty.clone() };
        let parts: Vec<TypedValue> = parts.into_iter().map(part).collect();
        let TypedValue { value, .. } = self.concatenated(&parts, output + 1)?;
        dims.remove(output + 1);
        dims[output] *= window.base[axis];
        let y = TypedValue { value, ty: self.typed(dtype, &dims)? };
        dims[output] = count;
        let limits: Vec<i64> = dims.iter().map(|&extent| signed(extent)).collect();
        self.sliced(&y, &vec![0; dims.len()], &limits, &vec![1; dims.len()])
    }
}

/// Returns the attributes of a window with another padding and without dilation along an axis.
fn undilated(window: &Spec, reversal: &[bool], axis: usize, padding: (i64, i64)) -> Window {
    let list = |list: &[usize]| list.iter().map(|&x| signed(x)).collect::<Vec<i64>>();
    let (mut base_dilations, mut paddings) = (list(&window.base), window.padding.clone());
    (base_dilations[axis], paddings[axis]) = (1, padding);
    Window {
        dimensions: Vec::new(),
        strides: list(&window.strides),
        base_dilations,
        window_dilations: list(&window.dilations),
        padding: paddings,
        reversal: reversal.to_vec(),
    }
}

fn signed(x: usize) -> i64 {
    i64::try_from(x).unwrap_or(i64::MAX)
}
