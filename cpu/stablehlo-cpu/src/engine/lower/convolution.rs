//! Lowers `convolution` to a product of the patches of the input and the kernel. A patch consists of the input elements
//! under the window at one output position.
#![expect(clippy::cast_sign_loss, reason = "positions are checked to lie in the padded tensor")]

use stablehlo::ir::{ConvDimensions, Window};

use super::window::Spec;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::kernels::conv::{Axis, Convolution, Element, MAX_AXES, PatchStep, Patches};
use crate::engine::view::{View, strides_of};
use crate::error::CompileError;

/// The attributes of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a> {
    pub(super) dimensions: &'a ConvDimensions,
    pub(super) window: &'a Window,
    pub(super) feature_groups: i64,
    pub(super) batch_groups: i64,
}

/// The groups of a convolution. Each group is a product of two matrices.
struct Groups {
    count: usize,
    /// Whether the groups divide the input's features, rather than its batch.
    of_features: bool,
    /// Batch extent of one group. `features` and `outputs` are its numbers of input features and output features.
    batch: usize,
    features: usize,
    outputs: usize,
}

/// The division of a convolution along an axis of its window.
pub(super) struct Phases<'a> {
    pub(super) axis: usize,
    /// Number of output positions along the axis.
    pub(super) count: usize,
    pub(super) window: &'a Spec,
    /// Whether the kernel is reversed along each axis.
    pub(super) reversal: &'a [bool],
}

/// The dimensions of the output, and the effect of each dimension's index on the position in the input.
pub(super) struct Output {
    pub(super) dims: Vec<usize>,
    /// Effect of the index in each dimension. The element for the feature dimension is not used.
    along: Vec<PatchStep>,
    axes: Vec<Axis>,
}

/// The output dimensions without the features, divided into the rows of one matrix (`lines`) and the dimensions outside
/// of it.
struct PatchDimensions {
    outer: Vec<(usize, PatchStep)>,
    lines: Vec<(usize, PatchStep)>,
    /// Whether the feature dimension is the innermost dimension, apart from dimensions of extent one.
    features_last: bool,
}

impl LoweringContext<'_, '_> {
    pub(super) fn convolution(
        &mut self,
        d: &ConvDimensions,
        window: &Window,
        groups: i64,
        batch_groups: i64,
    ) -> Result<()> {
        let [x, k] = self.take()?;
        self.convolution_of(x, k, d, window, groups, batch_groups)
    }

    pub(super) fn convolution_of(
        &mut self,
        x: TypedValue,
        k: TypedValue,
        dimensions: &ConvDimensions,
        window: &Window,
        feature_groups: i64,
        batch_groups: i64,
    ) -> Result<()> {
        let dtype = self.result_dtype(0)?;
        let y = self.convolved(x, k, Attributes { dimensions, window, feature_groups, batch_groups }, dtype)?;
        self.finish(vec![y])
    }

    /// Lowers a convolution whose result has elements of `dtype`.
    pub(super) fn convolved(
        &mut self,
        x: TypedValue,
        k: TypedValue,
        of: Attributes<'_>,
        dtype: DType,
    ) -> Result<TypedValue> {
        if let Some(part) = dtype.part() {
            return self.by_parts(x, k, dtype, |cx, x, k| cx.convolved(x, k, of, part));
        }
        let d = of.dimensions;
        self.check_convolution(&x.ty, &k.ty, d)?;
        let reversal = self.kernel_reversal(of.window, d.kernel_spatial.len())?;
        let window = self.kernel_window(of, &k.ty)?;
        let groups = self.convolution_groups(&x.ty, &k.ty, of)?;
        let own = strides_of(&x.ty.dims);
        let (image, feature) = (own[d.input_batch] as usize, own[d.input_feature] as usize);
        let (wide, element) = computed_in(dtype, [x.ty.dtype, k.ty.dtype], feature == 1 && groups.features % 2 == 0);
        let x = self.converted(x, wide)?;
        let k = self.converted(k, wide)?;
        let sums = if element == Element::I16x2 { DType::I32 } else { wide };
        let output = self.convolution_output(&x.ty, d, &window, &groups)?;
        if let Some(axis) = Self::dilated_axis(&window, &output, d) {
            let phases =
                Phases { axis, count: output.dims[d.output_spatial[axis]], window: &window, reversal: &reversal };
            let y = self.by_phases(x, k, of, sums, phases)?;
            return self.converted(y, dtype);
        }
        let ty = self.typed(sums, &output.dims)?;
        let PatchDimensions { outer, lines, features_last } = patch_dimensions(&output, d.output_feature);
        if window.dimensions.len() > MAX_AXES {
            let axes = window.dimensions.len();
            return Err(CompileError::unsupported(format!(
                "a convolution over {axes} dimensions; {MAX_AXES} are supported"
            )));
        }
        let steps = window.dilations.iter().map(|&dilation| isize::try_from(dilation).unwrap_or(isize::MAX));
        let taps = window.dimensions.iter().copied().zip(steps).collect();
        let together = element.together();
        let patches = Patches { axes: output.axes, outer, lines, taps, features: groups.features, feature };
        let next = if groups.of_features { groups.features * feature } else { groups.batch * image };
        let kernel = Convolution {
            patches: patches.of_groups(together),
            next: next / together,
            groups: groups.count,
            kernel: kernel_view(&k.ty.dims, d, &reversal, together),
            share: groups.outputs,
            features_last,
            element,
        };
        let v = self.kernel(kernel, &[x.value, k.value], &[], std::slice::from_ref(&ty))[0];
        self.converted(TypedValue { value: v, ty }, dtype)
    }

    fn check_convolution(&self, x: &TensorType, k: &TensorType, d: &ConvDimensions) -> Result<()> {
        let (rank, spatial) = (x.rank(), d.input_spatial.len());
        self.ensure(k.rank() == rank && spatial + 2 == rank, || format!("{x} and {k}"))?;
        let lists = [
            (&d.input_spatial, d.input_batch, d.input_feature),
            (&d.kernel_spatial, d.kernel_input_feature, d.kernel_output_feature),
            (&d.output_spatial, d.output_batch, d.output_feature),
        ];
        for (list, a, b) in lists {
            self.distinct(&[&list[..], &[a, b]].concat(), rank, "dimension_numbers")?;
            self.ensure(list.len() == spatial, || format!("dimension_numbers = {d:?}"))?;
        }
        Ok(())
    }

    /// Returns, for each spatial dimension, whether the kernel is reversed along it.
    fn kernel_reversal(&self, window: &Window, spatial: usize) -> Result<Vec<bool>> {
        let reversal = if window.reversal.is_empty() { vec![false; spatial] } else { window.reversal.clone() };
        self.ensure(reversal.len() == spatial, || format!("window_reversal = {reversal:?}"))?;
        Ok(reversal)
    }

    /// Returns the window over the spatial dimensions. The extents of the window are those of the kernel.
    fn kernel_window(&self, of: Attributes<'_>, k: &TensorType) -> Result<Spec> {
        let spatial = &of.dimensions.kernel_spatial;
        let extents: Vec<i64> = spatial.iter().map(|&s| i64::try_from(k.dims[s]).unwrap_or(i64::MAX)).collect();
        self.window_spec(of.window, &extents, spatial.len())
    }

    fn convolution_groups(&self, x: &TensorType, k: &TensorType, of: Attributes<'_>) -> Result<Groups> {
        let counts = self.sizes(&[of.feature_groups, of.batch_groups], 2, "group counts")?;
        let [feature_groups, batch_groups] = counts[..] else {
            return Err(self.invalid("group counts"));
        };
        let d = of.dimensions;
        let (batch, all_features) = (x.dims[d.input_batch], x.dims[d.input_feature]);
        let (features, outputs) = (k.dims[d.kernel_input_feature], k.dims[d.kernel_output_feature]);
        let count = feature_groups.max(batch_groups);
        let fits = feature_groups.min(batch_groups) == 1
            && batch % batch_groups == 0
            && features * feature_groups == all_features
            && outputs % count == 0;
        self.ensure(fits, || format!("{feature_groups} feature and {batch_groups} batch groups of {x} and {k}"))?;
        let (batch, outputs) = (batch / batch_groups, outputs / count);
        Ok(Groups { count, of_features: feature_groups > 1, batch, features, outputs })
    }

    fn convolution_output(&self, x: &TensorType, d: &ConvDimensions, window: &Spec, groups: &Groups) -> Result<Output> {
        let whole = input_window(d, window);
        let (_, padded) = self.padded(&x.dims, &whole, x.dtype.size())?;
        let fit = Self::fitting(&padded, &whole);
        let own = strides_of(&x.dims);
        let mut dims = vec![0; x.rank()];
        (dims[d.output_batch], dims[d.output_feature]) = (groups.batch, groups.outputs * groups.count);
        let mut along = vec![PatchStep::Batch(own[d.input_batch] as usize); x.rank()];
        let mut axes = Vec::with_capacity(d.output_spatial.len());
        for (i, (&to, &from)) in d.output_spatial.iter().zip(&d.input_spatial).enumerate() {
            dims[to] = if window.dimensions[i] == 0 { 0 } else { fit[from] };
            along[to] = PatchStep::Axis(i);
            let first = isize::try_from(window.padding[i].0.saturating_neg());
            axes.push(Axis {
                size: x.dims[from],
                stride: own[from] as usize,
                step: window.strides[i],
                first: first.map_err(|_| self.invalid("a padding is out of range"))?,
                base: window.base[i],
            });
        }
        Ok(Output { dims, along, axes })
    }
}

/// Returns the element type to which the operands are converted, and the one in which the convolution is computed.
/// Integers wrap, so sums of 32 bits yield the right bits for every narrower result. `pairs` is whether the features of
/// the input are contiguous, and their number is even.
fn computed_in(result: DType, operands: [DType; 2], pairs: bool) -> (DType, Element) {
    let fits = |dtype: DType| match dtype.computed() {
        DType::Bool | DType::I8 | DType::U8 | DType::I16 => true,
        // Products of these numbers as signed ones have the right low 16 bits only.
        DType::U16 => result.size() <= 2,
        _ => false,
    };
    match result {
        DType::F64 => (DType::F64, Element::F64),
        DType::F32 | DType::Bf16 | DType::F16 => (DType::F32, Element::F32),
        _ if result.is_narrow_float() => (DType::F32, Element::F32),
        _ if result.size() > 4 => (DType::I64, Element::I64),
        _ if pairs && operands.into_iter().all(fits) => (DType::I16, Element::I16x2),
        _ => (DType::I32, Element::I32),
    }
}

/// Returns the window over all dimensions of the input, including batch and feature.
fn input_window(d: &ConvDimensions, window: &Spec) -> Spec {
    let rank = d.input_spatial.len() + 2;
    let mut whole = Spec {
        dimensions: vec![1; rank],
        strides: vec![1; rank],
        base: vec![1; rank],
        dilations: vec![1; rank],
        padding: vec![(0, 0); rank],
    };
    for (i, &s) in d.input_spatial.iter().enumerate() {
        (whole.dimensions[s], whole.strides[s], whole.base[s]) =
            (window.dimensions[i], window.strides[i], window.base[i]);
        (whole.dilations[s], whole.padding[s]) = (window.dilations[i], window.padding[i]);
    }
    whole
}

/// Divides the output dimensions into outer dimensions and lines. Skips trailing dimensions of extent one.
fn patch_dimensions(output: &Output, feature: usize) -> PatchDimensions {
    let all: Vec<(usize, PatchStep)> = output.dims.iter().copied().zip(output.along.iter().copied()).collect();
    let (before, after) = (&all[..feature], &all[feature + 1..]);
    let features_last = after.iter().all(|&(extent, _)| extent == 1);
    let (outer, lines) = if features_last { (&[][..], before) } else { (before, after) };
    let mut lines = lines.to_vec();
    while lines.len() > 1 && lines.last().is_some_and(|&(extent, _)| extent == 1) {
        lines.pop();
    }
    PatchDimensions { outer: outer.to_vec(), lines, features_last }
}

/// Returns the view of the kernel as `[taps, input features / together, output features, together]`. Reversed taps have
/// negative strides.
fn kernel_view(dims: &[usize], d: &ConvDimensions, reversal: &[bool], together: usize) -> View {
    let own = strides_of(dims);
    let (mut extents, mut strides, mut offset) = (Vec::new(), Vec::new(), 0);
    for (&s, &reversed) in d.kernel_spatial.iter().zip(reversal) {
        extents.push(dims[s]);
        strides.push(if reversed { -own[s] } else { own[s] });
        offset += if reversed { own[s] as usize * dims[s].saturating_sub(1) } else { 0 };
    }
    let next = own[d.kernel_input_feature];
    extents.extend([dims[d.kernel_input_feature] / together, dims[d.kernel_output_feature], together]);
    strides.extend([next * together as isize, own[d.kernel_output_feature], next]);
    View::new(&extents, &strides, offset)
}
