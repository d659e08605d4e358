//! Ops that only move elements, and `get_dimension_size`.
#![expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "positions are checked to lie in the tensor first"
)]

use super::context::Padding;
use super::types::OuterProduct;
use super::{FOLDED, LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::kernels::shape::{Concatenate, DynamicSlice, DynamicUpdateSlice, Gathered, Pad, ReadIndex, Start};
use crate::engine::view::{View, strides_of};

impl LoweringContext<'_, '_> {
    pub(super) fn typed(&self, dtype: DType, dims: &[usize]) -> Result<TensorType> {
        TensorType::new(dtype, dims).map_err(|e| self.invalid(e.message()))
    }

    /// Checks that `list` contains distinct dimensions below `rank`.
    pub(super) fn distinct(&self, list: &[usize], rank: usize, what: &str) -> Result<()> {
        let fits = list.iter().enumerate().all(|(i, &d)| d < rank && !list[..i].contains(&d));
        self.ensure(fits, || format!("{what} = {list:?} for {rank} dimensions"))
    }

    /// Converts a list of extents or positions. `what` names the list in the error message. Returns an error if the
    /// list does not have `rank` elements or has a negative element.
    pub(super) fn sizes(&self, list: &[i64], rank: usize, what: &str) -> Result<Vec<usize>> {
        let sizes: Option<Vec<usize>> = list.iter().map(|&x| usize::try_from(x).ok()).collect();
        match sizes {
            Some(sizes) if sizes.len() == rank => Ok(sizes),
            _ => Err(self.invalid(format!("{what} = {list:?} for {rank} dimensions"))),
        }
    }

    pub(super) fn broadcast_in_dim(&mut self, dimensions: &[usize]) -> Result<()> {
        let [x] = self.take()?;
        let ty = TensorType { dtype: x.ty.dtype, ..self.result_type(0)? };
        let y = self.broadcast(&x, ty, dimensions)?;
        self.finish(vec![y])
    }

    /// Broadcasts `x` to `ty`. Dimension `i` of `x` becomes dimension `dimensions[i]` of the result.
    pub(super) fn broadcast(&mut self, x: &TypedValue, ty: TensorType, dimensions: &[usize]) -> Result<TypedValue> {
        self.distinct(dimensions, ty.rank(), "broadcast_dimensions")?;
        self.ensure(dimensions.len() == x.ty.rank(), || format!("broadcast_dimensions = {dimensions:?} for {}", x.ty))?;
        let mut strides = vec![0; ty.rank()];
        let own = strides_of(&x.ty.dims);
        for ((&d, &dim), &stride) in dimensions.iter().zip(x.ty.dims.iter()).zip(&own) {
            self.ensure(dim == 1 || dim == ty.dims[d], || format!("{} to {ty} along {dimensions:?}", x.ty))?;
            strides[d] = if dim == 1 { 0 } else { stride };
        }
        let v = self.load(x.value, View::new(&ty.dims, &strides, 0));
        Ok(TypedValue { value: v, ty })
    }

    pub(super) fn reshape(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let ty = TensorType { dtype: x.ty.dtype, ..self.result_type(0)? };
        self.ensure(ty.elements() == x.ty.elements(), || format!("{} to {ty}", x.ty))?;
        self.finish_one(x.value, ty)
    }

    /// Copies a view of `x` in a separate step. Returns the value of `x` without a copy if all elements of `x` are
    /// known to be equal, or if the view contains all elements of `x` in their order.
    fn gathered(&mut self, x: &TypedValue, view: View) -> u32 {
        if self.graph.splat(x.value).is_some()
            || (view.is_contiguous() && view.len() == x.ty.elements() && view.offset() == 0)
        {
            return x.value;
        }
        let size = x.ty.dtype.size();
        let ty = TensorType { dtype: x.ty.dtype, dims: [view.len()].into() };
        self.kernel(Gathered { view, size }, &[x.value], &[], &[ty])[0]
    }

    /// Permutes the dimensions of `x`.
    pub(super) fn permuted(&mut self, x: &TypedValue, permutation: &[usize]) -> Result<TypedValue> {
        let own = strides_of(&x.ty.dims);
        let dims: Vec<usize> = permutation.iter().map(|&p| x.ty.dims[p]).collect();
        let strides: Vec<isize> = permutation.iter().map(|&p| own[p]).collect();
        let ty = self.typed(x.ty.dtype, &dims)?;
        if let Some(product) = self.graph.outer_products.get(&x.value).filter(|product| product.ty == x.ty).cloned() {
            let strides = product.strides.map(|of| permutation.iter().map(|&p| of[p]).collect());
            return self.outer_product(OuterProduct { ty, strides, ..product });
        }
        let v = self.gathered(x, View::new(&dims, &strides, 0));
        if v != x.value {
            self.graph.transposed.insert(v, (x.clone(), permutation.to_vec()));
        }
        Ok(TypedValue { value: v, ty })
    }

    pub(super) fn transpose(&mut self, permutation: &[usize]) -> Result<()> {
        let [x] = self.take()?;
        self.distinct(permutation, x.ty.rank(), "permutation")?;
        self.ensure(permutation.len() == x.ty.rank(), || format!("permutation = {permutation:?} for {}", x.ty))?;
        let y = self.permuted(&x, permutation)?;
        self.finish(vec![y])
    }

    pub(super) fn reverse(&mut self, dimensions: &[usize]) -> Result<()> {
        let [x] = self.take()?;
        self.distinct(dimensions, x.ty.rank(), "dimensions")?;
        let mut strides = strides_of(&x.ty.dims);
        let mut offset = 0isize;
        for &d in dimensions {
            offset += strides[d] * x.ty.dims[d].saturating_sub(1) as isize;
            strides[d] = -strides[d];
        }
        let v = self.gathered(&x, View::new(&x.ty.dims, &strides, offset as usize));
        self.finish_one(v, x.ty)
    }

    pub(super) fn slice(&mut self, starts: &[i64], limits: &[i64], steps: &[i64]) -> Result<()> {
        let [x] = self.take()?;
        let y = self.sliced(&x, starts, limits, steps)?;
        self.finish(vec![y])
    }

    /// Returns a strided slice of `x`.
    pub(super) fn sliced(
        &mut self,
        x: &TypedValue,
        starts: &[i64],
        limits: &[i64],
        steps: &[i64],
    ) -> Result<TypedValue> {
        let rank = x.ty.rank();
        let starts = self.sizes(starts, rank, "start_indices")?;
        let limits = self.sizes(limits, rank, "limit_indices")?;
        let steps = self.sizes(steps, rank, "strides")?;
        let own = strides_of(&x.ty.dims);
        let (mut dims, mut strides, mut offset) = (Vec::new(), Vec::new(), 0);
        for d in 0..rank {
            let (start, limit, step) = (starts[d], limits[d], steps[d]);
            let fits = start <= limit && limit <= x.ty.dims[d] && step > 0;
            self.ensure(fits, || format!("[{start}:{limit}:{step}] of dimension {d} of {}", x.ty))?;
            dims.push((limit - start).div_ceil(step));
            strides.push(own[d].saturating_mul(isize::try_from(step).unwrap_or(isize::MAX)));
            offset += start * own[d] as usize;
        }
        let ty = self.typed(x.ty.dtype, &dims)?;
        let v = self.load(x.value, View::new(&dims, &strides, offset));
        Ok(TypedValue { value: v, ty })
    }

    /// Returns how to read the start indices of a slice with extents `sizes` of an array with extents `dims`. Each
    /// start index must be an integer scalar.
    fn starts(&self, operands: &[TypedValue], dims: &[usize], sizes: &[usize]) -> Result<Vec<Start>> {
        self.ensure(operands.len() == dims.len(), || {
            format!("{} start indices for {} dimensions", operands.len(), dims.len())
        })?;
        let own = strides_of(dims);
        let mut starts = Vec::with_capacity(dims.len());
        for (d, operand) in operands.iter().enumerate() {
            self.ensure(operand.ty.rank() == 0, || format!("a start index of type {}", operand.ty))?;
            let read = ReadIndex::new(operand.ty.dtype.computed()).ok_or_else(|| self.unsupported())?;
            self.ensure(sizes[d] <= dims[d], || format!("a slice of {} in a dimension of {}", sizes[d], dims[d]))?;
            starts.push(Start { read, max: dims[d] - sizes[d], stride: own[d] as usize });
        }
        Ok(starts)
    }

    pub(super) fn dynamic_slice(&mut self, slice_sizes: &[i64]) -> Result<()> {
        let operands = self.operands()?;
        self.dynamic_slice_of(&operands, slice_sizes)
    }

    pub(super) fn dynamic_slice_of(&mut self, operands: &[TypedValue], slice_sizes: &[i64]) -> Result<()> {
        let Some((x, indices)) = operands.split_first() else {
            return Err(self.invalid("must have an operand"));
        };
        let sizes = self.sizes(slice_sizes, x.ty.rank(), "slice_sizes")?;
        let starts = self.starts(indices, &x.ty.dims, &sizes)?;
        let ty = self.typed(x.ty.dtype, &sizes)?;
        if sizes[..] == x.ty.dims[..] {
            return self.finish_one(x.value, ty);
        }
        let view = View::new(&sizes, &strides_of(&x.ty.dims), 0);
        let ins: Vec<u32> = operands.iter().map(|o| o.value).collect();
        let kernel = DynamicSlice { view, starts, size: ty.dtype.size() };
        let v = self.kernel(kernel, &ins, &[], std::slice::from_ref(&ty))[0];
        self.finish_one(v, ty)
    }

    pub(super) fn dynamic_update_slice(&mut self) -> Result<()> {
        let operands = self.operands()?;
        let [x, update, indices @ ..] = &operands[..] else {
            return Err(self.invalid("must have at least two operands"));
        };
        let fits = x.ty.dtype == update.ty.dtype && x.ty.rank() == update.ty.rank();
        self.ensure(fits, || format!("an update has type {}, which does not fit {}", update.ty, x.ty))?;
        let starts = self.starts(indices, &x.ty.dims, &update.ty.dims)?;
        let ty = x.ty.clone();
        if update.ty == x.ty {
            return self.finish_one(update.value, ty);
        }
        let view = View::new(&update.ty.dims, &strides_of(&x.ty.dims), 0);
        let ins: Vec<u32> = operands.iter().map(|o| o.value).collect();
        let kernel = DynamicUpdateSlice { view, starts, size: ty.dtype.size() };
        let v = self.kernel(kernel, &ins, &[Some(0)], std::slice::from_ref(&ty))[0];
        self.finish_one(v, ty)
    }

    pub(super) fn concatenate(&mut self, dimension: usize) -> Result<()> {
        let operands = self.operands()?;
        let y = self.concatenated(&operands, dimension)?;
        self.finish(vec![y])
    }

    pub(super) fn concatenated(&mut self, operands: &[TypedValue], dimension: usize) -> Result<TypedValue> {
        let Some(first) = operands.first() else {
            return Err(self.invalid("must have an operand"));
        };
        self.ensure(dimension < first.ty.rank(), || format!("dimension {dimension} of {}", first.ty))?;
        let mut dims = first.ty.dims.to_vec();
        dims[dimension] = 0;
        let mut inner: usize = first.ty.dims[dimension + 1..].iter().product();
        inner *= first.ty.dtype.size();
        let mut chunks = Vec::with_capacity(operands.len());
        for x in operands {
            let mut expected = dims.clone();
            let extent = x.ty.dims.get(dimension).copied().unwrap_or(0);
            expected[dimension] = extent;
            let fits = x.ty.dtype == first.ty.dtype && x.ty.dims[..] == expected[..];
            self.ensure(fits, || format!("{} beside {}", x.ty, first.ty))?;
            chunks.push(extent * inner);
        }
        let extents = operands.iter().try_fold(0usize, |sum, x| sum.checked_add(x.ty.dims[dimension]));
        dims[dimension] = extents.ok_or_else(|| self.invalid("the result is larger than the address space"))?;
        let ty = self.typed(first.ty.dtype, &dims)?;
        if let [only] = operands {
            return Ok(TypedValue { value: only.value, ty });
        }
        if ty.elements() <= FOLDED
            && let Some(parts) = operands.iter().map(|x| self.known(x.value)).collect::<Option<Vec<_>>>()
            && dims[..dimension].iter().all(|&d| d == 1)
        {
            let value = self.dense(&ty, &parts.concat())?;
            return Ok(TypedValue { value, ty });
        }
        let row = dims[dimension] * inner;
        let ins: Vec<u32> = operands.iter().map(|o| o.value).collect();
        let value = self.kernel(Concatenate { chunks, row }, &ins, &[], std::slice::from_ref(&ty))[0];
        Ok(TypedValue { value, ty })
    }

    pub(super) fn pad(&mut self, low: &[i64], high: &[i64], interior: &[i64]) -> Result<()> {
        let [x, element] = self.take()?;
        let y = self.padded_with(&x, &element, low, high, interior)?;
        self.finish(vec![y])
    }

    /// Pads `x` with `element` around and between its elements.
    pub(super) fn padded_with(
        &mut self,
        x: &TypedValue,
        element: &TypedValue,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Result<TypedValue> {
        let rank = x.ty.rank();
        let fits = element.ty.rank() == 0 && element.ty.dtype == x.ty.dtype;
        self.ensure(fits, || format!("a padding value of type {} for {}", element.ty, x.ty))?;
        self.ensure(low.len() == rank && high.len() == rank, || format!("paddings {low:?} and {high:?} for {}", x.ty))?;
        let interior = self.sizes(interior, rank, "interior_padding")?;
        let plan = pad_plan(&x.ty.dims, low, high, &interior);
        let plan = plan.ok_or_else(|| self.invalid(format!("paddings {low:?} and {high:?} for {}", x.ty)))?;
        let ty = self.typed(x.ty.dtype, &plan.dims)?;
        let v = match (self.graph.splat(x.value), self.graph.splat(element.value)) {
            (Some(a), Some(b)) if a == b => {
                let size = x.ty.dtype.size();
                self.graph.splat_value(&a[..size], ty.elements())
            }
            _ if plan.dims[..] == x.ty.dims[..] && plan.from.len() == x.ty.elements() => x.value,
            _ => {
                let kernel = Pad { from: plan.from, to: plan.to, size: ty.dtype.size() };
                let v = self.kernel(kernel, &[x.value, element.value], &[], std::slice::from_ref(&ty))[0];
                let (low, high) = (low.to_vec(), high.to_vec());
                self.graph.padded.insert(v, Padding { of: x.clone(), element: element.value, low, high, interior });
                v
            }
        };
        Ok(TypedValue { value: v, ty })
    }

    pub(super) fn get_dimension_size(&mut self, dimension: usize) -> Result<()> {
        let [x] = self.take()?;
        self.ensure(dimension < x.ty.rank(), || format!("dimension {dimension} of {}", x.ty))?;
        let ty = self.typed(DType::I32, &[])?;
        let size = i32::try_from(x.ty.dims[dimension]).map_err(|_| self.invalid("the extent exceeds i32"))?;
        let v = self.graph.splat_value(&size.to_ne_bytes(), 1);
        self.finish_one(v, ty)
    }
}

/// A plan for padding an operand. `dims` are the extents of the padded tensor. `from` is a view of the operand's
/// elements that are kept, and `to` is a view of their positions in the padded tensor.
pub(super) struct PadPlan {
    pub(super) dims: Vec<usize>,
    pub(super) from: View,
    pub(super) to: View,
}

/// Plans the padding of an operand with extents `dims`. Returns `None` if an extent would be negative or overflow.
pub(super) fn pad_plan(dims: &[usize], low: &[i64], high: &[i64], interior: &[usize]) -> Option<PadPlan> {
    let own = strides_of(dims);
    let mut result = Vec::with_capacity(dims.len());
    let (mut kept, mut first, mut at, mut steps) = (Vec::new(), 0usize, Vec::new(), Vec::new());
    for d in 0..dims.len() {
        let dim = i64::try_from(dims[d]).ok()?;
        let step = i64::try_from(interior[d]).ok()?.checked_add(1)?;
        let spread = if dim == 0 { 0 } else { (dim - 1).checked_mul(step)?.checked_add(1)? };
        let extent = spread.checked_add(low[d])?.checked_add(high[d])?;
        result.push(usize::try_from(extent).ok()?);
        // Keep the elements i with 0 <= low + i * step < extent.
        let begin = if low[d] < 0 { low[d].checked_neg()?.checked_add(step - 1)? / step } else { 0 };
        let beyond = if extent > low[d] { extent.checked_sub(low[d])?.checked_add(step - 1)? / step } else { 0 };
        let end = dim.min(beyond);
        let count = usize::try_from((end - begin).max(0)).ok()?;
        kept.push(count);
        if count > 0 {
            first += usize::try_from(begin).ok()? * own[d] as usize;
            at.push(usize::try_from(low[d] + begin * step).ok()?);
        } else {
            at.push(0);
        }
        steps.push(isize::try_from(step).ok()?);
    }
    let to = strides_of(&result);
    let offset = at.iter().zip(&to).map(|(&a, &s)| a * s as usize).sum();
    let strides: Vec<isize> = to.iter().zip(&steps).map(|(&s, &step)| s.saturating_mul(step)).collect();
    Some(PadPlan { from: View::new(&kept, &own, first), to: View::new(&kept, &strides, offset), dims: result })
}
