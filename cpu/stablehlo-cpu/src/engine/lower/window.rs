//! Ops with sliding windows: `reduce_window` and `select_and_scatter`. `convolution` uses the same windows.
#![expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "positions are checked to lie in the padded tensor"
)]

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, OpKind, Region, Window};

use super::context::Padding;
use super::region::combine;
use super::shape::pad_plan;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::combine::Body;
use crate::engine::kernels::pool_gradient::{Axis, PoolGradient};
use crate::engine::kernels::reduce::identity;
use crate::engine::kernels::shape::Pad;
use crate::engine::kernels::window::{ReduceWindow, Running, SelectAndScatter, Sliding};
use crate::engine::scalar_fn::Combine;
use crate::engine::view::{View, strides_of};

/// Window attributes with the defaults filled in, with one element per dimension.
pub(super) struct Spec {
    pub(super) dimensions: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) base: Vec<usize>,
    pub(super) dilations: Vec<usize>,
    pub(super) padding: Vec<(i64, i64)>,
}

/// The padding that a window requires, and the padded extents. The first item also contains the number of elements of
/// the padded tensor. It is `None` if the window requires no padding.
pub(super) type Padded = (Option<(Pad, usize)>, Vec<usize>);

impl LoweringContext<'_, '_> {
    pub(super) fn window_spec(&self, window: &Window, dimensions: &[i64], rank: usize) -> Result<Spec> {
        let positive = |list: &[i64], what: &str| -> Result<Vec<usize>> {
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

    /// Plans the padding and the dilation that the window requires for a tensor of extents `dims`. An element has
    /// `size` bytes.
    pub(super) fn padded(&self, dims: &[usize], spec: &Spec, size: usize) -> Result<Padded> {
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

    /// Returns the number of windows along each dimension of a tensor with the padded extents `padded`.
    pub(super) fn fitting(padded: &[usize], spec: &Spec) -> Vec<usize> {
        let fit = |d: usize| {
            let reach = (spec.dimensions[d].max(1) - 1).checked_mul(spec.dilations[d]).and_then(|r| r.checked_add(1));
            match reach {
                Some(reach) if reach <= padded[d] => (padded[d] - reach) / spec.strides[d] + 1,
                _ => 0,
            }
        };
        (0..padded.len()).map(fit).collect()
    }

    /// Returns the windows over a tensor of these extents, and the number of windows along each dimension.
    fn sliding(&self, dims: &[usize], spec: &Spec, size: usize) -> Result<(Sliding, Vec<usize>)> {
        let (pad, padded) = self.padded(dims, spec, size)?;
        let fit = Self::fitting(&padded, spec);
        let own = strides_of(&padded);
        let strides: Vec<isize> = own.iter().zip(&spec.strides).map(|(&o, &s)| o.saturating_mul(s as isize)).collect();
        // A window that does not fit is never read, and its extents may be too large for a view.
        let elements = if fit.iter().all(|&f| f > 0) {
            let steps: Vec<isize> =
                own.iter().zip(&spec.dilations).map(|(&o, &d)| o.saturating_mul(d as isize)).collect();
            View::new(&spec.dimensions, &steps, 0)
        } else {
            View::new(&[], &[], 0)
        };
        Ok((Sliding { pad, firsts: View::new(&fit, &strides, 0), elements }, fit))
    }

    pub(super) fn reduce_window(&mut self, window: &Window) -> Result<()> {
        let (mut inputs, mut inits) = self.inputs_and_inits()?;
        let dtype = inputs[0].ty.dtype;
        let padding = self.joined_padding(window, &inputs, &inits);
        if let Some(padding) = &padding {
            inputs[0] = padding.of.clone();
        }
        // Accumulate sums and products of narrow floats in `f32`, so that they are rounded only once, at the end.
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
        let mut spec = self.window_spec(window, &window.dimensions, dims.len())?;
        if let Some(Padding { low, high, interior, .. }) = padding {
            for (d, (own_low, own_high)) in spec.padding.iter_mut().enumerate() {
                *own_low = own_low.saturating_add(low[d]);
                *own_high = own_high.saturating_add(high[d]);
                spec.base[d] = interior[d].saturating_add(1);
            }
        }
        if let ([x], [init], Some(Combine::Op(op))) = (&inputs[..], &inits[..], combine(region))
            && repeats(&dims, &spec)
            && self.is_neutral(op, init)
        {
            let y = self.repeated(op, x, init, &spec.base)?;
            let y = if accumulated { self.converted(y, dtype)? } else { y };
            return self.finish(vec![y]);
        }
        let fast =
            if inputs.len() == 1 { combine(region).and_then(|c| Body::fast(c, inputs[0].ty.dtype)) } else { None };
        let body = match fast {
            Some(body) => body,
            None => {
                let types = self.reducer_types(&inputs)?;
                let f = self.scalar_fn(region, &types)?;
                self.ensure(f.results[..] == types[..inputs.len()], || format!("the body returns {:?}", f.results))?;
                Body::Any(f)
            }
        };
        let mut ins: Vec<ValueIndex> = inputs.iter().chain(&inits).map(|t| t.value).collect();
        ins.extend(body.captured());
        if let ([x], [init], Some((axis, backwards))) = (&inputs[..], &inits[..], running(&dims, &spec))
            && self.counts_once(combine(region), init)
        {
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

    /// Returns whether a reduction with any number of initial values is one with a single initial value. The padding of
    /// a window contains initial values. Assumes so of bodies that are not a single op.
    fn counts_once(&self, combine: Option<Combine>, init: &TypedValue) -> bool {
        match combine {
            Some(Combine::Op(Binary::Maximum | Binary::Minimum | Binary::And | Binary::Or)) => true,
            Some(Combine::Op(op)) => self.is_neutral(op, init),
            _ => true,
        }
    }

    /// Returns the padding of the operand if the windows can contain it, because the element of both is the same.
    fn joined_padding(&self, window: &Window, inputs: &[TypedValue], inits: &[TypedValue]) -> Option<Padding> {
        let ([x], [init]) = (inputs, inits) else { return None };
        let padding = self.graph.padded.get(&x.value)?;
        let element = self.graph.splat(padding.element)?;
        let fits = window.base_dilations.iter().all(|&base| base == 1)
            && padding.low.iter().chain(&padding.high).all(|&extent| extent >= 0)
            && self.graph.splat(init.value) == Some(element);
        fits.then(|| padding.clone())
    }

    /// Returns whether `op` leaves every number unchanged if its other operand is `init`, except that -0 may become +0.
    fn is_neutral(&self, op: Binary, init: &TypedValue) -> bool {
        let zero = op == Binary::Add && self.graph.splat(init.value) == Some([0; 16]);
        zero || identity(op, init.ty.dtype).is_some_and(|identity| self.graph.splat(init.value) == Some(identity))
    }

    /// Returns `op(init, x)` with each element repeated `times[d]` times along each dimension `d`.
    fn repeated(&mut self, op: Binary, x: &TypedValue, init: &TypedValue, times: &[usize]) -> Result<TypedValue> {
        let (mut split, mut whole, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (&dim, &times) in x.ty.dims.iter().zip(times) {
            positions.push(split.len());
            split.push(dim);
            if times > 1 {
                split.push(times);
            }
            whole.push(dim.saturating_mul(times));
        }
        let (split, whole) = (self.typed(x.ty.dtype, &split)?, self.typed(x.ty.dtype, &whole)?);
        let repeated = self.broadcast(x, split, &positions)?.value;
        let init = self.broadcast(init, whole.clone(), &[])?;
        self.bin(op, &init, &TypedValue { value: repeated, ty: whole })
    }

    pub(super) fn select_and_scatter(&mut self, window: &Window) -> Result<()> {
        let [x, source, init] = self.take()?;
        let fits = init.ty.rank() == 0 && [source.ty.dtype, init.ty.dtype] == [x.ty.dtype; 2];
        self.ensure(fits, || format!("{}, {} and {}", x.ty, source.ty, init.ty))?;
        let mut spec = self.window_spec(window, &window.dimensions, x.ty.rank())?;
        let direction = self.op.regions.first().and_then(float_comparison);
        let size = x.ty.dtype.size();
        let (sliding, fit) = self.sliding(&x.ty.dims, &spec, size)?;
        self.ensure(fit[..] == source.ty.dims[..], || {
            format!("a source of type {} does not fit {fit:?} windows", source.ty)
        })?;
        let dilated = spec.base.iter().chain(&spec.dilations).any(|&dilation| dilation != 1);
        spec.base.fill(1);
        let (positions, _) = self.sliding(&x.ty.dims, &spec, 8)?;
        let [select, scatter] = &self.op.regions[..] else {
            return Err(self.invalid("must have two regions"));
        };
        let types = self.reducer_types(std::slice::from_ref(&x))?;
        let select = self.scalar_fn(select, &types)?;
        let pred = self.typed(DType::Bool, &[])?;
        self.ensure(select.results[..] == [pred], || format!("the select body returns {:?}", select.results))?;
        let combined = combine(scatter);
        let scatter = match combined.and_then(|c| Body::fast(c, x.ty.dtype)) {
            Some(body) => body,
            None => {
                let f = self.scalar_fn(scatter, &types)?;
                self.ensure(f.results[..] == types[..1], || format!("the scatter body returns {:?}", f.results))?;
                Body::Any(f)
            }
        };
        let mut ins = vec![x.value, source.value, init.value];
        if let (Some(direction), Some(Combine::Op(Binary::Add)), false) = (direction, combined, dilated)
            && let Some(kernel) = pool_gradient(&x.ty, &spec, &fit, direction)
        {
            let v = self.kernel(kernel, &ins, &[], std::slice::from_ref(&x.ty))[0];
            return self.finish_one(v, x.ty);
        }
        ins.extend(&select.captured);
        ins.extend(scatter.captured());
        let kernel = SelectAndScatter { sliding, positions, size, select, scatter };
        let v = self.kernel(kernel, &ins, &[], std::slice::from_ref(&x.ty))[0];
        self.finish_one(v, x.ty)
    }
}

/// Returns the direction of the comparison if a region only compares its two arguments, as floats or without a
/// comparison type.
fn float_comparison(region: &Region) -> Option<ComparisonDirection> {
    let [compare, ret] = &region.ops[..] else { return None };
    match compare.kind {
        OpKind::Compare { direction, compare_type: ComparisonType::Float | ComparisonType::NoType }
            if compare.operands[..] == region.args[..] && compare.results == ret.operands =>
        {
            Some(direction)
        }
        _ => None,
    }
}

/// Creates the kernel for a `select_and_scatter` that is the gradient of a max or min pooling. `fit` is the number of
/// windows in each dimension of `x`. Returns `None` if the kernel does not support the element type, the direction or
/// the padding, or if an image has no features.
fn pool_gradient(x: &TensorType, spec: &Spec, fit: &[usize], direction: ComparisonDirection) -> Option<PoolGradient> {
    let run = PoolGradient::run_fn(direction, x.dtype)?;
    let covered = |d: usize| {
        let single = spec.dimensions[d] == 1 && spec.strides[d] == 1 && spec.padding[d] == (0, 0);
        !(single && fit[d] == x.dims[d])
    };
    let rank = x.rank();
    let end = (0..rank).rev().find(|&d| covered(d)).map_or(0, |d| d + 1);
    let start = (0..end).find(|&d| covered(d)).unwrap_or(end);
    let own = strides_of(&x.dims);
    let mut axes = Vec::with_capacity(end - start);
    for d in start..end {
        axes.push(Axis {
            size: x.dims[d],
            stride: own[d] as usize,
            windows: fit[d],
            step: spec.strides[d],
            low: isize::try_from(spec.padding[d].0).ok()?,
            window: spec.dimensions[d],
        });
    }
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    let (images, features) = (product(&x.dims[..start]), product(&x.dims[end..]));
    (features > 0).then_some(PoolGradient { images, axes, features, run })
}

/// Returns whether each window contains exactly one element of the tensor, and the windows of neighbouring elements do
/// not overlap. The gradients of sums over windows side by side have such windows, because the tensor is dilated by the
/// size of the window.
fn repeats(dims: &[usize], spec: &Spec) -> bool {
    let side_by_side = |d: usize| {
        let n = spec.base[d];
        let edge = i64::try_from(n - 1);
        spec.dimensions[d] == n
            && spec.strides[d] == 1
            && (spec.dilations[d] == 1 || n == 1)
            && edge.is_ok_and(|edge| spec.padding[d] == (edge, edge))
    };
    spec.base.iter().any(|&base| base > 1) && dims.iter().all(|&dim| dim > 0) && (0..dims.len()).all(side_by_side)
}

/// Returns the dimension of a running reduction, and whether it runs backwards. The window of each element reaches back
/// to the start of the dimension, or forward to its end if the reduction runs backwards. Returns `None` for other
/// windows.
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
