//! Lowers `gather` and `scatter`.
#![expect(clippy::cast_sign_loss, reason = "row-major strides are not negative")]

use stablehlo::ir::{GatherDimensions, ScatterDimensions};

use super::linear::rest;
use super::region::combine;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::TensorType;
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::combine::Body;
use crate::engine::kernels::index::{Gather, Scatter, Windows};
use crate::engine::kernels::shape::ReadIndex;
use crate::engine::view::{View, strides_of};

/// The dimension numbers that `gather` and `scatter` share, under `gather`'s names.
struct Places<'a> {
    collapsed: &'a [usize],
    batching: &'a [usize],
    index_batching: &'a [usize],
    map: &'a [usize],
    vector: usize,
}

impl<'m> LoweringContext<'_, 'm> {
    /// Returns the windows of extents `sizes` in a tensor of extents `dims`, and the index tensor with the index
    /// vectors in its last dimension.
    fn windows(
        &mut self,
        dims: &[usize],
        sizes: &[usize],
        indices: &TypedValue,
        p: &Places,
    ) -> Result<(Windows, ValueIndex)> {
        let rank = dims.len();
        let mut dropped = p.collapsed.to_vec();
        dropped.extend(p.batching);
        self.distinct(&dropped, rank, "collapsed and batching dimensions")?;
        self.distinct(p.map, rank, "start_index_map")?;
        self.ensure(p.vector <= indices.ty.rank(), || format!("index_vector_dim = {} of {}", p.vector, indices.ty))?;
        self.distinct(p.index_batching, indices.ty.rank(), "start_indices_batching_dims")?;
        let fits = p.batching.len() == p.index_batching.len()
            && !p.index_batching.contains(&p.vector)
            && p.batching.iter().zip(p.index_batching).all(|(&o, &i)| dims[o] == indices.ty.dims[i])
            && dropped.iter().all(|&d| sizes[d] <= 1)
            && sizes.iter().zip(dims).all(|(s, d)| s <= d);
        self.ensure(fits, || format!("a window of {sizes:?} in {dims:?} with batching {:?}", p.batching))?;
        let length = if p.vector == indices.ty.rank() { 1 } else { indices.ty.dims[p.vector] };
        self.ensure(p.map.len() == length, || format!("index vectors of {length} for {:?}", p.map))?;
        let read = ReadIndex::new(indices.ty.dtype.computed()).ok_or_else(|| self.unsupported())?;
        let batch = rest(indices.ty.rank(), &[p.vector], &[]);
        let own = strides_of(dims);
        let base = (!p.batching.is_empty()).then(|| {
            let extents: Vec<usize> = batch.iter().map(|&b| indices.ty.dims[b]).collect();
            let stride = |b| p.index_batching.iter().position(|&i| i == b).map_or(0, |i| own[p.batching[i]]);
            View::new(&extents, &batch.iter().copied().map(stride).collect::<Vec<_>>(), 0)
        });
        // The only window of a batch has no offset.
        let base = base.filter(|base| base.len() > 1);
        // A contiguous run of a window consists of the innermost dimensions that the window covers completely, and of
        // one more dimension.
        let (mut run, mut axis) = (1, rank);
        while axis > 0 {
            axis -= 1;
            run *= sizes[axis];
            if sizes[axis] != dims[axis] {
                break;
            }
        }
        let runs = View::new(&sizes[..axis], &own[..axis], 0);
        let mut order = batch.clone();
        order.extend((p.vector < indices.ty.rank()).then_some(p.vector));
        let indices = self.permuted(indices, &order)?;
        let count = batch.iter().enumerate().map(|(i, _)| indices.ty.dims[i]).product();
        let parts = p.map.iter().map(|&d| (dims[d] - sizes[d], own[d] as usize)).collect();
        Ok((Windows { read, count, parts, base, runs, run }, indices.value))
    }

    pub(super) fn gather(&mut self, d: &GatherDimensions, slice_sizes: &[i64]) -> Result<()> {
        let [x, indices] = self.take()?;
        self.gather_from(x, indices, d, slice_sizes)
    }

    pub(super) fn gather_from(
        &mut self,
        x: TypedValue,
        indices: TypedValue,
        d: &GatherDimensions,
        slice_sizes: &[i64],
    ) -> Result<()> {
        let sizes = self.sizes(slice_sizes, x.ty.rank(), "slice_sizes")?;
        let places = Places {
            collapsed: &d.collapsed_slice_dims,
            batching: &d.operand_batching_dims,
            index_batching: &d.start_indices_batching_dims,
            map: &d.start_index_map,
            vector: d.index_vector_dim,
        };
        let (windows, index) = self.windows(&x.ty.dims, &sizes, &indices, &places)?;
        let batch: Vec<usize> =
            rest(indices.ty.rank(), &[d.index_vector_dim], &[]).iter().map(|&i| indices.ty.dims[i]).collect();
        let kept = rest(x.ty.rank(), &d.collapsed_slice_dims, &d.operand_batching_dims);
        let window: Vec<usize> = kept.iter().map(|&i| sizes[i]).collect();
        let rank = batch.len() + window.len();
        self.distinct(&d.offset_dims, rank, "offset_dims")?;
        self.ensure(d.offset_dims.len() == window.len(), || format!("offset_dims = {:?}", d.offset_dims))?;
        let straight = [&batch[..], &window[..]].concat();
        let ty = self.typed(x.ty.dtype, &straight)?;
        let v =
            self.kernel(Gather { windows, size: ty.dtype.size() }, &[x.value, index], &[], std::slice::from_ref(&ty))
                [0];
        // Permute the dimensions from [batch, window] to the order that `offset_dims` specifies.
        let mut permutation = vec![0; rank];
        for (i, &to) in rest(rank, &d.offset_dims, &[]).iter().enumerate() {
            permutation[to] = i;
        }
        for (i, &to) in d.offset_dims.iter().enumerate() {
            permutation[to] = batch.len() + i;
        }
        let y = self.permuted(&TypedValue { value: v, ty }, &permutation)?;
        self.finish(vec![y])
    }

    pub(super) fn scatter(&mut self, d: &ScatterDimensions) -> Result<()> {
        let operands = self.operands()?;
        let count = operands.len() / 2;
        self.ensure(count > 0 && operands.len() == 2 * count + 1, || format!("{} operands", operands.len()))?;
        let (tensors, indices, updates) = (&operands[..count], &operands[count], &operands[count + 1..]);
        let (x, u) = (&tensors[0], &updates[0]);
        for (t, v) in tensors.iter().zip(updates) {
            let fits = t.ty.dims == x.ty.dims && v.ty.dims == u.ty.dims && t.ty.dtype == v.ty.dtype;
            self.ensure(fits, || format!("an update has type {}, which does not fit {}", v.ty, t.ty))?;
        }
        self.distinct(&d.update_window_dims, u.ty.rank(), "update_window_dims")?;
        self.distinct(&d.inserted_window_dims, x.ty.rank(), "inserted_window_dims")?;
        let kept = rest(x.ty.rank(), &d.inserted_window_dims, &d.input_batching_dims);
        self.ensure(kept.len() == d.update_window_dims.len(), || {
            format!("update_window_dims = {:?}", d.update_window_dims)
        })?;
        let mut sizes = vec![1; x.ty.rank()];
        for (&to, &from) in kept.iter().zip(&d.update_window_dims) {
            sizes[to] = u.ty.dims[from];
        }
        let places = Places {
            collapsed: &d.inserted_window_dims,
            batching: &d.input_batching_dims,
            index_batching: &d.scatter_indices_batching_dims,
            map: &d.scatter_dims_to_operand_dims,
            vector: d.index_vector_dim,
        };
        if x.ty.elements() == 0 || u.ty.elements() == 0 {
            return self.finish(tensors.to_vec());
        }
        let (windows, index) = self.windows(&x.ty.dims, &sizes, indices, &places)?;
        let batch = rest(u.ty.rank(), &d.update_window_dims, &[]);
        let from: Vec<usize> = batch.iter().map(|&i| u.ty.dims[i]).collect();
        let of: Vec<usize> =
            rest(indices.ty.rank(), &[d.index_vector_dim], &[]).iter().map(|&i| indices.ty.dims[i]).collect();
        self.ensure(from == of, || format!("updates of type {} do not fit indices of type {}", u.ty, indices.ty))?;
        let order = [&batch[..], &d.update_window_dims[..]].concat();
        let region = self.body()?;
        let fast = if count == 1 { combine(region).and_then(|c| Body::fast(c, x.ty.dtype)) } else { None };
        let body = match fast {
            Some(body) => body,
            None => {
                let types = self.reducer_types(tensors)?;
                let f = self.scalar_fn(region, &types)?;
                self.ensure(f.results[..] == types[..count], || format!("the body returns {:?}", f.results))?;
                Body::Any(f)
            }
        };
        let mut ins: Vec<ValueIndex> = tensors.iter().map(|t| t.value).collect();
        ins.push(index);
        for update in updates {
            let update = self.permuted(update, &order)?;
            ins.push(update.value);
        }
        ins.extend(body.captured());
        let types: Vec<TensorType> = tensors.iter().map(|t| t.ty.clone()).collect();
        let starts: Vec<Option<u16>> = (0..count).map(|i| u16::try_from(i).ok()).collect();
        let sizes = types.iter().map(|t| t.dtype.size()).collect();
        let outs = self.kernel(Scatter { windows, sizes, body }, &ins, &starts, &types);
        self.finish(outs.into_iter().zip(types).map(|(v, ty)| TypedValue { value: v, ty }).collect())
    }
}
