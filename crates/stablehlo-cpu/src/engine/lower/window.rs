//! Ops with sliding windows: `reduce_window`, `select_and_scatter`, `convolution`.
#![expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "positions are checked to lie in the padded tensor"
)]

use stablehlo::ir::{Binary, ConvDimensions, Window};

use super::region::combine;
use super::shape::pad_plan;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::combine::Body;
use crate::engine::kernels::conv::{Along, Axis, Convolution, Element, Patches};
use crate::engine::kernels::shape::Pad;
use crate::engine::kernels::window::{ReduceWindow, Running, SelectAndScatter, Sliding};
use crate::engine::scalar_fn::Combine;
use crate::engine::view::{View, strides_of};

/// Window attributes with the defaults filled in, one entry per dimension.
struct Spec {
    dimensions: Vec<usize>,
    strides: Vec<usize>,
    base: Vec<usize>,
    dilations: Vec<usize>,
    padding: Vec<(i64, i64)>,
}

/// The padding of a window, if any, with the size of the padded tensor. The second part are the padded extents.
type Padded = (Option<(Pad, usize)>, Vec<usize>);

impl<'m> LoweringContext<'_, 'm> {
    fn window_spec(&self, window: &Window, dimensions: &[i64], rank: usize) -> Result<Spec> {
        let positive = |list: &[i64], what: &str| {
            let list = if list.is_empty() { vec![1; rank] } else { list.to_vec() };
            let sizes = self.sizes(&list, rank, what)?;
            self.ensure(sizes.iter().all(|&s| s > 0), || format!("{what} = {list:?}"))?;
            Ok(sizes)
        };
        let padding = if window.padding.is_empty() { vec![(0, 0); rank] } else { window.padding.clone() };
        self.ensure(padding.len() == rank, || format!("padding = {padding:?} for {rank} dimensions"))?;
        Ok(Spec {
            dimensions: self.sizes(dimensions, rank, "window_dimensions")?,
            strides: positive(&window.strides, "window_strides")?,
            base: positive(&window.base_dilations, "base_dilations")?,
            dilations: positive(&window.window_dilations, "window_dilations")?,
            padding,
        })
    }

    /// Pads and dilates `dims` as the window requires.
    fn padded(&self, dims: &[usize], spec: &Spec, size: usize) -> Result<Padded> {
        let low: Vec<i64> = spec.padding.iter().map(|p| p.0).collect();
        let high: Vec<i64> = spec.padding.iter().map(|p| p.1).collect();
        let interior: Vec<usize> = spec.base.iter().map(|b| b - 1).collect();
        let plan = pad_plan(dims, &low, &high, &interior);
        let plan = plan.ok_or_else(|| self.invalid(format!("padding {:?} of {dims:?}", spec.padding)))?;
        if plan.dims == dims && plan.from.len() == dims.iter().product::<usize>() {
            return Ok((None, plan.dims));
        }
        let elements = self.typed(DType::C128, &plan.dims)?.elements();
        Ok((Some((Pad { from: plan.from, to: plan.to, size }, elements)), plan.dims))
    }

    /// The number of windows along each dimension.
    fn fitting(padded: &[usize], spec: &Spec) -> Vec<usize> {
        let fit = |d: usize| {
            let reach = (spec.dimensions[d].max(1) - 1).checked_mul(spec.dilations[d]).and_then(|r| r.checked_add(1));
            match reach {
                Some(reach) if reach <= padded[d] => (padded[d] - reach) / spec.strides[d] + 1,
                _ => 0,
            }
        };
        (0..padded.len()).map(fit).collect()
    }

    /// The windows over a tensor of these extents, and their number along each dimension.
    fn sliding(&self, dims: &[usize], spec: &Spec, size: usize) -> Result<(Sliding, Vec<usize>)> {
        let (pad, padded) = self.padded(dims, spec, size)?;
        let fit = Self::fitting(&padded, spec);
        let own = strides_of(&padded);
        let strides: Vec<isize> = own.iter().zip(&spec.strides).map(|(&o, &s)| o.saturating_mul(s as isize)).collect();
        self.listable(spec.dimensions.iter().copied())?;
        let mut offsets = vec![0];
        if fit.iter().all(|&f| f > 0) {
            for (d, &stride) in own.iter().enumerate() {
                let step = stride as usize * spec.dilations[d];
                offsets = offsets.iter().flat_map(|&at| (0..spec.dimensions[d]).map(move |i| at + i * step)).collect();
            }
        }
        Ok((Sliding { pad, firsts: View::new(&fit, &strides, 0), offsets }, fit))
    }

    pub(super) fn reduce_window(&mut self, window: &Window) -> Result<()> {
        let (mut inputs, mut inits) = self.inputs_and_inits()?;
        let dtype = inputs[0].ty.dtype;
        // Sums and products of narrow floats are rounded only once, at the end.
        let sums = [Combine::Op(Binary::Add), Combine::Op(Binary::Multiply)];
        let region = self.body()?;
        let accumulated = inputs.len() == 1
            && combine(region).is_some_and(|c| sums.contains(&c))
            && (dtype.is_narrow_float() || matches!(dtype, DType::Bf16 | DType::F16));
        if accumulated {
            inputs[0] = self.converted(inputs[0].clone(), DType::F32)?;
            inits[0] = self.converted(inits[0].clone(), DType::F32)?;
        }
        let dims = inputs[0].ty.dims.clone();
        let spec = self.window_spec(window, &window.dimensions, dims.len())?;
        let fast =
            if inputs.len() == 1 { combine(region).and_then(|c| Body::fast(c, inputs[0].ty.dtype)) } else { None };
        let body = match fast {
            Some(body) => body,
            None => {
                let types = self.reducer_types(&inputs)?;
                let f = self.scalar_fn(region, &types)?;
                self.ensure(f.results[..] == types[..inputs.len()], || format!("a body returning {:?}", f.results))?;
                Body::Any(f)
            }
        };
        let mut ins: Vec<ValueIndex> = inputs.iter().chain(&inits).map(|t| t.value).collect();
        ins.extend(body.captured());
        if let ([x], Some((axis, backwards))) = (&inputs[..], running(&dims, &spec)) {
            let kernel = Running {
                outer: dims[..axis].iter().product(),
                n: dims[axis],
                inner: dims[axis + 1..].iter().product(),
                size: x.ty.dtype.size(),
                backwards,
                body,
            };
            let ty = x.ty.clone();
            let v = self.kernel(kernel, &ins, &[], std::slice::from_ref(&ty))[0];
            let y = TypedValue { value: v, ty };
            let y = if accumulated { self.converted(y, dtype)? } else { y };
            return self.finish(vec![y]);
        }
        let mut slidings = Vec::with_capacity(inputs.len());
        let mut types: Vec<TensorType> = Vec::with_capacity(inputs.len());
        for x in &inputs {
            let (sliding, fit) = self.sliding(&dims, &spec, x.ty.dtype.size())?;
            types.push(self.typed(x.ty.dtype, &fit)?);
            slidings.push(sliding);
        }
        let sizes = types.iter().map(|t| t.dtype.size()).collect();
        let outs = self.kernel(ReduceWindow { slidings, sizes, body }, &ins, &[], &types);
        if accumulated {
            let y = self.converted(TypedValue { value: outs[0], ty: types[0].clone() }, dtype)?;
            return self.finish(vec![y]);
        }
        self.finish(outs.into_iter().zip(types).map(|(v, ty)| TypedValue { value: v, ty }).collect())
    }

    pub(super) fn select_and_scatter(&mut self, window: &Window) -> Result<()> {
        let [x, source, init] = self.take()?;
        let fits = init.ty.rank() == 0 && [source.ty.dtype, init.ty.dtype] == [x.ty.dtype; 2];
        self.ensure(fits, || format!("{}, {} and {}", x.ty, source.ty, init.ty))?;
        let mut spec = self.window_spec(window, &window.dimensions, x.ty.rank())?;
        let size = x.ty.dtype.size();
        let (sliding, fit) = self.sliding(&x.ty.dims, &spec, size)?;
        self.ensure(fit[..] == source.ty.dims[..], || format!("a source of type {} for {fit:?} windows", source.ty))?;
        spec.base.fill(1);
        let (positions, _) = self.sliding(&x.ty.dims, &spec, 8)?;
        let [select, scatter] = &self.op.regions[..] else {
            return Err(self.invalid("two regions are needed"));
        };
        let types = self.reducer_types(std::slice::from_ref(&x))?;
        let select = self.scalar_fn(select, &types)?;
        let pred = self.typed(DType::Bool, &[])?;
        self.ensure(select.results[..] == [pred], || format!("a select body returning {:?}", select.results))?;
        let scatter = match combine(scatter).and_then(|c| Body::fast(c, x.ty.dtype)) {
            Some(body) => body,
            None => {
                let f = self.scalar_fn(scatter, &types)?;
                self.ensure(f.results[..] == types[..1], || format!("a scatter body returning {:?}", f.results))?;
                Body::Any(f)
            }
        };
        let mut ins = vec![x.value, source.value, init.value];
        ins.extend(&select.captured);
        ins.extend(scatter.captured());
        let kernel = SelectAndScatter { sliding, positions, size, select, scatter };
        let v = self.kernel(kernel, &ins, &[], std::slice::from_ref(&x.ty))[0];
        self.finish_one(v, x.ty)
    }

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
        d: &ConvDimensions,
        window: &Window,
        groups: i64,
        batch_groups: i64,
    ) -> Result<()> {
        let dtype = self.result_dtype(0)?;
        let y = self.convolved(x, k, d, window, [groups, batch_groups], dtype)?;
        self.finish(vec![y])
    }

    fn convolved(
        &mut self,
        x: TypedValue,
        k: TypedValue,
        d: &ConvDimensions,
        window: &Window,
        counts: [i64; 2],
        dtype: DType,
    ) -> Result<TypedValue> {
        if let Some(part) = dtype.part() {
            return self.by_parts(x, k, dtype, |cx, x, k| cx.convolved(x, k, d, window, counts, part));
        }
        let (rank, spatial) = (x.ty.rank(), d.input_spatial.len());
        let lists = [
            (&d.input_spatial, d.input_batch, d.input_feature),
            (&d.kernel_spatial, d.kernel_input_feature, d.kernel_output_feature),
            (&d.output_spatial, d.output_batch, d.output_feature),
        ];
        self.ensure(k.ty.rank() == rank && spatial + 2 == rank, || format!("{} and {}", x.ty, k.ty))?;
        for (list, a, b) in lists {
            self.distinct(&[&list[..], &[a, b]].concat(), rank, "dimension_numbers")?;
            self.ensure(list.len() == spatial, || format!("dimension_numbers = {d:?}"))?;
        }
        let reversal = if window.reversal.is_empty() { vec![false; spatial] } else { window.reversal.clone() };
        self.ensure(reversal.len() == spatial, || format!("window_reversal = {reversal:?}"))?;
        let taps: Vec<i64> =
            d.kernel_spatial.iter().map(|&s| i64::try_from(k.ty.dims[s]).unwrap_or(i64::MAX)).collect();
        let local = self.window_spec(window, &taps, spatial)?;
        let [groups, batch_groups] = self.sizes(&counts, 2, "group counts")?[..] else {
            return Err(self.invalid("group counts"));
        };
        let (batch, features) = (x.ty.dims[d.input_batch], x.ty.dims[d.input_feature]);
        let (per_group, outputs) = (k.ty.dims[d.kernel_input_feature], k.ty.dims[d.kernel_output_feature]);
        let count = groups.max(batch_groups);
        let fits = groups.min(batch_groups) == 1
            && batch % batch_groups == 0
            && per_group * groups == features
            && outputs % count == 0;
        self.ensure(fits, || format!("{groups} feature and {batch_groups} batch groups of {} and {}", x.ty, k.ty))?;
        // Integers wrap, so computing with 64 bits yields the right bits for every width.
        let (wide, element) = match dtype {
            DType::F64 => (DType::F64, Element::F64),
            DType::F32 | DType::Bf16 | DType::F16 => (DType::F32, Element::F32),
            _ if dtype.is_narrow_float() => (DType::F32, Element::F32),
            _ => (DType::I64, Element::I64),
        };
        let x = self.converted(x, wide)?;
        let k = self.converted(k, wide)?;
        // A window over all dimensions of the input, including batch and feature.
        let mut spec = Spec {
            dimensions: vec![1; rank],
            strides: vec![1; rank],
            base: vec![1; rank],
            dilations: vec![1; rank],
            padding: vec![(0, 0); rank],
        };
        for (i, &s) in d.input_spatial.iter().enumerate() {
            (spec.dimensions[s], spec.strides[s], spec.base[s]) =
                (local.dimensions[i], local.strides[i], local.base[i]);
            (spec.dilations[s], spec.padding[s]) = (local.dilations[i], local.padding[i]);
        }
        let (_, padded) = self.padded(&x.ty.dims, &spec, wide.size())?;
        let fit = Self::fitting(&padded, &spec);
        let own = strides_of(&x.ty.dims);
        let mut dims = vec![0; rank];
        (dims[d.output_batch], dims[d.output_feature]) = (batch / batch_groups, outputs);
        // What an index in each dimension of the output selects. The feature dimension is not used.
        let mut along = vec![Along::Batch(own[d.input_batch] as usize); rank];
        let mut axes = Vec::with_capacity(spatial);
        for (i, &s) in d.output_spatial.iter().enumerate() {
            let from = d.input_spatial[i];
            dims[s] = if local.dimensions[i] == 0 { 0 } else { fit[from] };
            along[s] = Along::Axis(i);
            axes.push(Axis {
                size: x.ty.dims[from],
                stride: own[from] as usize,
                step: local.strides[i],
                first: isize::try_from(local.padding[i].0.saturating_neg())
                    .map_err(|_| self.invalid("a padding out of range"))?,
                base: local.base[i],
            });
        }
        let ty = self.typed(wide, &dims)?;
        let all: Vec<(usize, Along)> = dims.iter().copied().zip(along).collect();
        let (before, after) = (&all[..d.output_feature], &all[d.output_feature + 1..]);
        // Skips dimensions of extent one.
        let features_last = after.iter().all(|&(extent, _)| extent == 1);
        let (outer, lines) = if features_last { (&[][..], before) } else { (before, after) };
        let mut lines = lines.to_vec();
        while lines.len() > 1 && lines.last().is_some_and(|&(extent, _)| extent == 1) {
            lines.pop();
        }
        self.listable(local.dimensions.iter().copied())?;
        let mut taps: Vec<Vec<isize>> = vec![Vec::new()];
        for (&size, &dilation) in local.dimensions.iter().zip(&local.dilations) {
            let places = |tap: &Vec<isize>| {
                let tap = tap.clone();
                (0..size)
                    .map(move |i| [&tap[..], &[(i as isize).saturating_mul(dilation as isize)]].concat())
                    .collect::<Vec<_>>()
            };
            taps = taps.iter().flat_map(places).collect();
        }
        // The kernel in the form [taps, input features, output features]. Reversed taps have negative strides.
        let own_k = strides_of(&k.ty.dims);
        let (mut sizes_k, mut strides_k, mut offset_k) = (Vec::new(), Vec::new(), 0);
        for (i, &s) in d.kernel_spatial.iter().enumerate() {
            sizes_k.push(k.ty.dims[s]);
            strides_k.push(if reversal[i] { -own_k[s] } else { own_k[s] });
            offset_k += if reversal[i] { own_k[s] as usize * k.ty.dims[s].saturating_sub(1) } else { 0 };
        }
        sizes_k.extend([per_group, outputs]);
        strides_k.extend([own_k[d.kernel_input_feature], own_k[d.kernel_output_feature]]);
        let kernel = Convolution {
            patches: Patches {
                axes,
                outer: outer.to_vec(),
                lines,
                tap_count: taps.len(),
                taps: taps.concat(),
                features: per_group,
                feature: own[d.input_feature] as usize,
            },
            next: if groups > 1 {
                per_group * own[d.input_feature] as usize
            } else {
                batch / batch_groups * own[d.input_batch] as usize
            },
            groups: count,
            kernel: View::new(&sizes_k, &strides_k, offset_k),
            share: outputs / count,
            features_last,
            element,
        };
        let v = self.kernel(kernel, &[x.value, k.value], &[], std::slice::from_ref(&ty))[0];
        self.converted(TypedValue { value: v, ty }, dtype)
    }
}

/// The dimension along which each element's window reaches back to the start. The flag is set if the windows reach
/// forward to the end instead.
fn running(dims: &[usize], spec: &Spec) -> Option<(usize, bool)> {
    let plain = |d: usize| spec.strides[d] == 1 && spec.base[d] == 1 && spec.dilations[d] == 1;
    let mut found = None;
    for (d, &dim) in dims.iter().enumerate() {
        if !plain(d) {
            return None;
        }
        let reach = i64::try_from(dim).ok()? - 1;
        match (spec.dimensions[d], spec.padding[d]) {
            (1, (0, 0)) => {}
            (n, padding) if n == dim && n > 1 && found.is_none() && padding == (reach, 0) => found = Some((d, false)),
            (n, padding) if n == dim && n > 1 && found.is_none() && padding == (0, reach) => found = Some((d, true)),
            _ => return None,
        }
    }
    found
}
